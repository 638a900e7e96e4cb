/*
 * Models that people name: how many parameters they have and how many operations a sample takes, so
 * that two rates, a model's name and a GPU's tell what a step should take.
 */
#ifndef LK_FACTS_KNOWN_MODELS_H
#define LK_FACTS_KNOWN_MODELS_H

#include "base/status.h"

#include <stddef.h>

struct lk_known_model {
    const char *name;
    double parameters;
    /* They are of a sample, forward and backward: a multiply-add is two, and backward takes twice
     * as many as forward. */
    double flops;
    const char *sample; /* what a sample is */
    const char *source;
};

extern const struct lk_known_model lk_known_models[];
extern const size_t lk_n_known_models;

/* Find a model; capitals, hyphens and low lines do not count. LK_EUSAGE names those that are known.
 */
enum lk_status lk_known_model_find(const char *name, const struct lk_known_model **out);

#endif
