/* A forecast as result tables. */
#include "base/forecast.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct lk_column point_columns[] = {
    {"gpus",             "GPUs",        LK_DIM_NONE,  -1},
    {"nodes",            "nodes",       LK_DIM_NONE,  -1},
    {"local_batch",      "local batch", LK_DIM_NONE,  -1},
    {"accumulation",     "accum.",      LK_DIM_NONE,  -1},
    {"bucket_cap_bytes", "bucket cap",  LK_DIM_BYTES, -1},
    {"step_s",           "step",        LK_DIM_TIME,  -1},
    {"step_lo_s",        "from",        LK_DIM_TIME,  -1},
    {"step_hi_s",        "to",          LK_DIM_TIME,  -1},
    {"throughput_per_s", "samples/s",   LK_DIM_NONE,  1 },
    {"efficiency",       "efficiency",  LK_DIM_NONE,  3 },
    {"efficiency_lo",    "from",        LK_DIM_NONE,  3 },
    {"efficiency_hi",    "to",          LK_DIM_NONE,  3 },
    {"measured_step_s",  "measured",    LK_DIM_TIME,  -1},
    {"evidence",         "evidence",    LK_DIM_NONE,  -1},
};

static const struct lk_column backtest_columns[] = {
    {"what",        "held out",    LK_DIM_NONE, -1},
    {"measured_s",  "measured",    LK_DIM_TIME, -1},
    {"predicted_s", "predicted",   LK_DIM_TIME, -1},
    {"lo_s",        "from",        LK_DIM_TIME, -1},
    {"hi_s",        "to",          LK_DIM_TIME, -1},
    {"error_pct",   "error, %",    LK_DIM_NONE, 1 },
    {"inside",      "in the band", LK_DIM_NONE, -1},
};

/* One column a loss, in the order of LK_LOSS_LIST. */
#define LOSS_COLUMN(row, key, text) {key "_s", key, LK_DIM_TIME, -1},
static const struct lk_column loss_columns[] = {
    {"gpus",             "GPUs",        LK_DIM_NONE,  -1},
    {"local_batch",      "local batch", LK_DIM_NONE,  -1},
    {"accumulation",     "accum.",      LK_DIM_NONE,  -1},
    {"bucket_cap_bytes", "bucket cap",  LK_DIM_BYTES, -1},
    {"step_s",           "step",        LK_DIM_TIME,  -1},
    LK_LOSS_LIST(LOSS_COLUMN)
};
#undef LOSS_COLUMN

static const struct lk_column gain_columns[] = {
    {"gain_pct",    "gain, %", LK_DIM_NONE, 1 },
    {"gain_lo_pct", "from",    LK_DIM_NONE, 1 },
    {"gain_hi_pct", "to",      LK_DIM_NONE, 1 },
    {"verdict",     "verdict", LK_DIM_NONE, -1},
};

static bool has_gains(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].gain.known)
            return true;
    return false;
}

size_t lk_forecast_axis_columns(const struct lk_forecast *f, struct lk_column *columns, size_t n)
{
    for (size_t i = 0; i < f->n_axes; i++)
        columns[n++] = (struct lk_column){f->axes[i], f->axes[i], LK_DIM_NONE, -1};
    return n;
}

enum lk_status lk_forecast_axis_cells(struct lk_table *t, const struct lk_forecast *f,
                                      const struct lk_forecast_point *p)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < f->n_axes; i++)
        if (*p->words[i])
            LK_TRY(lk_table_text(t, f->axes[i], "%s", p->words[i]));
out:
    return st;
}

static enum lk_status gain_cells(struct lk_table *t, const struct lk_gain *g)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_number(t, "gain_pct", 100 * (g->ratio - 1)));
    LK_TRY(lk_table_number(t, "gain_lo_pct", 100 * (g->lo - 1)));
    LK_TRY(lk_table_number(t, "gain_hi_pct", 100 * (g->hi - 1)));
    if (g->verdict)
        LK_TRY(lk_table_text(t, "verdict", "%s", lk_verdict_name(g->verdict)));
out:
    return st;
}

