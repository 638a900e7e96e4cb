/*
 * A source of evidence predicts configurations by a table of functions. There are two: the step
 * model of a job on a cluster (sim/forecast/step_evidence.c), and a table of throughputs with the
 * scaling law, alone or weighed with a step model (sim/throughput/throughput_evidence.c).
 * sim/forecast/forecast.h turns any of them into a forecast, sim/forecast/backtest.h into
 * back-tests.
 */
#ifndef LK_SIM_FORECAST_EVIDENCE_H
#define LK_SIM_FORECAST_EVIDENCE_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/knowledge.h"

#include <stdbool.h>
#include <stddef.h>

/* What no run of the job varied, so that it is drawn from a prior. */
struct lk_assumed_terms {
    double fixed_sd; /* of the share of a micro-batch that a step takes once, where no run had so
                        few or so many micro-batches; 0: known */
    bool misfit;     /* of which part the runs' time beyond the model is */
    bool hook;       /* what a hook computes */
    bool shard;      /* the collectives of a sharded step, and what their launches cost */
};

/* The step time of one configuration. Draw i of all predictions of a source is the same Monte Carlo
 * draw, so that ratios may be formed draw by draw. */
struct lk_prediction {
    struct lk_config config;
    double step_s, lo_s, hi_s;
    double bound_s;  /* no step is shorter, unless it was measured; 0: not known */
    double *draws_s; /* NULL: the source has none */
    size_t n_draws;
    enum lk_evidence evidence;
    char evidence_text[LK_EVIDENCE_TEXT_BYTES], reach_text[LK_EVIDENCE_TEXT_BYTES];
    double batch_extrapolation; /* extrapolation factor of the local batch; 1: inside the measured
                                   ones */
    double measured_s, measured_lo_s, measured_hi_s; /* mean of this configuration's runs, or NaN */
    int anchor_world_size;                           /* GPUs of the anchor's runs; 0: no anchor */
    int costless_world_size; /* GPUs of a nearer run that the cluster has no cost for; 0: none */
    double scale_share; /* of the step, for which a doubling's error of the scale counts: doublings
                           from what was measured x share of collectives; 0: not known */
    double anchor_factor;           /* what runs multiply the model's step by; 1: no anchor */
    double losses_s[LK_LOSS_COUNT]; /* parts of step_s, which they sum to; NaN: not known. What
                                       the model does not explain of measured steps is the rest */
    bool losses_measured;           /* by an analysis of these runs, not by the model */
    bool rank_sd_assumed, transient_assumed, overlap_assumed, kappa_unknown;
    struct lk_assumed_terms assumed;
    double
        choice_s;         /* on a machine with other links than the one as it is: a step is so much
                             longer      at the most, with compute that its collectives slow, by what NCCL
                             chooses      there than by what it chooses here; 0: no longer, or not known */
    char choice_text[96]; /* of the collective that takes most of it */
    double law_s;         /* predict_held_out: the step by the scaling law alone; 0: not known */
};
/* Make a prediction of which nothing is known: NaN, no draws. */
void lk_prediction_init(struct lk_prediction *p, const struct lk_config *c);
/* Return true if what the configuration gains on throughput is the model's word alone: it is
 * sharded, and no run of the job was. It is not named the best. */
bool lk_prediction_gain_unproven(const struct lk_prediction *p);
/* Raise an estimate below bound_s to it, with its interval and draws in proportion, and then every
 * end and draw that is below it. */
void lk_prediction_raise(struct lk_prediction *p);
void lk_prediction_fini(struct lk_prediction *p); /* zeroes it; safe on a zeroed one */
/* Add what a prediction assumed to what others did. */
void lk_assumed_terms_add(struct lk_assumed_terms *u, const struct lk_prediction *p);
/* Note what was drawn because no run varied it; nothing was: no note. */
enum lk_status lk_assumed_terms_note(const struct lk_assumed_terms *u, struct lk_forecast *f);

struct lk_change;
struct lk_hypothesis;

/* A configuration that was measured, with the mean step of its runs; NaN: only its compute was. */
struct lk_measured {
    struct lk_config config;
    double step_s;
};

/* A back-test holds one of these out of what was measured (lk_backtest_leaves in
 * sim/forecast/backtest.h).
 */
enum lk_held {
    LK_HELD_SCALE,        /* this number of GPUs and all larger ones */
    LK_HELD_BATCH,        /* a local batch */
    LK_HELD_CAP,          /* a bucket cap, where ranks reduce */
    LK_HELD_ACCUMULATION, /* an accumulation */
    LK_HELD_SETTING,      /* a bucket cap with an accumulation, each of which is left with others */
    LK_HELD_COUNT
};

/* `self` is the source's own state. Hooks that can refuse return LK_EEVIDENCE, which names what is
 * missing, or LK_EUSAGE. */
struct lk_evidence_ops {
    /* Does the work that all predictions share, sets the forecast's names and what its efficiency
     * refers to, and adds the notes that come first. The hooks below follow it. */
    enum lk_status (*prepare)(void *self, struct lk_forecast *out);
    /* Predicts with interval, grade, losses and draws. *out is freed by lk_prediction_fini. */
    enum lk_status (*at)(void *self, const struct lk_config *c, struct lk_prediction *out);
    /* Predicts the step alone: for searches. */
    enum lk_status (*estimate)(void *self, const struct lk_config *c, double *out_step_s);
    /*
     * Predicts a measured configuration from those that are left when this of it is held out. It
     * works before `prepare`. LK_EEVIDENCE: too little is left. (optional) NULL means no
     * back-tests.
     */
    enum lk_status (*predict_held_out)(void *self, const struct lk_config *c, enum lk_held held,
                                       struct lk_prediction *out);
    /* Moves a configuration to the ranks and nodes that its efficiency refers to; world_size 0:
     * none. */
    enum lk_status (*set_reference)(const void *self, struct lk_config *c);
    /*
     * Makes the same evidence for a machine that is altered (sim/step/altered_cluster.h), on
     * which at most so many GPUs are asked for. *out follows these hooks, borrows from self, and is
     * ended by `close`. (optional) NULL means that no other machine can be predicted.
     */
    enum lk_status (*alter)(void *self, const struct lk_change *change, int world_size, void **out);
    /*
     * Makes the same evidence with one more measurement (sim/forecast/hypothesis.h), of the same
     * machine. *out follows these hooks, is prepared by its own, borrows from self, which is
     * prepared, and is ended by `close`. (optional) NULL means that none can be added.
     */
    enum lk_status (*with)(void *self, const struct lk_hypothesis *h, void **out);
    /* Frees self. NULL is legal for self. (optional) NULL means that nothing is to be freed. */
    void (*close)(void *self);
    /* Adds the notes that come last. (optional) NULL means none. */
    enum lk_status (*conclude)(const void *self, const struct lk_prediction *const *points,
                               size_t n, struct lk_forecast *out);
};

/* A source, with what the grid of a request starts from. All is borrowed. */
struct lk_evidence_source {
    const struct lk_evidence_ops *ops;
    void *self;
    const struct lk_cluster *cluster; /* its nodes take the ranks */
    const struct lk_job *job;         /* its rule sets the first bucket's limit; NULL: no rule */
    enum lk_knowledge knows;
    const struct lk_measured *measured; /* different configurations, for back-tests */
    size_t n_measured;
    struct lk_config current; /* the configuration that the lists of a request change */
    int knee_nodes; /* the knee is sought up to so many nodes; 0: up to the most of the forecast's
                       points; -1: nothing tells where it is */
};

#endif
