/* Make the answer of `lockstep run` and `replay` from the table of their grid. */
#include "base/array.h"
#include "base/units.h"
#include "commands/run_grid.h"
#include "commands/run_sharding.h"
#include "facts/forecast_answer.h"
#include "profiler/analysis/host_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A better efficiency is the reference's fault: more ranks do not compute faster. */
static const double implausible = 1.05;

/* A row of the table, as the answer needs it; NaN: it has no such number. */
struct point {
    double ranks, local_batch, accumulation, cap_bytes, step_s, lo_s, hi_s, rate, efficiency;
};

static double number_of(const struct lk_table *t, size_t row, const char *column)
{
    const struct lk_cell *cell = lk_table_cell(t, row, column);

    return cell && cell->type == LK_CELL_NUMBER ? cell->number : NAN;
}

static struct point point_of(const struct lk_table *t, size_t row)
{
    return (struct point){.ranks = number_of(t, row, "ranks"),
                          .local_batch = number_of(t, row, "local_batch"),
                          .accumulation = number_of(t, row, "accumulation"),
                          .cap_bytes = number_of(t, row, "bucket_cap"),
                          .step_s = number_of(t, row, "step_s"),
                          .lo_s = number_of(t, row, "step_lo_s"),
                          .hi_s = number_of(t, row, "step_hi_s"),
                          .rate = number_of(t, row, "samples_per_s"),
                          .efficiency = number_of(t, row, "efficiency")};
}

/* Return the row of the most ranks; of several, one on the scaling curve. */
static struct point largest(const struct lk_table *t)
{
    struct point found = point_of(t, 0);

    for (size_t i = 1; i < t->n_rows; i++) {
        const struct point p = point_of(t, i);

        if (p.ranks > found.ranks ||
            (p.ranks == found.ranks && isnan(found.efficiency) && !isnan(p.efficiency)))
            found = p;
    }
    return found;
}

/* Return the fewest ranks of the scaling curve; 0: there is none. */
static int reference_ranks(const struct lk_table *t)
{
    double least = INFINITY;

    for (size_t i = 0; i < t->n_rows; i++) {
        const struct point p = point_of(t, i);

        if (!isnan(p.efficiency) && p.ranks < least)
            least = p.ranks;
    }
    return isinf(least) ? 0 : (int)least;
}

static enum lk_status say(const struct lk_table *t, const struct run_options *o,
                          struct lk_page *page)
{
    const char *what = o->device == RUN_DEVICE_CUDA ? "GPU" : "rank";
    const struct point p = largest(t);
    int ranks = (int)p.ranks, reference = reference_ranks(t);
    char step[32], interval[96], rate[32], efficiency[96] = "";

    (void)lk_units_format(LK_DIM_TIME, p.step_s, step, sizeof step);
    if (p.hi_s > p.lo_s)
        (void)lk_units_interval(LK_DIM_TIME, p.step_s, p.lo_s, p.hi_s, interval, sizeof interval);
    else
        snprintf(interval, sizeof interval, "one step, which tells no spread");
    if (reference && reference < ranks)
        snprintf(efficiency, sizeof efficiency, ", %.0f %% of linear scaling%s against %d %s%s",
                 100 * p.efficiency, o->strong ? " (strong)" : "", reference, what,
                 reference == 1 ? "" : "s");
    return lk_page_say(page, "%d %s%s: %s a step (%s), %s samples/s%s.", ranks, what,
                       ranks == 1 ? "" : "s", step, interval,
                       lk_answer_number(p.rate, rate, sizeof rate), efficiency);
}

static enum lk_status add_values(const struct lk_table *t, size_t row, struct lk_page *page)
{
    const struct point p = point_of(t, row);
    enum lk_status st = LK_OK;
    char *labels = NULL;

    LK_TRY(lk_asprintf(&labels,
                       "gpus=\"%.0f\",local_batch=\"%.0f\",accumulation=\"%.0f\","
                       "bucket_cap_bytes=\"%.0f\"",
                       p.ranks, p.local_batch, p.accumulation, p.cap_bytes));
    LK_TRY(lk_page_value(page, "efficiency", labels, LK_DIM_NONE, p.efficiency));
    LK_TRY(lk_page_value(page, "step_s", labels, LK_DIM_TIME, p.step_s));
    LK_TRY(lk_page_value(page, "throughput_per_s", labels, LK_DIM_NONE, p.rate));
out:
    free(labels);
    return st;
}

/* Return the row of these ranks with most samples a second, other than `except` (-1: none); -1:
 * there is none. */