enum lk_status lk_forecast_point_row(struct lk_table *t, const struct lk_forecast *f,
                                     const struct lk_forecast_point *p)
{
    const struct {
        const char *column;
        double value;
    } numbers[] = {
        {"gpus",             p->gpus             },
        {"nodes",            p->nodes            },
        {"local_batch",      p->local_batch      },
        {"accumulation",     p->accumulation     },
        {"bucket_cap_bytes", (double)p->cap_bytes},
        {"step_s",           p->step_s           },
        {"step_lo_s",        p->step_lo_s        },
        {"step_hi_s",        p->step_hi_s        },
        {"throughput_per_s", p->throughput_per_s },
        {"efficiency",       p->efficiency       },
        {"efficiency_lo",    p->efficiency_lo    },
        {"efficiency_hi",    p->efficiency_hi    },
        {"measured_step_s",  p->measured_step_s  },
    };
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    for (size_t i = 0; i < LK_COUNT(numbers); i++)
        LK_TRY(lk_table_number(t, numbers[i].column, numbers[i].value));
    LK_TRY(lk_table_text(t, "evidence", "%s",
                         *p->evidence_text ? p->evidence_text : lk_evidence_name(p->evidence)));
    LK_TRY(lk_forecast_axis_cells(t, f, p));
    if (p->gain.known)
        LK_TRY(gain_cells(t, &p->gain));
out:
    return st;
}

enum lk_status lk_forecast_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_column
        columns[LK_COUNT(point_columns) + LK_FORECAST_AXES_MAX + LK_COUNT(gain_columns)];
    struct lk_table *t = NULL;
    size_t n = LK_COUNT(point_columns);
    char title[256];

    memcpy(columns, point_columns, sizeof point_columns);
    n = lk_forecast_axis_columns(f, columns, n);
    for (size_t i = 0; has_gains(f) && i < LK_COUNT(gain_columns); i++)
        columns[n++] = gain_columns[i];
    snprintf(title, sizeof title, "Forecast of %s on %s; efficiency against %s, %.0f %% interval",
             f->job, f->cluster, f->reference, 100 * f->level);
    LK_TRY(lk_table_create(title, columns, n, &t));
    for (size_t i = 0; i < f->n_points; i++)
        LK_TRY(lk_forecast_point_row(t, f, &f->points[i]));
    for (size_t i = 0; i < f->n_notes; i++)
        LK_TRY(lk_table_note(t, "%s", f->notes[i]));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

static enum lk_status backtest_row(struct lk_table *t, const struct lk_backtest *b)
{
    bool inside = b->measured_s >= b->lo_s && b->measured_s <= b->hi_s;
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "what", "%s", b->what));
    LK_TRY(lk_table_number(t, "measured_s", b->measured_s));
    LK_TRY(lk_table_number(t, "predicted_s", b->predicted_s));
    LK_TRY(lk_table_number(t, "lo_s", b->lo_s));
    LK_TRY(lk_table_number(t, "hi_s", b->hi_s));
    LK_TRY(lk_table_number(t, "error_pct", 100 * (b->predicted_s / b->measured_s - 1)));
    LK_TRY(lk_table_text(t, "inside", "%s", inside ? "yes" : "no"));
out:
    return st;
}

enum lk_status lk_forecast_backtest_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    double sum = 0;
    size_t inside = 0;

    LK_TRY(lk_table_create("Back-test: runs that were held out and predicted from the others",
                           backtest_columns, LK_COUNT(backtest_columns), &t));
    for (size_t i = 0; i < f->n_backtests; i++) {
        const struct lk_backtest *b = &f->backtests[i];

        LK_TRY(backtest_row(t, b));
        sum += fabs(b->predicted_s / b->measured_s - 1);
        inside += b->measured_s >= b->lo_s && b->measured_s <= b->hi_s;
    }
    if (f->n_backtests)
        LK_TRY(lk_table_note(t, "mean absolute error %.1f %%, %zu of %zu inside the interval",
                             100 * sum / (double)f->n_backtests, inside, f->n_backtests));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* A loss below this share of the step is rounding of the mean over draws. */
#define LOSS_RESOLUTION 1e-6

static enum lk_status loss_row(struct lk_table *t, const struct lk_forecast_point *p)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_number(t, "gpus", p->gpus));
    LK_TRY(lk_table_number(t, "local_batch", p->local_batch));
    LK_TRY(lk_table_number(t, "accumulation", p->accumulation));
    LK_TRY(lk_table_number(t, "bucket_cap_bytes", (double)p->cap_bytes));
    LK_TRY(lk_table_number(t, "step_s", p->step_s));
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        bool seen = !(fabs(p->losses_s[i]) <= LOSS_RESOLUTION * p->step_s); /* NaN: not known */

        LK_TRY(lk_table_number(
            t, loss_columns[LK_COUNT(loss_columns) - LK_LOSS_COUNT + (size_t)i].name,
            seen ? p->losses_s[i] : 0.0));
    }
out:
    return st;
}

enum lk_status lk_forecast_loss_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Where the forecast step goes, mean over ranks", loss_columns,
                           LK_COUNT(loss_columns), &t));
    for (size_t i = 0; i < f->n_points; i++)
        LK_TRY(loss_row(t, &f->points[i]));
    LK_TRY(lk_table_note(
        t, "the losses are those that lockstep analyze measures; rest closes the sum"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
