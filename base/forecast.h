/*
 * The forecast artefact (forecast.json and .csv): predicted step time and efficiency with interval,
 * evidence and back-test. Written by predict and whatif.
 */
#ifndef LK_BASE_FORECAST_H
#define LK_BASE_FORECAST_H

#include "base/status.h"
#include "base/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_FORECAST_SCHEMA  "lockstep-forecast"
#define LK_FORECAST_VERSION 1

/* X(grade, name): best first. */
#define LK_EVIDENCE_LIST(X)                                                                        \
    X(LK_EVIDENCE_MEASURED, "measured")                                                            \
    X(LK_EVIDENCE_INTERPOLATED, "interpolated")                                                    \
    X(LK_EVIDENCE_EXTRAPOLATED, "extrapolated")                                                    \
    X(LK_EVIDENCE_PRESET, "preset")                                                                \
    X(LK_EVIDENCE_NONE, "none")

enum lk_evidence {
#define LK_EVIDENCE_ENUM_(grade, name) grade,
    LK_EVIDENCE_LIST(LK_EVIDENCE_ENUM_)
#undef LK_EVIDENCE_ENUM_
};

/*
 * Rows of the waterfall: where the step goes, s, mean over ranks. They sum to the step. The same
 * rows are measured by the profiler and predicted by the simulator.
 * X(row, key, text)
 */
#define LK_LOSS_LIST(X)                                                                            \
    X(LK_LOSS_IDEAL, "ideal", "ideal: compute, optimizer, input and gaps of the reference")        \
    X(LK_LOSS_INPUT, "input", "extra input wait")                                                  \
    X(LK_LOSS_SLOW_RANK, "slow_rank", "this rank's own slowness")                                  \
    X(LK_LOSS_COLOCATION, "colocation", "co-location of ranks")                                    \
    X(LK_LOSS_OVERLAP, "overlap", "overlap slowdown")                                              \
    X(LK_LOSS_STRAGGLER, "straggler", "exposed straggler wait")                                    \
    X(LK_LOSS_WIRE, "wire", "exposed queue and wire")                                              \
    X(LK_LOSS_OPTIMIZER, "optimizer", "growth of the optimizer")                                   \
    X(LK_LOSS_REST, "rest", "rest")

enum lk_loss {
#define LK_LOSS_ENUM_(row, key, text) row,
    LK_LOSS_LIST(LK_LOSS_ENUM_)
#undef LK_LOSS_ENUM_
        LK_LOSS_COUNT
};
const char *lk_loss_key(enum lk_loss row);
const char *lk_loss_text(enum lk_loss row);

/*
 * What planning adds to a point (sim/plan.h): numbers, NaN where an input is not known.
 * X(field, heading, dimension, digits); the field is the column and the JSON key as well.
 */
#define LK_PLAN_RESOURCE_LIST(X)                                                                   \
    X(memory_bytes, "memory", LK_DIM_BYTES, -1)                                                    \
    X(memory_lo_bytes, "from", LK_DIM_BYTES, -1)                                                   \
    X(memory_hi_bytes, "to", LK_DIM_BYTES, -1)                                                     \
    X(largest_batch, "largest batch", LK_DIM_NONE, -1)                                             \
    X(cost_per_step, "cost a step", LK_DIM_NONE, 4)                                                \
    X(cost_per_million, "cost of 1e6", LK_DIM_NONE, 2)                                             \
    X(energy_per_million_kWh, "kWh of 1e6", LK_DIM_NONE, 3)                                        \
    X(goodput, "goodput", LK_DIM_NONE, 3)                                                          \
    X(checkpoint_period_s, "checkpoint every", LK_DIM_TIME, -1)

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
    X(rate_noise, "l.r. noise", LK_DIM_NONE, 6)

#define LK_PLAN_LIST(X) LK_PLAN_RESOURCE_LIST(X) LK_PLAN_TARGET_LIST(X)

struct lk_plan {
    bool known; /* false: nothing here was filled */
#define LK_PLAN_FIELD_(field, heading, dim, digits) double field;
    LK_PLAN_LIST(LK_PLAN_FIELD_)
#undef LK_PLAN_FIELD_
    char memory_fit[16]; /* "yes", "perhaps", "no", "unknown"; empty: no memory to compare with */
    char fits_with[16];  /* where it is "no": the first ZeRO stage that would fit; or empty */
};
extern const struct lk_plan lk_plan_none; /* all NaN and empty */

/* X(verdict, name): of a what-if's points with as many GPUs. */
#define LK_VERDICT_LIST(X)                                                                         \
    X(LK_VERDICT_NONE, "")                                                                         \
    X(LK_VERDICT_BEST, "best")                                                                     \
    X(LK_VERDICT_TIE, "tie") /* not surely worse than the best */

