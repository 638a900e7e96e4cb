/*
 * Score forecasts from a table of throughputs against runs on shaped links: from the throughputs of
 * 1 and 2 ranks and the 2-rank calibration that tests/net/validate or bench/net_torch.sh measured,
 * forecast 4 and 8 ranks, with different knowledge of the job:
 *
 *     ready        its gradients and when each is ready
 *     gradients    its gradients
 *     parameters   their count
 *     law alone    nothing; no cluster either, and no other bucket cap than the measured one
 *
 *     build/bench/net_throughput LIST.csv
 *
 * The list is bench/net's. Runs with a slow rank or link are left out: two throughputs do not say
 * which. Figures only: exit 1 when something could not be read or forecast.
 */
#include "base/array.h"
#include "base/stats.h"
#include "base/table.h"
#include "bench/lib/net_list.h"
#include "facts/gradients.h"
#include "facts/score.h"
#include "reports/print.h"
#include "sim/forecast/forecast.h"
#include "sim/throughput/throughput.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LEVEL = 0.90;
enum { DRAWS = 200 };

enum known { READY, GRADIENTS, PARAMETERS, LAW, KNOWN_COUNT };
static const char *const known_names[KNOWN_COUNT] = {"ready", "gradients", "parameters",
                                                     "law alone"};

struct item {
    struct net_run run;
    double measured_s;                    /* 0: left out */
    struct lk_scored scored[KNOWN_COUNT]; /* predicted NaN: it cannot be */
};

/* ---- Reading ---- */

static struct lk_scaling_point point_of(const struct lk_job_run *r)
{
    double step_s = lk_stats_mean(r->step_s, r->n_steps);

    return (struct lk_scaling_point){.config.world_size = r->config.world_size,
                                     .config.nodes = r->config.world_size, /* one rank a host */
                                     .config.local_batch = r->config.local_batch,
                                     .config.accumulation = r->config.accumulation,
                                     .throughput = r->config.world_size * r->config.local_batch *
                                                   r->config.accumulation / step_s,
                                     .config.cap_bytes = r->config.cap_bytes};
}

/* The 1- and 2-rank runs as a table; the single rank ran without buckets that matter. */
static enum lk_status make_table(const struct lk_job *j, struct lk_throughput_table *t)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_strdup(&t->name, j->name));
    LK_TRY(lk_array_grow(&t->points, &t->capacity, j->n_runs, sizeof *t->points));
    for (size_t i = 0; i < j->n_runs; i++)
        if (j->runs[i].config.world_size <= 2)
            t->points[t->n++] = point_of(&j->runs[i]);
    for (size_t i = 0; i < t->n; i++)
        t->points[i].config.cap_bytes = t->points[t->n - 1].config.cap_bytes;
out:
    return st;
}

/* ---- Forecasts ---- */

/* A job of which nothing but the count of parameters and the bucket limits is known. */
static enum lk_status count_job(const struct lk_job *j, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    double parameters = 0;

    for (size_t i = 0; i < j->n_tensors; i++)
        parameters += (double)j->tensors[i].elems;
    LK_TRY(lk_gradients_of_count(parameters, j->tensors[0].dtype, out));
    out->ddp_rule = j->ddp_rule;
    out->cap_bytes = j->cap_bytes;
    out->first_bytes = j->first_bytes;
out:
    return st;
}

static void even_ready(struct lk_job *j)
{
    for (size_t i = 0; i < j->n_tensors; i++)
        j->tensors[j->ready_order[i]].ready = (double)(i + 1) / (double)j->n_tensors;
}

static enum lk_status predict(struct item *item, struct lk_job *job,
                              const struct lk_cluster *cluster, struct lk_throughput_table *t,
                              enum known k)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_model m = {.job = job, .timed = k == READY, .cluster = cluster};
    const struct lk_axis_value ranks = {.count = item->run.ranks},
                               accumulation = {.count = item->run.accumulation},
                               cap = {.count = (int64_t)item->run.cap_bytes};
    struct lk_throughput_request q = {.model = k == LAW ? NULL : &m,
                                      .gpus_per_node = 1,
                                      .grid = {.axes[LK_AXIS_GPUS] = {&ranks, 1},
                                               .axes[LK_AXIS_ACCUMULATION] = {&accumulation, 1},
                                               .axes[LK_AXIS_BUCKET_CAP] = {&cap, k == LAW ? 0 : 1},
                                               .level = LEVEL,
                                               .draws = DRAWS,
                                               .seed = 1}};
    struct lk_evidence_source source = {0};
    struct lk_forecast f = {0};

    item->scored[k] = (struct lk_scored){item->measured_s, NAN, NAN, NAN};
    if (k == LAW && item->run.cap_bytes != t->points[0].config.cap_bytes)
        return LK_OK;
    LK_TRY(lk_throughput_evidence(t, &q, &source));
    LK_TRY(lk_forecast_run(&source, &q.grid, &f, NULL));
    item->scored[k] = (struct lk_scored){item->measured_s, f.points[0].step_s,
                                         f.points[0].step_lo_s, f.points[0].step_hi_s};
