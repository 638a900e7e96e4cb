/*
 * A forecast artefact (forecast.json and .csv) has the predicted step time and efficiency of each
 * configuration asked for, with interval, evidence and back-test. `predict` and `whatif` write it.
 *
 * Times are seconds where the name ends in _s, intervals (lo, hi) have the forecast's level, and
 * money is in `currency`, which is that of the price of a GPU's hour.
 */
#ifndef LK_FACTS_FORECAST_H
#define LK_FACTS_FORECAST_H

#include "base/member.h"
#include "base/status.h"
#include "base/table.h"
#include "base/words.h"
#include "facts/config.h"
#include "facts/loss.h"

#include <stdbool.h>
#include <stddef.h>

#define LK_FORECAST_SCHEMA  "lockstep-forecast"
#define LK_FORECAST_VERSION 1

/* X(grade, name): how far a point lies from what was measured; the best grade first. */
#define LK_EVIDENCE_LIST(X)                                                                        \
    X(LK_EVIDENCE_MEASURED, "measured")                                                            \
    X(LK_EVIDENCE_INTERPOLATED, "interpolated")                                                    \
    X(LK_EVIDENCE_EXTRAPOLATED, "extrapolated")                                                    \
    X(LK_EVIDENCE_PRESET, "preset")                                                                \
    X(LK_EVIDENCE_NONE, "none")

enum lk_evidence { LK_EVIDENCE_LIST(LK_WORD_VALUE) };

/* The evidence in words: the grade, or "extrapolated", and by how much on which axes. */
enum { LK_EVIDENCE_TEXT_BYTES = 160 };
/* Append " x4 on gpus" and the like, if it is above 1, apart by commas after *joint. */
void lk_evidence_add_reach(char text[LK_EVIDENCE_TEXT_BYTES], const char **joint, double reach,
                           const char *axis);

/*
 * X(field, heading, dimension, digits): numbers that planning adds to a point
 * (sim/planning/plan.h), NaN where an input is not known. The field is the column and the JSON key
 * as well; digits are those of struct lk_column (base/table.h).
 *
 * Resources: memory of one GPU; the largest local batch that fits it; money a step, money and
 * energy a million samples; share of the time that is training when GPUs fail, and the time between
 * checkpoints that makes it largest.
 */
#define LK_PLAN_RESOURCE_LIST(X)                                                                   \
    X(memory_bytes, "memory", LK_DIM_BYTES, -1)                                                    \
    X(memory_lo_bytes, "from", LK_DIM_BYTES, -1)                                                   \
    X(memory_hi_bytes, "to", LK_DIM_BYTES, -1)                                                     \
    X(largest_batch, "largest batch", LK_DIM_NONE, -1)                                             \
    X(cost_per_step, "cost a step", LK_DIM_NONE, 4)                                                \
    X(cost_per_million, "cost of 1M samples", LK_DIM_NONE, 2)                                      \
    X(energy_per_million_kWh, "kWh of 1M samples", LK_DIM_NONE, 3)                                 \
    X(goodput, "goodput", LK_DIM_NONE, 3)                                                          \
    X(checkpoint_period_s, "checkpoint every", LK_DIM_TIME, -1)

/*
 * Target: E_min / E, the samples, hours and money that reach the target, the money that each hour
 * saved over the next smaller number of GPUs costs, the learning rate by each rule
 * (sim/planning/economics.h), and the probability that `plan`'s goal is reached
 * (sim/forecast/goal.h; NaN: the point cannot be chosen).
 */
#define LK_PLAN_TARGET_LIST(X)                                                                     \
    X(statistical_efficiency, "stat. eff.", LK_DIM_NONE, 3)                                        \
    X(samples_to_target, "samples to target", LK_DIM_NONE, 0)                                      \
    X(time_to_target_h, "hours to target", LK_DIM_NONE, 2)                                         \
    X(time_to_target_lo_h, "from", LK_DIM_NONE, 2)                                                 \
    X(time_to_target_hi_h, "to", LK_DIM_NONE, 2)                                                   \
    X(cost_to_target, "cost to target", LK_DIM_NONE, 2)                                            \
    X(cost_to_target_lo, "from", LK_DIM_NONE, 2)                                                   \
    X(cost_to_target_hi, "to", LK_DIM_NONE, 2)                                                     \
    X(cost_per_hour_saved, "cost an hour saved", LK_DIM_NONE, 2)                                   \
    X(rate_linear, "l.r. linear", LK_DIM_NONE, 6)                                                  \
    X(rate_sqrt, "l.r. sqrt", LK_DIM_NONE, 6)                                                      \
    X(rate_noise, "l.r. noise", LK_DIM_NONE, 6)                                                    \
    X(probability, "reaches the goal", LK_DIM_NONE, LK_TABLE_PERCENT)

#define LK_PLAN_LIST(X) LK_PLAN_RESOURCE_LIST(X) LK_PLAN_TARGET_LIST(X)

