/*
 * Time the simulation of a step on one thread: the closed form beside the event engine, each run in
 * a process of its own so that its peak memory is its own, interleaved. Then check that both give
 * the same steps, to the ns, under every kind of straggler and several seeds.
 *
 *     build/bench/sim_speed [REPETITIONS]     default 5
 *
 * gamma_wait, gamma_wire and delta are above 0, and every rank is drawn independently in every
 * micro-batch.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/stats.h"
#include "sim/step/closed_form.h"
#include "sim/step/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUCKETS = 10, UNITS = 100, COLLS_MAX = 3 * UNITS, REPETITIONS_MAX = 50, SEEDS = 10 };

/* ---- Models ---- */

static size_t ddp(struct lk_step_coll *colls)
{
    for (int k = 0; k < BUCKETS; k++)
        colls[k] = (struct lk_step_coll){.bytes = 25 << 20,
                                         .ready = LK_STEP_BACKWARD + (k + 1.0) / BUCKETS,
                                         .need = LK_STEP_OPTIMIZER,
                                         .cost_s = 6e-3,
                                         .bucket = k};
    return BUCKETS;
}

/* Every unit's parameters before its forward and its backward, gathered while the unit before it
 * computes, and its gradients after its backward. */
static size_t fsdp(struct lk_step_coll *colls)
{
    const struct lk_step_coll gather = {
        .coll = LK_ALL_GATHER, .bytes = 4 << 20, .cost_s = 0.2e-3, .bucket = -1};
    size_t n = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int u = 0; u < UNITS; u++) {
            colls[n] = gather;
            colls[n].ready = pass + fmax(0, u - 1.0) / UNITS;
            colls[n++].need = pass + (double)u / UNITS;
            if (!pass || !u)
                continue;
            colls[n] = gather;
            colls[n].coll = LK_REDUCE_SCATTER;
            colls[n].ready = LK_STEP_BACKWARD + (double)u / UNITS;
            colls[n++].need = LK_STEP_OPTIMIZER;
        }
    colls[n] = gather;
    colls[n].coll = LK_REDUCE_SCATTER;
    colls[n].ready = colls[n].need = LK_STEP_OPTIMIZER;
    return n + 1;
}

static const struct lk_straggler_law usual = {
    .rank_sd = 0.01, .node_sd = 0.005, .transient_sd = 0.02, .common_sd = 0.005};

static struct lk_step_model model(int ranks, size_t (*list)(struct lk_step_coll *),
                                  struct lk_step_coll *colls)
{
    return (struct lk_step_model){.ranks = ranks,
                                  .nodes = ranks / 8,
                                  .accumulation = 1,
                                  .forward_s = 30e-3,
                                  .backward_s = 60e-3,
                                  .optimizer_s = 2e-3,
                                  .gamma_wait = 0.02,
                                  .gamma_wire = 0.06,
                                  .delta = 0.05,
                                  .law = usual,
                                  .colls = colls,
                                  .n_colls = list(colls)};
}

/* ---- Speed ---- */

/* The engine, being slow, runs in every repetition, in the first one, or not at all. */
enum engine_runs { EVERY, FIRST, NEVER };

static const struct row {
    const char *name;
    int ranks, steps;
    size_t (*list)(struct lk_step_coll *);
    enum engine_runs engine;
} rows[] = {
    {"1,024 ranks x 10 buckets x 1,000 steps", 1024, 1000, ddp, FIRST},
    {"16,384 ranks x 10 buckets x 1 step", 16384, 1, ddp, EVERY},
    {"65,536 ranks x 10 buckets x 1 step", 65536, 1, ddp, NEVER},
    {"1,024 ranks x 300 collectives (FSDP) x 20 steps", 1024, 20, fsdp, FIRST},
};

struct timing {
    enum lk_status status;
    double seconds, p50_s, p95_s;
    double own_KiB; /* peak resident memory above the process's at its start */
};

static double peak_KiB(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) == 0 ? (double)u.ru_maxrss : 0;
}

static struct timing measure(const struct row *row, bool engine)
{
    struct lk_step_coll colls[COLLS_MAX];
    struct lk_step_model m = model(row->ranks, row->list, colls);
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

/* Run in a process of its own. */
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
        if (row->engine == NEVER || (row->engine == FIRST && i))
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
    if (!n)
        return LK_OK;
    print_spread(slow, n, 1e3, "    event engine  %10.2f %10.2f %10.2f ms");
    printf("   %8.1f MiB, %.0f bytes a rank\n", e.own_KiB / 1024, e.own_KiB * 1024 / row->ranks);
    print_spread(ratio, n, 1, "    ratio         %10.1f %10.1f %10.1f");
    printf("\n    p50 %.6f ms, p95 %.6f ms: equal both ways\n", c.p50_s * 1e3, c.p95_s * 1e3);
out:
    return st;
}

