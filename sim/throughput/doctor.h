/*
 * The doctor: which of several causes explains a few measured rates, and which short run would tell
 * them apart.
 *
 * Each cause is a hypothesis: the one step model (sim/throughput/step_prior.h) with something wrong
 * in it, whose size is not known and drawn from a prior. The odds of the causes are the ratios of
 * their evidence, the mean likelihood of the measured rates over draws of that size and of all that
 * the step model does not know; no cause is likelier than another beforehand.
 *
 * In a draw the compute of a micro-batch is what makes the model meet the rate of the fewest GPUs,
 * within its noise; how likely so much of the GPU's peak is reached weighs the draw, where the
 * model's operations and the peak are known. The other rates are then likely as far as the model
 * meets them: Student's t of 4 degrees of freedom, since rates have outliers.
 *
 * An experiment is another run, of another configuration or without something. Its worth is the
 * information on the cause to be expected of its rate, in bits. A result is a rate like the others.
 */
#ifndef LK_SIM_THROUGHPUT_DOCTOR_H
#define LK_SIM_THROUGHPUT_DOCTOR_H

#include "base/status.h"
#include "facts/config.h"
#include "sim/throughput/step_prior.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * X(cause, name, what it is, what is drawn): NONE is no fault: the step is as the machine's, and
 * what is lost is what the batch is too small for.
 */
#define LK_CAUSE_LIST(X)                                                                           \
    X(LK_CAUSE_NONE, "batch", "nothing is wrong: the batch is too small for the communication",    \
      "nothing")                                                                                   \
    X(LK_CAUSE_INPUT, "input", "the input pipeline delivers too few samples",                      \
      "a node's or a rank's rate, the latter hidden behind the step or not")                       \
    X(LK_CAUSE_HOST, "host", "the host launches work too slowly for the GPUs",                     \
      "its time over the GPU's, and how much ranks of a node slow it")                             \
    X(LK_CAUSE_NETWORK, "network", "collectives run slower than the links should allow",           \
      "how many times as long they take: 1.5 to 30")                                               \
    X(LK_CAUSE_NODES, "second-node", "the network between nodes is slower than it should be",      \
      "how many times as long collectives between nodes take: 1.5 to 30")                          \
    X(LK_CAUSE_STRAGGLER, "straggler", "one GPU computes more slowly than the others",             \
      "how many times as long it takes: 1.05 to 3, and which it is")                               \
    X(LK_CAUSE_SYNC, "sync", "gradients are reduced in every micro-batch, not in the last alone",  \
      "nothing")

enum lk_cause { LK_CAUSE_LIST(LK_WORD_VALUE) LK_CAUSE_COUNT };
const char *lk_cause_name(enum lk_cause c);
const char *lk_cause_text(enum lk_cause c);

/* How a run differs from training as it is. */
struct lk_trial {
    struct lk_config config;
    bool no_sync;   /* it is certain that gradients are reduced in the last micro-batch alone */
    bool synthetic; /* its samples are made on the GPU */
    bool apart;     /* each GPU trains a copy of its own, which waits for none */
    bool slowest;   /* of such copies: the rate is the slowest one's, times the GPUs */
};

struct lk_doctor_row {
    struct lk_trial trial;
    double throughput; /* samples a second of all GPUs */
};

struct lk_doctor_question {
    const struct lk_doctor_row *rows; /* two or more, of two counts of GPUs; borrowed */
    size_t n_rows;
    const struct lk_job *job; /* its gradients; borrowed, as the cluster is */
    const struct lk_cluster *cluster;
    double flops_per_sample; /* forward and backward; NaN: not known */
    double peak_flops;       /* of a GPU, a second; NaN: not known */
    bool batch_guessed;      /* the rows' local batch may be four times smaller or larger */
    size_t draws;            /* of each cause, e.g. 400 */
    uint64_t seed;
};

/* A trial that could be made. Copies apart tell two rates: of all, and of the slowest. */
struct lk_experiment {
    struct lk_trial trial;
    char name[24];               /* e.g. "synthetic", "batch-x4" */
    double bits;                 /* of information on the cause that its rate should bring */
    double rate[LK_CAUSE_COUNT]; /* that each cause makes likely; NaN: the cause is not possible */
};

enum { LK_EXPERIMENTS_MAX = 12 };
struct lk_diagnosis {
    double odds[LK_CAUSE_COUNT]; /* probability of each; 0: it is not possible here */
    double size[LK_CAUSE_COUNT]; /* of each, the mean: how many times as long what it slows takes;
                                    NaN: it has none */
    double expected;   /* rate of the row of most GPUs if nothing is wrong, samples a second */
    double peak_share; /* of its peak that a GPU reaches in the row of fewest; NaN: not known */
    struct lk_experiment experiments[LK_EXPERIMENTS_MAX]; /* by bits, most first */
    size_t n_experiments;
};

/* Weigh the causes. LK_EUSAGE: too few rows. LK_EEVIDENCE: nothing explains the rates, or the
 * cluster cannot say what collectives cost. */
enum lk_status lk_doctor(const struct lk_doctor_question *q, struct lk_diagnosis *out);

/* Set the trial of an experiment by its name, from the row of most GPUs; LK_EUSAGE: there is none
 * of that name, or it makes no sense here. */
enum lk_status lk_doctor_trial(const struct lk_doctor_question *q, const char *name,
                               struct lk_trial *out);

/* Return the likeliest cause; *tells: it is likelier than not, and than the next by 1.5 times. */
enum lk_cause lk_diagnosis_first(const struct lk_diagnosis *d, bool *tells);

#endif