static int fastest(const struct lk_table *t, double ranks, int except)
{
    int found = -1;

    for (size_t i = 0; i < t->n_rows; i++) {
        const struct point p = point_of(t, i);

        if (p.ranks == ranks && (int)i != except && !isnan(p.efficiency) &&
            (found < 0 || p.rate > point_of(t, (size_t)found).rate))
            found = (int)i;
    }
    return found;
}

/* Name the fastest of several settings on the most ranks, and whether the runs tell it from the
 * next. */
static enum lk_status say_fastest(const struct lk_table *t, const struct run_options *o,
                                  struct lk_page *page)
{
    const double ranks = largest(t).ranks;
    int first = fastest(t, ranks, -1), next = first < 0 ? -1 : fastest(t, ranks, first);
    struct point a, b;
    char accumulation[48] = "", cap[48] = "", size[32];
    double most, least;

    if (next < 0)
        return LK_OK;
    a = point_of(t, (size_t)first);
    b = point_of(t, (size_t)next);
    most = a.rate * a.step_s / a.hi_s;
    least = b.rate * b.step_s / b.lo_s;
    if (o->accumulations.n)
        snprintf(accumulation, sizeof accumulation, " accumulation %.0f", a.accumulation);
    (void)lk_units_format(LK_DIM_BYTES, a.cap_bytes, size, sizeof size);
    if (o->bucket_caps.n)
        snprintf(cap, sizeof cap, "%s bucket cap %s", *accumulation ? "," : "", size);
    return lk_page_say(page, "Most samples/s there:%s%s, %.1f %% more than the next%s.",
                       accumulation, cap, 100 * (a.rate / b.rate - 1),
                       most > least ? "" : ", within the spread of the runs");
}

/* Say that the first measured steps exchange other than was asked for: the mean step is of both. */
static enum lk_status say_early(const struct lk_table *t, const struct run_options *o,
                                struct lk_page *page)
{
    const struct lk_train_config *c = &o->train;
    const struct run_sharding sharding = {.scheme = o->sharding};
    enum lk_sharding scheme = run_sharding_scheme(&sharding);
    bool averages = lk_sharding_traits(scheme)->pace == LK_PACE_PERIOD;
    bool powersgd = !averages && run_options_compression(o) == LK_COMPRESSION_POWERSGD;
    int64_t end = c->warmup_steps + c->steps;
    int64_t begin = averages ? c->averaging.warmup : powersgd ? c->hook.powersgd_start : 0;
    int64_t early = (begin < end ? begin : end) - c->warmup_steps;

    if (early <= 0 || largest(t).ranks < 2)
        return LK_OK;
    return lk_page_say(page,
                       "%lld of %lld measured steps all-reduce whole gradients, as --%s=%lld says: "
                       "--warmup=%lld leaves them out.",
                       (long long)early, (long long)c->steps,
                       averages ? "averaging-warmup" : "powersgd-start", (long long)begin,
                       (long long)begin);
}

enum lk_status run_answer(const struct lk_table *t, const struct run_options *o,
                          struct lk_page *page)
{
    LK_PASS(say(t, o, page));
    LK_PASS(say_early(t, o, page));
    LK_PASS(say_fastest(t, o, page));
    if (largest(t).efficiency > implausible)
        LK_PASS(lk_page_note(page,
                             "more than linear scaling: the runs of %d rank%s were disturbed, or "
                             "their work was more; measure again when the machine is quiet",
                             reference_ranks(t), reference_ranks(t) == 1 ? "" : "s"));
    for (size_t i = 0; i < t->n_rows; i++)
        LK_PASS(add_values(t, i, page));
    return LK_OK;
}

enum lk_status run_note_load(const struct lk_run_set *runs, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    double most = 0;
    char note[512] = "", text[256];
    size_t n_busy = 0;

    for (size_t i = 0; i < runs->n; i++) {
        struct lk_run_host *hosts = NULL;
        size_t n = 0, busy = 0;

        if (!runs->runs[i].n_steps)
            continue;
        LK_TRY(lk_run_hosts(&runs->runs[i], &hosts, &n));
        for (size_t h = 0; h < n; h++) {
            double taken = hosts[h].use.others + hosts[h].use.stolen;

            if (!hosts[h].use.n_ranks || !lk_host_is_busy(&hosts[h].use))
                continue;
            busy = 1;
            if (taken <= most)
                continue;
            most = taken;
            lk_host_use_text(&hosts[h].use, text, sizeof text);
            snprintf(note, sizeof note, "%s: %s", hosts[h].name, text);
        }
        n_busy += busy;
        free(hosts);
    }
    if (n_busy)
        LK_TRY(lk_page_note(page,
                            "host busy in %zu of %zu runs: most on %s; measure again when it is "
                            "quiet",
                            n_busy, runs->n, note));
out:
    return st;
}