out:
    if (source.self)
        source.ops->close(source.self);
    lk_forecast_fini(&f);
    return st;
}

static enum lk_status forecast(struct item *item)
{
    enum lk_status st = LK_OK;
    struct lk_job job = {0}, count = {0};
    struct lk_cluster cluster = {0};
    struct lk_throughput_table t = {0};

    LK_TRY(net_run_evidence(&item->run, &job));
    LK_TRY(lk_cluster_read(item->run.cluster, &cluster));
    LK_TRY(make_table(&job, &t));
    LK_TRY(count_job(&job, &count));
    LK_TRY(predict(item, &job, &cluster, &t, READY));
    even_ready(&job);
    LK_TRY(predict(item, &job, &cluster, &t, GRADIENTS));
    LK_TRY(predict(item, &count, &cluster, &t, PARAMETERS));
    LK_TRY(predict(item, &count, &cluster, &t, LAW));
out:
    lk_throughput_fini(&t);
    lk_cluster_fini(&cluster);
    lk_job_fini(&job);
    lk_job_fini(&count);
    return st;
}

static enum lk_status read_item(const struct lk_csv *csv, size_t row, struct item *out)
{
    enum lk_status st = LK_OK;

    *out = (struct item){.measured_s = 0};
    LK_TRY(net_list_row(csv, row, &out->run));
    if (out->run.slow_rank || out->run.slow_link)
        return LK_OK;
    LK_TRY(net_run_step_s(&out->run, &out->measured_s));
    LK_TRY(forecast(out));
out:
    return st;
}

/* ---- Results ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define COLUMNS(X)                                                                                 \
    X("config",       "configuration", LK_DIM_NONE,  -1, i->run.group)                             \
    X("ranks",        "ranks",         LK_DIM_NONE,  -1, i->run.ranks)                             \
    X("cap",          "bucket cap",    LK_DIM_BYTES, -1, (double)i->run.cap_bytes)                 \
    X("accumulation", "accumulation",  LK_DIM_NONE,  -1, i->run.accumulation)                      \
    X("measured_s",   "measured",      LK_DIM_TIME,  0,  i->measured_s)                            \
    X("ready_s",      "ready",         LK_DIM_TIME,  0,  i->scored[READY].predicted)               \
    X("gradients_s",  "gradients",     LK_DIM_TIME,  0,  i->scored[GRADIENTS].predicted)           \
    X("lo_s",         "90 % from",     LK_DIM_TIME,  0,  i->scored[GRADIENTS].lo)                  \
    X("hi_s",         "to",            LK_DIM_TIME,  0,  i->scored[GRADIENTS].hi)                  \
    X("parameters_s", "parameters",    LK_DIM_TIME,  0,  i->scored[PARAMETERS].predicted)          \
    X("law_s",        "law alone",     LK_DIM_TIME,  0,  i->scored[LAW].predicted)

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status add_row(const struct item *i, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

static enum lk_status note_errors(const struct item *items, size_t n, struct lk_table *t)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;
    struct lk_score s;

    LK_TRY(lk_alloc(&v, n, sizeof *v));
    for (int k = 0; k < KNOWN_COUNT; k++) {
        for (size_t i = 0; i < n; i++)
            v[i] = items[i].scored[k];
        LK_TRY(lk_score_of(v, n, LEVEL, &s));
        LK_TRY(lk_table_note(t,
                             "%s: error of %zu mean %.1f %%, median %.1f %%, worst %.1f %%; %zu of "
                             "%zu inside, mean width %.0f %%, score %.2f",
                             known_names[k], s.errors.n, 100 * s.errors.mean, 100 * s.errors.median,
                             100 * s.errors.worst, s.inside, s.n, 100 * s.width, s.score));
    }
out:
    free(v);
    return st;
}

static enum lk_status compare(const char *list)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;
    struct item *items = NULL;
    struct lk_table *t = NULL;
    size_t n = 0;

    LK_TRY(net_list_load(list, &csv));
    LK_TRY(lk_alloc(&items, lk_csv_rows(csv) + 1, sizeof *items));
    LK_TRY(lk_table_create("Runs on shaped links, forecast from throughputs of 1 and 2 ranks",
                           columns, LK_COUNT(columns), &t));
    for (size_t i = 0; i < lk_csv_rows(csv); i++) {
        LK_TRY(read_item(csv, i, &items[n]));
        if (!(items[n].measured_s > 0))
            continue;
        LK_TRY(add_row(&items[n], t));
        n++;
    }
    LK_TRY(note_errors(items, n, t));
    LK_TRY(lk_report_table(t, LK_FORMAT_TEXT, "-"));
out:
    lk_table_destroy(t);
    free(items);
    lk_csv_free(csv);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: net_throughput LIST.csv\n");
        return 2;
    }
    if (compare(argv[1]) != LK_OK) {
        fprintf(stderr, "net_throughput: %s\n", lk_error_text());
        return 1;
    }
    return 0;
}