/* ---- Agreement ---- */

enum { AGREEMENT_RANKS = 64, AGREEMENT_STEPS = 100 };

static const struct kind {
    const char *name;
    struct lk_straggler_law law;
    bool known; /* rank 5 and node 3 are known to be slow, and a link */
} kinds[] = {
    {"ranks and nodes", {.rank_sd = 0.03, .node_sd = 0.02}, false},
    {"transient", {.transient_sd = 0.1}, false},
    {"common", {.common_sd = 0.05}, false},
    {"heavy tail", {.tail_share = 0.02, .tail_scale = 0.2 / 0.7, .tail_shape = 0.3}, false},
    {"links", {.link_sd = 0.2, .link_nodes = 2}, false},
    {"known", {.rank_sd = 0.01, .link_sd = 0.1}, true},
    {"all",
     {.rank_sd = 0.03,
      .node_sd = 0.02,
      .transient_sd = 0.1,
      .common_sd = 0.05,
      .link_sd = 0.1,
      .tail_share = 0.02,
      .tail_scale = 0.2 / 0.7,
      .tail_shape = 0.3},
     true},
};

static enum lk_status agree(const struct kind *kind, size_t (*list)(struct lk_step_coll *),
                            const char *name)
{
    enum lk_status st = LK_OK;
    struct lk_step_coll colls[COLLS_MAX];
    struct lk_step_model m = model(AGREEMENT_RANKS, list, colls);
    double rank[AGREEMENT_RANKS], node[AGREEMENT_RANKS], link[AGREEMENT_RANKS], p50[SEEDS],
        p95[SEEDS];
    struct lk_sim_result c = {0}, e = {0};

    for (int i = 0; i < AGREEMENT_RANKS; i++)
        rank[i] = node[i] = link[i] = NAN;
    rank[5] = 0.2;
    node[3] = 0.1;
    link[2] = 1.5;
    m.law = kind->law;
    if (kind->known) {
        m.rank_slowness = rank;
        m.node_slowness = node;
        m.node_link = link;
    }
    for (int i = 0; i < SEEDS; i++) {
        struct lk_sim_request q = {.steps = AGREEMENT_STEPS, .seed = (uint64_t)i + 1};

        LK_TRY(lk_closed_form_run(&m, &q, &c));
        LK_TRY(lk_engine_run(&m, &q, NULL, &e));
        if (c.n != e.n || memcmp(c.step_s, e.step_s, c.n * sizeof *c.step_s) != 0)
            LK_TRY(lk_fail(LK_EINTERNAL, "%s, %s, seed %d: the two ways differ", name, kind->name,
                           i + 1));
        p50[i] = lk_stats_quantile(c.step_s, c.n, 0.5);
        p95[i] = lk_stats_quantile_sorted(c.step_s, c.n, 0.95);
        lk_sim_result_fini(&c);
        lk_sim_result_fini(&e);
    }
    printf("    %-5s %-16s", name, kind->name);
    print_spread(p50, SEEDS, 1e3, " %10.3f %10.3f %10.3f");
    print_spread(p95, SEEDS, 1e3, "   %10.3f %10.3f %10.3f ms\n");
out:
    lk_sim_result_fini(&c);
    lk_sim_result_fini(&e);
    return st;
}

static enum lk_status agree_all(void)
{
    enum lk_status st = LK_OK;

    printf("both ways give the same %d steps of %d ranks, to the ns, with each of %d seeds\n",
           AGREEMENT_STEPS, AGREEMENT_RANKS, SEEDS);
    printf("# %-24s %32s   %32s\n", "stragglers", "p50: least, median, most seed",
           "p95: least, median, most seed");
    for (size_t i = 0; i < LK_COUNT(kinds); i++) {
        LK_TRY(agree(&kinds[i], ddp, "DDP"));
        LK_TRY(agree(&kinds[i], fsdp, "FSDP"));
    }
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
    LK_TRY(agree_all());
out:
    if (st != LK_OK)
        fprintf(stderr, "bench/sim_speed: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