/* The plan of a point. */
struct lk_plan {
    bool known; /* false: no field of this struct is set */
#define LK_PLAN_FIELD_(field, heading, dim, digits) double field;
    LK_PLAN_LIST(LK_PLAN_FIELD_)
#undef LK_PLAN_FIELD_
    char memory_fit[16]; /* "yes", "perhaps", "no", "unknown"; empty: memory size unknown */
    char fits_with[16];  /* if "no": the first ZeRO stage that would fit; or empty */
};
extern const struct lk_plan lk_plan_none; /* all NaN and empty */

/* X(verdict, name): the rank of a what-if point among those with the same number of GPUs. */
#define LK_VERDICT_LIST(X)                                                                         \
    X(LK_VERDICT_NONE, "")                                                                         \
    X(LK_VERDICT_BEST, "best")                                                                     \
    X(LK_VERDICT_TIE, "tie") /* not significantly worse than the best */

enum lk_verdict { LK_VERDICT_LIST(LK_WORD_VALUE) LK_VERDICT_COUNT };

/* Throughput over that of the current configuration on the same number of GPUs. */
struct lk_gain {
    bool known;           /* false: no field of this struct is set */
    double ratio, lo, hi; /* NaN: no current configuration to compare with */
    double certainty;     /* probability that the ratio is above 1 */
    enum lk_verdict verdict;
};

/* The axes of a what-if that a point's own numbers do not show, and the values on them as words. */
enum { LK_FORECAST_AXES_MAX = 28, LK_FORECAST_WORD_BYTES = 32 };
typedef char lk_forecast_word[LK_FORECAST_WORD_BYTES];

/* The prediction for one configuration. */
struct lk_forecast_point {
    struct lk_config config; /* a file has its counts, batch and bucket cap; words say the rest */
    double step_s, step_lo_s, step_hi_s;
    double throughput_per_s; /* samples of all ranks a second, in the job's unit */
    double efficiency, efficiency_lo, efficiency_hi; /* throughput of a GPU over the reference's;
                                                        NaN: no reference */
    enum lk_evidence evidence;
    char evidence_text[LK_EVIDENCE_TEXT_BYTES]; /* e.g. "extrapolated x4 on gpus" */
    char reach_text[LK_EVIDENCE_TEXT_BYTES];    /* what of it goes beyond a preset's grade, e.g.
                                                   "; extrapolated x4 on gpus"; "": nothing. Files
                                                   do not have it */
    double measured_step_s; /* mean of a measured run of exactly this configuration; NaN: none */
    double measured_lo_s, measured_hi_s;
    double losses_s[LK_LOSS_COUNT]; /* by enum lk_loss */
    struct lk_gain gain;            /* set by a what-if */
    struct lk_plan plan;
    lk_forecast_word words[LK_FORECAST_AXES_MAX]; /* values on the axes; empty: unchanged */
};

/* A configuration that was measured, whether a point is asked for there or not. */
struct lk_forecast_measured {
    struct lk_config config;
    double step_s; /* mean of its runs, or its row of a table */
};

/* A back-test: a held-out run, predicted from the others. */
struct lk_backtest {
    char what[96]; /* e.g. "2 GPUs from 1", "local batch 8 from 2, 4, 16" */
    double predicted_s, lo_s, hi_s, measured_s;
};

/*
 * X(kind, name, unit of its figures): what can contradict what a forecast rests on, or answers.
 *
 * bound: a step was measured to be shorter than the model's least. backtests: so few of the runs
 * that were held out are inside their intervals as one forecast in twenty would have. interval: one
 * of them is far outside its own. odds: of the step model to the scaling law, by the rows of a
 * table. memory_of_run: a run was measured whose GPUs have too little memory for it. memory: a
 * configuration that is asked for takes more than a GPU has. critical_batch: a step has more
 * samples than the noise scale.
 */
#define LK_CONTRADICTION_LIST(X)                                                                   \
    X(LK_CONTRADICTION_BOUND, "bound", "seconds")                                                  \
    X(LK_CONTRADICTION_BACKTESTS, "backtests", "runs")                                             \
    X(LK_CONTRADICTION_INTERVAL, "interval", "seconds")                                            \
    X(LK_CONTRADICTION_ODDS, "odds", "ratio")                                                      \
    X(LK_CONTRADICTION_MEMORY_OF_RUN, "memory_of_run", "bytes")                                    \
    X(LK_CONTRADICTION_MEMORY, "memory", "bytes")                                                  \
    X(LK_CONTRADICTION_BATCH, "critical_batch", "samples")

enum lk_contradiction_kind { LK_CONTRADICTION_LIST(LK_WORD_VALUE) };

struct lk_contradiction {
    enum lk_contradiction_kind kind;
    char *refuted; /* "the step model of dgx-a100", "64 GPUs" */
    char *by;      /* what contradicts it: "t16.csv", "a GPU's memory" */
    char *says;    /* how, with both figures */
    char *instead; /* what answers in its place: "the scaling law alone"; NULL: nothing does */
    double found, allowed; /* the figures: what was measured or is there, and what it is held to */
};

