/*
 * A model on a device with memory for its gradients and one random batch, and what all models are
 * tested for: gradients are the loss's derivatives, the cpu follows the reference, and backward
 * adds to gradients when it is told to.
 */
#ifndef LK_TESTS_MODEL_BENCH_H
#define LK_TESTS_MODEL_BENCH_H

#include "runtime/device/device.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A model with a batch of `samples`; context: the tokens of a text, 0: a sample as the model's. */
struct bench_row {
    struct lk_model_config config;
    int samples, context;
};

/* All is the bench's. */
struct bench {
    struct lk_device *device;
    struct lk_stream *stream;
    struct lk_model *model;
    struct lk_recorder *recorder; /* NULL: nothing is recorded */
    void *grads;                  /* one behind another; NULL: of a model that is described only */
    size_t elems;                 /* of all parameters */
    struct lk_batch batch;
    void *inputs;
    int32_t *targets;
    bool wide; /* reals are double */
};

/* Open a bench, or end the test. Gradients are large numbers that must be overwritten. The recorder
 * may be NULL; bench_close destroys it. */
void bench_open_recorded(struct bench *b, const char *device, const struct bench_row *r,
                         struct lk_recorder *recorder);
void bench_open(struct bench *b, const char *device, const struct bench_row *r);
void bench_close(struct bench *b);

/* Return a real of the device's width. */
double bench_real(const struct bench *b, const void *x, size_t i);
/* Run a forward and return its loss. */
double bench_loss(struct bench *b);
/* Run a backward; hook may be NULL. */
void bench_backward(struct bench *b, double seed, bool accumulate, const struct lk_grad_hook *hook);
/* Add normal numbers of this deviation to all parameters, the same ones on all devices. */
void bench_perturb(struct bench *b, double deviation);

/* Compare gradients with central differences of the loss with step h, of a perturbed model on the
 * device reference, for about `most` elements of each parameter; 0: for all. */
void bench_check_derivatives(const struct bench_row *r, double deviation, double h,
                             double tolerance, size_t most);
/* Compare losses, gradients and buffers of the devices cpu and reference, of perturbed models. */
void bench_check_devices(const struct bench_row *r, double deviation, double tolerance);
/* Check that a backward adds to the gradients of another when it is told to. */
void bench_check_accumulation(const struct bench_row *r, double tolerance);
/* Check that a model is refused with LK_EUSAGE and this text. */
void bench_check_refusal(const struct lk_model_config *config, const char *text);

#endif
