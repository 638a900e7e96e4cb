/*
 * The doctor: which of several causes explains a few measured rates, and which short run would tell
 * them apart.
 *
 * Each cause is a hypothesis: the one step model (sim/throughput/step_prior.h) with something wrong
 * in it, whose size is not known and drawn from a prior. The odds of the causes are the ratios of
 * their evidence, the mean likelihood of all that was measured over draws of that size and of what
 * the step model does not know; no cause is likelier than another beforehand. A draw in which the
 * cause makes the step of the most GPUs hardly longer explains nothing, and has no weight.
 *
 * A run tells measures: its rate, and, where it was profiled, how long its ranks work, wait for
 * input and for their hosts, and how long gradients move. In a draw the compute of a micro-batch is
 * what makes the model meet the rate of the fewest GPUs, within its noise; how likely so much of
 * the GPU's peak is reached weighs the draw, where the model's operations and the peak are known.
 * All other measures are then likely as far as the model meets them: Student's t of 4 degrees of
 * freedom, since measurements have outliers.
 *
 * An experiment is another run, of another configuration, without something, or profiled. Its worth
 * is the information on the cause to be expected of its measures, in bits. A result is evidence
 * like all other runs.
 */
#ifndef LK_SIM_THROUGHPUT_DOCTOR_H
#define LK_SIM_THROUGHPUT_DOCTOR_H

#include "base/status.h"
#include "base/words.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/job.h"

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

/*
 * X(measure, name, noise, floor, what it is): the noise is the scale of Student's t, of ln of the
 * measure; a time below the floor, a share of the step, is as good as none. Both are assumed: steps
 * vary, programs count differently, and the step model is simpler than a step. Times are of a step,
 * s. The median of two ranks is the faster one.
 */
#define LK_MEASURE_LIST(X)                                                                         \
    X(LK_MEASURE_RATE, "rate", 0.03, 0, "samples a second of all GPUs")                            \
    X(LK_MEASURE_WORK, "work", 0.06, 0, "the median rank computes, or waits for its host")         \
    X(LK_MEASURE_OWN, "own", 0.06, 0, "the same with its waits for batches, as tables have it")    \
    X(LK_MEASURE_SLOWEST, "slowest", 0.03, 0,                                                      \
      "such a time of the slowest rank over the median's; of copies apart, of their steps")        \
    X(LK_MEASURE_INPUT, "input", 0.15, 0.03,                                                       \
      "the rank that waits longest for batches does; others may then wait for it")                 \
    X(LK_MEASURE_GAP, "gap", 0.15, 0.03, "a GPU does nothing, since its host has not launched it") \
    X(LK_MEASURE_WIRE, "wire", 0.15, 0.01, "gradients move, all ranks having arrived")             \
    X(LK_MEASURE_REDUCED, "reduced", 0.03, 0, "times that each gradient is reduced")

enum lk_measure { LK_MEASURE_LIST(LK_WORD_VALUE) LK_MEASURE_COUNT };
LK_WORDS_DECLARE(lk_measure, enum lk_measure);

/* How a run differs from training as it is. */
struct lk_trial {
    struct lk_config config;
    bool no_sync;   /* it is certain that gradients are reduced in the last micro-batch alone */
    bool synthetic; /* its samples are made on the GPU */
    bool apart;     /* each GPU trains a copy of its own, which waits for none */
};

struct lk_doctor_row {
    struct lk_trial trial;
    double measured[LK_MEASURE_COUNT]; /* NaN: not known */
};
/* Return the row of a run of which the rate alone is known. */
struct lk_doctor_row lk_doctor_row_of(const struct lk_trial *trial, double rate);

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

/* Runs that could be made, of a minute or two together. */
enum { LK_EXPERIMENT_TRIALS = 2 };
struct lk_experiment {
    char name[24]; /* e.g. "synthetic", "batch-x4" */
    struct lk_trial trials[LK_EXPERIMENT_TRIALS];
    size_t n_trials;
    bool profiled;               /* they tell where their ranks' time goes */
    double bits;                 /* of information on the cause that it should bring */
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

/* Return the row of training as it is, with a rate, of fewest or of most GPUs, the first of
 * several; NULL: there is none. */
const struct lk_doctor_row *lk_doctor_end(const struct lk_doctor_question *q, bool most);

/* Set the trial of an experiment that tells rates, by its name, from the row of most GPUs;
 * LK_EUSAGE: there is none of that name, or it makes no sense here. */
enum lk_status lk_doctor_trial(const struct lk_doctor_question *q, const char *name,
                               struct lk_trial *out);

/* Return the likeliest cause; *tells: it is likelier than not, and than the next by 1.5 times. */
enum lk_cause lk_diagnosis_first(const struct lk_diagnosis *d, bool *tells);

#endif
