/*
 * How fast a step is simulated, on one thread: the closed form beside the event engine, each run in
 * a process of its own so that its peak memory is its own, interleaved.
 *
 *     build/bench/sim_speed [REPETITIONS]     default 5
 *
 * Ten gradient buckets, gamma_wait, gamma_wire and delta above 0, every rank drawn independently in
 * every micro-batch. Both ways give the same steps to the ns: the bench checks their p50 and p95.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/stats.h"
#include "sim/closed_form.h"
#include "sim/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUCKETS = 10, REPETITIONS_MAX = 50 };

static const struct row {
    const char *name;
    int ranks, steps;
    int engine_every; /* it runs in every so many repetitions, being slow; 0: in the first */
} rows[] = {
    {"1,024 ranks x 10 buckets x 1,000 steps", 1024,  1000, 0},
    {"16,384 ranks x 10 buckets x 1 step",     16384, 1,    1},
    {"16,384 ranks x 10 buckets x 20 steps",   16384, 20,   0},
    {"65,536 ranks x 10 buckets x 1 step",     65536, 1,    0},
};

struct timing {
    enum lk_status status;
    double seconds, p50_s, p95_s;
    double own_KiB; /* peak resident memory above the process's at its start */
};

static struct lk_step_model model(int ranks, struct lk_step_coll *colls)
{
    for (int k = 0; k < BUCKETS; k++)
        colls[k] = (struct lk_step_coll){.bytes = 25 << 20,
                                         .ready = LK_STEP_BACKWARD + (k + 1.0) / BUCKETS,
                                         .need = LK_STEP_OPTIMIZER,
                                         .cost_s = 6e-3,
                                         .bucket = k};
    return (struct lk_step_model){
        .ranks = ranks,
        .nodes = ranks / 8,
        .accumulation = 1,
        .forward_s = 30e-3,
        .backward_s = 60e-3,
        .optimizer_s = 2e-3,
        .gamma_wait = 0.02,
        .gamma_wire = 0.06,
        .delta = 0.05,
        .law = {.rank_sd = 0.01, .node_sd = 0.005, .transient_sd = 0.02, .common_sd = 0.005},
        .colls = colls,
        .n_colls = BUCKETS
    };
}

static double peak_KiB(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) == 0 ? (double)u.ru_maxrss : 0;
}

static struct timing measure(const struct row *row, bool engine)
{
    struct lk_step_coll colls[BUCKETS];
    struct lk_step_model m = model(row->ranks, colls);
    struct lk_sim_request q = {.steps = row->steps, .seed = 1};
    struct lk_sim_result r = {0};
    double before_KiB = peak_KiB();
    uint64_t start = lk_now_ns();
    struct timing t = {0};

    t.status = engine ? lk_engine_run(&m, &q, NULL, &r) : lk_closed_form_run(&m, &q, &r);
    t.seconds = (double)(lk_now_ns() - start) / (double)LK_NS_PER_S;
    t.own_KiB = peak_KiB() - before_KiB;
    if (t.status == LK_OK) {
        t.p50_s = lk_stats_quantile(r.step_s, r.n, 0.5);
        t.p95_s = lk_stats_quantile_sorted(r.step_s, r.n, 0.95);
    }
    lk_sim_result_fini(&r);
    return t;
}

/* In a process of its own. */
static enum lk_status measure_apart(const struct row *row, bool engine, struct timing *out)
{
    int ends[2], status;
    pid_t child;
    ssize_t got;

    if (pipe(ends) != 0)
        return lk_fail(LK_EIO, "no pipe");
    (void)fflush(stdout);
    child = fork();
    if (child < 0)
        return lk_fail(LK_EIO, "no process");
    if (child == 0) {
        struct timing t = measure(row, engine);

        _exit(write(ends[1], &t, sizeof t) == (ssize_t)sizeof t ? 0 : 1);
    }
    (void)close(ends[1]);
    got = read(ends[0], out, sizeof *out);
    (void)close(ends[0]);
    if (waitpid(child, &status, 0) != child || got != (ssize_t)sizeof *out)
        return lk_fail(LK_EINTERNAL, "%s: the measuring process failed", row->name);
    return out->status;
}

/* Least, median and most of n values. */
static void print_spread(double *v, size_t n, double scale, const char *format)
{
    double median = lk_stats_median(v, n); /* sorts */

    printf(format, v[0] * scale, median * scale, v[n - 1] * scale);
}

static enum lk_status bench(const struct row *row, int repetitions)
{
    enum lk_status st = LK_OK;
    double fast[REPETITIONS_MAX], slow[REPETITIONS_MAX], ratio[REPETITIONS_MAX];
    struct timing c = {0}, e = {0};
    size_t n = 0;

    for (int i = 0; i < repetitions; i++) {
        LK_TRY(measure_apart(row, false, &c));
        fast[i] = c.seconds;
        if (row->engine_every ? i % row->engine_every : i)
            continue;
        LK_TRY(measure_apart(row, true, &e));
        slow[n] = e.seconds;
        ratio[n++] = e.seconds / c.seconds;
        if (c.p50_s != e.p50_s || c.p95_s != e.p95_s)
            LK_TRY(lk_fail(LK_EINTERNAL, "%s: p50 %.9f and %.9f s, p95 %.9f and %.9f s", row->name,
                           c.p50_s, e.p50_s, c.p95_s, e.p95_s));
    }
    printf("%s\n", row->name);
    print_spread(fast, (size_t)repetitions, 1e3, "    closed form   %10.2f %10.2f %10.2f ms");
    printf("   %8.1f MiB, %.0f bytes a rank\n", c.own_KiB / 1024, c.own_KiB * 1024 / row->ranks);
    print_spread(slow, n, 1e3, "    event engine  %10.2f %10.2f %10.2f ms");
    printf("   %8.1f MiB, %.0f bytes a rank\n", e.own_KiB / 1024, e.own_KiB * 1024 / row->ranks);
    print_spread(ratio, n, 1, "    ratio         %10.1f %10.1f %10.1f");
    printf("\n    p50 %.6f ms, p95 %.6f ms: equal both ways\n", c.p50_s * 1e3, c.p95_s * 1e3);
out:
    return st;
}

int main(int argc, char **argv)
{
    int repetitions = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    enum lk_status st = LK_OK;

    if (repetitions < 1 || repetitions > REPETITIONS_MAX) {
        fprintf(stderr, "usage: sim_speed [REPETITIONS, 1 to %d]\n", REPETITIONS_MAX);
        return 2;
    }
    printf("# one thread; %d steps of warm-up are simulated beside those counted\n", LK_SIM_WARMUP);
    printf("# %-16s %10s %10s %10s\n", "", "least", "median", "most");
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        LK_TRY(bench(&rows[i], repetitions));
out:
    if (st != LK_OK)
        fprintf(stderr, "bench/sim_speed: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