enum lk_verdict {
#define LK_VERDICT_ENUM_(verdict, name) verdict,
    LK_VERDICT_LIST(LK_VERDICT_ENUM_)
#undef LK_VERDICT_ENUM_
        LK_VERDICT_COUNT
};

/* Throughput over that of the current configuration on as many GPUs. */
struct lk_gain {
    bool known;           /* false: nothing here was filled */
    double ratio, lo, hi; /* NaN: nothing to compare with */
    double certainty;     /* that it is above 1 */
    enum lk_verdict verdict;
};

/* The axes of a what-if that a point's own numbers do not say, and the words of each. */
enum { LK_FORECAST_AXES_MAX = 24, LK_FORECAST_WORD_BYTES = 32 };
typedef char lk_forecast_word[LK_FORECAST_WORD_BYTES];

struct lk_forecast_point {
    int gpus, nodes, local_batch, accumulation;
    uint64_t cap_bytes;
    double step_s, step_lo_s, step_hi_s;
    double throughput_per_s; /* samples of the job's unit */
    double efficiency, efficiency_lo, efficiency_hi;
    enum lk_evidence evidence;
    char evidence_text[64]; /* e.g. "extrapolated x4 on gpus" */
    double measured_step_s; /* mean of a run of exactly this configuration; NaN: none */
    double measured_lo_s, measured_hi_s;
    double losses_s[LK_LOSS_COUNT];
    struct lk_gain gain; /* of a what-if */
    struct lk_plan plan;
    lk_forecast_word words[LK_FORECAST_AXES_MAX]; /* of the forecast's axes; empty: as it is now */
};

/* A held-out run: predicted from the others. */
struct lk_backtest {
    char what[96]; /* e.g. "2 GPUs from 1", "local batch 8 from 2, 4, 16" */
    double predicted_s, lo_s, hi_s, measured_s;
};

struct lk_forecast {
    char *job, *cluster; /* names */
    char *reference;     /* what efficiency refers to, e.g. "1 GPU, local batch 4" */
    char *sample_unit;
    double level;                                /* of the intervals, 0.90 */
    lk_forecast_word axes[LK_FORECAST_AXES_MAX]; /* names, as columns have them */
    size_t n_axes;
    struct lk_forecast_point *points;
    size_t n_points, points_capacity;
    struct lk_backtest *backtests;
    size_t n_backtests, backtests_capacity;
    char **notes; /* e.g. "knee: 16 nodes", "no held-out evidence: prior model error used" */
    size_t n_notes, notes_capacity;
};

void lk_forecast_fini(struct lk_forecast *f); /* zeroes it; safe on a zeroed forecast */
enum lk_status lk_forecast_note(struct lk_forecast *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
enum lk_status lk_forecast_write(const char *path, const struct lk_forecast *f);
enum lk_status lk_forecast_read(const char *path, struct lk_forecast *out);
/* Does nothing but the count of GPUs tell two points of a forecast apart? */
bool lk_forecast_same_curve(const struct lk_forecast *f, const struct lk_forecast_point *a,
                            const struct lk_forecast_point *b);
/* The points (forecast.csv's columns, without the plan's) and the back-tests as result tables,
 * which borrow the axes' names from the forecast. */
enum lk_status lk_forecast_table(const struct lk_forecast *f, struct lk_table **out);
enum lk_status lk_forecast_backtest_table(const struct lk_forecast *f, struct lk_table **out);
/* One row a point, one column a loss: KEY_s. */
enum lk_status lk_forecast_loss_table(const struct lk_forecast *f, struct lk_table **out);
/*
 * What planning found, as tables: memory and cost of a step, and the target; those columns that
 * have a value somewhere. all: every point; else, of a what-if with many, the best ones. out[i] is
 * NULL where there is none.
 */
enum { LK_PLAN_TABLES = 2 };
enum lk_status lk_forecast_plan_tables(const struct lk_forecast *f, bool all,
                                       struct lk_table *out[LK_PLAN_TABLES]);
/* Appends a point to a table that has lk_forecast_table's columns, and perhaps more. */
enum lk_status lk_forecast_point_row(struct lk_table *t, const struct lk_forecast *f,
                                     const struct lk_forecast_point *p);
/* Appends a column for each axis to columns, which has room; returns the count. And a point's words
 * to the last row of a table that has them. */
size_t lk_forecast_axis_columns(const struct lk_forecast *f, struct lk_column *columns, size_t n);
enum lk_status lk_forecast_axis_cells(struct lk_table *t, const struct lk_forecast *f,
                                      const struct lk_forecast_point *p);
/* forecast.csv: the points' columns and the plan's. */
enum lk_status lk_forecast_csv_table(const struct lk_forecast *f, struct lk_table **out);
const char *lk_evidence_name(enum lk_evidence e);
const char *lk_verdict_name(enum lk_verdict v);

#endif