/* A whole forecast; owns all strings and lists. */
struct lk_forecast {
    char *job, *cluster; /* names */
    char *reference;     /* the configuration with efficiency 1, e.g. "1 GPU, local batch 4" */
    char *sample_unit;   /* what a sample is, e.g. "sequence of 64 tokens" */
    char *currency;      /* of all money, e.g. "USD"; "": not known */
    int knee_gpus;       /* where weak scaling ends (sim/forecast/forecast.h); 0: not known */
    double level;        /* level of the intervals, 0.90 */
    lk_forecast_word axes[LK_FORECAST_AXES_MAX]; /* names of the axes, as columns show them */
    size_t n_axes;
    struct lk_forecast_point *points;
    size_t n_points, points_capacity;
    struct lk_forecast_measured *measured;
    size_t n_measured, measured_capacity;
    struct lk_backtest *backtests;
    size_t n_backtests, backtests_capacity;
    char **answer; /* sentences that say what matters, the first one first */
    size_t n_answer, answer_capacity;
    struct lk_contradiction *contradictions; /* each is in the answer's first sentences, too */
    size_t n_contradictions, contradictions_capacity;
    char **warnings; /* what a reader must know besides: inputs that look wrong, points left out */
    size_t n_warnings, warnings_capacity;
    char **assumed; /* what was assumed and not measured, each a few words, once */
    size_t n_assumed, assumed_capacity;
    char **notes; /* the details, e.g. what would tell each of the assumed */
    size_t n_notes, notes_capacity;
};

/* lk_forecast_init, _fini, _read and _write: base/member.h. */
LK_RECORD_FILE(lk_forecast);
/* Append a sentence to the answer, a warning, or a note (printf style). */
enum lk_status lk_forecast_say(struct lk_forecast *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
enum lk_status lk_forecast_warn(struct lk_forecast *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
enum lk_status lk_forecast_note(struct lk_forecast *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Append a contradiction with these figures; texts are copied, says is printf style. */
enum lk_status lk_forecast_contradict(struct lk_forecast *f, enum lk_contradiction_kind kind,
                                      const char *refuted, const char *by, double found,
                                      double allowed, const char *says, ...)
    __attribute__((format(printf, 7, 8)));
/* Name what was assumed, and note it: "assumed: WHAT: " and the rest, printf style. */
enum lk_status lk_forecast_assume(struct lk_forecast *f, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Return true if two points of a forecast have the same batch, accumulation and bucket cap and the
 * same words on all axes: they differ in GPUs and nodes only. */
bool lk_forecast_same_curve(const struct lk_forecast *f, const struct lk_forecast_point *a,
                            const struct lk_forecast_point *b);
/* Return true if the currency of a forecast's money is known. */
static inline bool lk_forecast_has_currency(const struct lk_forecast *f)
{
    return f->currency && *f->currency;
}
/* Return the largest loss of a point; LK_LOSS_IDEAL: none is known, or none is above 0.1 %. */
enum lk_loss lk_forecast_largest_loss(const struct lk_forecast_point *p);
/* Make result tables of the points (forecast.csv's columns, without the plan's) and of the
 * back-tests. The caller destroys these and the tables below; they borrow the axes' names from the
 * forecast, which outlives them. */
enum lk_status lk_forecast_table(const struct lk_forecast *f, struct lk_table **out);
/* Make the table of a what-if's best points at each count of GPUs, by throughput: `most` of them,
 * and the current configuration. Its columns are those of the points, and "remark". */
enum lk_status lk_forecast_best_table(const struct lk_forecast *f, size_t most,
                                      struct lk_table **out);
enum lk_status lk_forecast_backtest_table(const struct lk_forecast *f, struct lk_table **out);
/* Tabulate the contradictions; *out is NULL where there is none. */
enum lk_status lk_forecast_contradiction_table(const struct lk_forecast *f, struct lk_table **out);
/* Make a table of losses: one row a point, one column KEY_s for each loss. */
enum lk_status lk_forecast_loss_table(const struct lk_forecast *f, struct lk_table **out);
/*
 * Tabulate the plans: out[0] has LK_PLAN_RESOURCE_LIST, out[1] LK_PLAN_TARGET_LIST, both with those
 * columns alone that have a value at some point; out[i] is NULL when none has. all: a row for every
 * point; else a what-if with many points has rows for its best ones alone.
 */
enum { LK_PLAN_TABLES = 2 };
enum lk_status lk_forecast_plan_tables(const struct lk_forecast *f, bool all,
                                       struct lk_table *out[LK_PLAN_TABLES]);
/* Make forecast.csv: the points' columns and the plan's. */
enum lk_status lk_forecast_csv_table(const struct lk_forecast *f, struct lk_table **out);
LK_WORDS_DECLARE(lk_evidence, enum lk_evidence);
LK_WORDS_DECLARE(lk_verdict, enum lk_verdict);
LK_WORDS_DECLARE(lk_contradiction, enum lk_contradiction_kind);

#endif
