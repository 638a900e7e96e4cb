/*
 * A misfit is what runs of several ranks take beyond the model. It stays in the part of the step
 * where it was seen: a forecast takes a rank's own work as many times as the runs did, adds what
 * they waited and communicated longer, and multiplies the whole step by what nothing explains.
 *
 * Own work that ranks of one a node have beyond what runs of one rank showed, slow ranks apart, is
 * what their exchange takes from compute, for nothing else is shared: a forecast models compute
 * less slow where there is less exchange, and as slow where there is more, since nobody saw that.
 *
 * The runs' losses tell the parts (facts/loss.h). Without them a run of one rank tells a rank's own
 * work, and all beyond it is exposed communication. With neither, nobody knows which part it is of:
 * any share of it may be exposed communication, and the rest multiplies the whole step.
 */
#ifndef LK_SIM_FORECAST_MISFIT_H
#define LK_SIM_FORECAST_MISFIT_H

#include "facts/config.h"
#include "sim/step/config.h"

#include <stdbool.h>

/* The parts of a modelled step, s: a rank's own work, with the wait for the slowest and with
 * optimizer and gaps, and what collectives add to it. */
struct lk_step_parts {
    double own_s, exposed_s;
};

/* The parts into which measured steps went. */
struct lk_misfit_seen {
    enum { LK_MISFIT_UNSEEN, LK_MISFIT_COMMUNICATES, LK_MISFIT_SPLIT } by;
    double exposed, rest;       /* SPLIT: shares of the measured step; UNSEEN: exposed's of what
                                   is beyond the model, rest 0 */
    double wait_s, optimizer_s; /* SPLIT: longer than modelled */
    double slow_s;              /* SPLIT: slower ranks than modelled, 0 or more */
};

struct lk_misfit {
    double own;                            /* measured over modelled */
    double exposed_s, wait_s, optimizer_s; /* beyond the model's */
    double whole;                          /* measured over what is explained */
    double beside; /* how much slower the exchange makes compute, relatively; own has none of it */
};

/* The exchange of a configuration's ranks in a step; one rank exchanges nothing. */
struct lk_meeting {
    double cost_s, bytes; /* of all collectives, each once, as modelled */
    double times;         /* how often a step has them, by bytes: small ones hardly count */
    bool between_nodes;
};
struct lk_meeting lk_meeting_of(const struct lk_config_model *m, const struct lk_config *c);

/* A configuration carries the misfit in proportion to its exchange: collectives over links of the
 * same kind are as much longer as their cost, those over other links only as they have more bytes.
 */
struct lk_misfit_carry {
    double exposed, wait, beside;
};
struct lk_misfit_carry lk_misfit_carry(const struct lk_meeting *from, const struct lk_meeting *to);

extern const struct lk_misfit lk_misfit_none;

/* Return the share of an unseen misfit that is exposed communication, at a quantile of 0 to 1. One
 * part is mostly to blame, but nobody knows which: the arcsine law, Jeffreys' prior of a share. The
 * estimate takes the median, a half. */
double lk_misfit_exposed(double quantile);

/* losses_s: measured, NULL: not known; modelled_s: the model's. own_known: runs of one rank tell a
 * rank's own work. */
struct lk_misfit_seen lk_misfit_seen(const double *losses_s, const double *modelled_s,
                                     bool own_known);
/* Return how much slower the exchange makes compute, relatively, of ranks of one a node, where runs
 * of one rank tell their own work. */
double lk_misfit_beside(const struct lk_misfit_seen *seen, double measured_s,
                        const struct lk_step_parts *modelled);
/* Compare a measured step with the model's parts: the step by the misfit is measured_s again. */
struct lk_misfit lk_misfit_of(const struct lk_misfit_seen *seen, double measured_s,
                              const struct lk_step_parts *modelled);
/* Return a share of a misfit, 0 to 1: none of it, all of it. */
struct lk_misfit lk_misfit_share(const struct lk_misfit *m, double share);
/* Return the step of a configuration with the modelled parts. */
double lk_misfit_step(const struct lk_misfit *m, const struct lk_misfit_carry *carry,
                      const struct lk_step_parts *modelled);
/* Return what ranks share of that step, where it is shared_s by the model. */
double lk_misfit_shared(const struct lk_misfit *m, const struct lk_misfit_carry *carry,
                        double shared_s);

#endif
