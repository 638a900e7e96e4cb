/* Slow links: hosts and pairs with planted rates are named, and nothing else is. */
#include "profiler/analysis/hops.h"

#include "base/array.h"
#include "base/rng.h"
#include "profiler/analysis/analysis.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, STEPS = 25 };

/* ---- Rates alone: a ring of hosts ---- */

struct ring {
    struct lk_run_hops h;
    struct lk_run_hop hops[MOST];
    double rates[STEPS * MOST];
    struct lk_hop_excuse excuses[MOST];
};

/* Fill a ring whose i-th host has a link at rates[i] of full speed, and hop `pair` another factor
 * (-1: none); every step varies by `noise`. order: the rank of host i. */
static void fill(struct ring *r, size_t n, const double *rates, int pair, double factor,
                 double noise, const size_t *order, struct lk_rng *g)
{
    memset(r, 0, sizeof *r);
    r->h = (struct lk_run_hops){.hops = r->hops, .n = n, .rates = r->rates, .n_steps = STEPS};
    for (size_t k = 0; k < n; k++) {
        size_t to = (k + 1) % n;
        double x = fmin(rates[k], rates[to]) * ((int)k == pair ? factor : 1);
        struct lk_run_hop *h = &r->hops[k];

        *h = (struct lk_run_hop){order[k], order[to], order[k], order[to], {0}};
        for (size_t i = 0; i < STEPS; i++) {
            double busy_s = 0.01 / (x * (1 + noise * (2 * lk_rng_uniform(g) - 1)));

            r->rates[i * n + k] = 1e6 / busy_s;
            h->sum[LK_HOP_BYTES] += 1e6;
            h->sum[LK_HOP_BUSY] +=
                busy_s + 0.5; /* half a second in which the receiver had no room */
            h->sum[LK_HOP_RECEIVER] += 0.5;
        }
    }
}

static size_t slow_of(const struct ring *r, struct lk_slow_link *out)
{
    size_t n;

    must(lk_run_hops_slow(&r->h, r->excuses, out, &n));
    return n;
}

static const double full[MOST] = {1, 1, 1, 1, 1, 1, 1, 1};
static const size_t as_is[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};

static void shuffle(size_t *order, size_t n, struct lk_rng *g)
{
    memcpy(order, as_is, sizeof as_is);
    for (size_t i = n - 1; i > 0; i--) {
        size_t k = (size_t)(lk_rng_uniform(g) * (double)(i + 1)), x = order[i];

        order[i] = order[k];
        order[k] = x;
    }
}

/* A host of 3 to 8 whose link is slow is named at every place, whatever its rank; one that is 10 %
 * slow, or a ring without a slow link, is not. Nobody else ever is. */
START_TEST(a_slow_host_is_named)
{
    struct lk_rng g = lk_rng_init(3, (uint64_t)_i);

    for (size_t c = 0; c < cases_or(100); c++) {
        size_t n = 3 + (size_t)(6 * lk_rng_uniform(&g)),
               at = (size_t)((double)n * lk_rng_uniform(&g));
        const double slowness[] = {1, 0.9, 0.8, 0.5, 0.1};
        struct lk_slow_link found[2 * MOST];
        double rates[MOST], rate = slowness[c % LK_COUNT(slowness)];
        size_t order[MOST], n_found;
        struct ring r;

        memcpy(rates, full, sizeof rates);
        rates[at] = rate;
        shuffle(order, n, &g);
        fill(&r, n, rates, -1, 1, 0.04, order, &g);
        n_found = slow_of(&r, found);
        ck_assert_uint_eq(n_found, rate < 0.85);
        if (!n_found)
            continue;
        ck_assert(!found->pair);
        ck_assert_uint_eq(found->at, order[at]);
        ck_assert_double_eq_tol(found->rate_Bps / found->others_Bps, rate, 0.03 * rate);
        r.excuses[order[at]].busy = true; /* other work explains it */
        n_found = slow_of(&r, found);
        ck_assert_uint_eq(n_found, 0);
    }
}
END_TEST

/* One slow hop is a pair, also beside a slow host that does not share it. A receiver that is late
 * excuses it, a sender does not; a busy end does. */
START_TEST(a_slow_pair_is_named)
{
    struct lk_rng g = lk_rng_init(4, (uint64_t)_i);

    for (size_t c = 0; c < cases_or(100); c++) {
        size_t n = 4 + (size_t)(5 * lk_rng_uniform(&g)),
               hop = (size_t)((double)n * lk_rng_uniform(&g));
        struct lk_slow_link found[2 * MOST];
        double rates[MOST];
        bool host = c % 2 && n > 5;
        size_t order[MOST], n_found;
        struct ring r;

        memcpy(rates, full, sizeof rates);
        if (host)
            rates[(hop + 3) % n] = 0.3;
        shuffle(order, n, &g);
        fill(&r, n, rates, (int)hop, 0.6, 0.05, order, &g);
        r.excuses[order[hop]].late = true; /* the sender */
        n_found = slow_of(&r, found);
        ck_assert_uint_eq(n_found, 1 + host);
        ck_assert(found[host].pair && found[host].at == hop);
        ck_assert(!host || (!found[0].pair && found[0].at == order[(hop + 3) % n]));
        if (c % 3)
            r.excuses[order[(hop + 1) % n]].late = true;
        else
            r.excuses[order[(hop + c / 3 % 2) % n]].busy = true;
        n_found = slow_of(&r, found);
        ck_assert_uint_eq(n_found, host);
    }
}
END_TEST

/* Two hosts are slow, with one between them or next to each other: both are named, and the one
 * between them, whose hops are as slow, is not. */
START_TEST(two_slow_hosts_are_named)
{
    struct lk_rng g = lk_rng_init(10, (uint64_t)_i);

    for (size_t c = 0; c < cases_or(100); c++) {
        size_t n = 6 + c % 3, at = (size_t)((double)n * lk_rng_uniform(&g));
        size_t other = (at + 1 + (size_t)_i) % n, n_found;
        struct lk_slow_link found[2 * MOST];
        double rates[MOST];
        size_t order[MOST];
        struct ring r;

        memcpy(rates, full, sizeof rates);
        rates[at] = rates[other] = 0.5;
        shuffle(order, n, &g);
        fill(&r, n, rates, -1, 1, 0.04, order, &g);
        n_found = slow_of(&r, found);
        ck_assert_uint_eq(n_found, 2);
        ck_assert(!found[0].pair && !found[1].pair);
        ck_assert(found[0].at == order[at] || found[1].at == order[at]);
        ck_assert(found[0].at == order[other] || found[1].at == order[other]);
    }
}
END_TEST

/* A rank that is late receives slowly. If it sends to a slow host, that one alone is named; if its
 * own link is slow, it is; and a host between a slow one and it is not. */
START_TEST(a_late_rank_near_a_slow_host_is_innocent)
{
    static const size_t places[] = {1, 0, (size_t)-2}; /* of the slow host, behind the late rank */
    struct lk_rng g = lk_rng_init(9, (uint64_t)_i);

    for (size_t c = 0; c < cases_or(100); c++) {
        size_t n = 4 + c % 5, late = (size_t)((double)n * lk_rng_uniform(&g)), at, n_found;
        struct lk_slow_link found[2 * MOST];
        double rates[MOST];
        size_t order[MOST];
        struct ring r;

        at = (late + places[_i] + n) % n;
        memcpy(rates, full, sizeof rates);
        rates[at] = 0.5;
        shuffle(order, n, &g);
        fill(&r, n, rates, (int)((late + n - 1) % n), 0.7, 0.04, order, &g);
        r.excuses[order[late]].late = true;
        n_found = slow_of(&r, found);
        ck_assert_uint_eq(n_found, 1);
        ck_assert(!found->pair && found->at == order[at]);
    }
}
END_TEST

/* Equal hops whose rates vary by half, and hops that are slow in turns, accuse nobody: fewer than 1
 * in 100 rings may. */
START_TEST(noise_accuses_nobody)
{
    struct lk_rng g = lk_rng_init(5, 0);
    size_t named = 0, cases = cases_or(500);

    for (size_t c = 0; c < cases; c++) {
        size_t n = 3 + c % 6;
        struct lk_slow_link found[2 * MOST];
        struct ring r;

        fill(&r, n, full, -1, 1, 0.5, as_is, &g);
        for (size_t i = 0; i < STEPS; i++) {
            r.rates[i * n + i % n] *= 0.2;
            r.hops[i % n].sum[LK_HOP_BUSY] += 0.04 + 0.2 * (double)(c % 2 && i % n == 0);
        }
        named += slow_of(&r, found) > 0;
    }
    ck_assert_uint_le(named * 100, cases);
}
END_TEST

/* Two hops have nobody to be compared with, and a few steps are not enough. */
START_TEST(without_contrast_or_steps_nobody_is_named)
{
    struct lk_rng g = lk_rng_init(6, 0);
    const double rates[MOST] = {1, 0.1, 1, 1, 1, 1, 1, 1};
    struct lk_slow_link found[2 * MOST];
    struct ring r;

    fill(&r, 2, full, 0, 0.1, 0.01, as_is, &g);
    ck_assert_uint_eq(slow_of(&r, found), 0);
    fill(&r, 4, rates, -1, 1, 0.01, as_is, &g);
    r.h.n_steps = 8; /* 4 hosts * 0.5^8 = 0.016 */
    ck_assert_uint_eq(slow_of(&r, found), 0);
    r.h.n_steps = 9; /* 0.008 */
    ck_assert_uint_eq(slow_of(&r, found), 1);
    r.h.n = 12; /* all pairs of 4 hosts: 12 * 0.5^10 = 0.012 */
    r.h.n_steps = 10;
    ck_assert(!lk_run_hops_suffice(&r.h));
    r.h.n_steps = 11; /* 0.006 */
    ck_assert(lk_run_hops_suffice(&r.h));
    r.h.n = 2;
    ck_assert(!lk_run_hops_suffice(&r.h));
}
END_TEST

/* ---- Traces ---- */

static void record(struct lk_trace *t, int to, double Bps)
{
    trace_add_hop(t, to, Bps, 1);
}

/* Analyse n ranks whose collectives end late on rank `late`, and whose hops have these rates; NULL:
 * none was recorded. */
static void analyze(int n, int late, const double *Bps, bool named, struct lk_run *run,
                    struct lk_analysis *a)
{
    struct step_model m = step_model_default((struct step_model){.ranks = n, .bandwidth_Bps = 2e8});
    struct lk_trace *traces = NULL;

    m.end_late_s[late] = 4e-3;
    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < n; k++) {
        free(traces[k].info.host);
        must(lk_asprintf(&traces[k].info.host, named ? "node%d" : "node", k));
        if (Bps)
            record(&traces[k], (k + 1) % n, Bps[k]);
        trace_add_done(&traces[k]);
    }
    must(lk_run_take("model", traces, (size_t)n, run));
    must(lk_analyze(run, NULL, 0, a));
}

static const struct lk_finding *find(const struct lk_analysis *a, enum lk_finding_id id, size_t *n)
{
    const struct lk_finding *f = NULL;

    *n = 0;
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].id == id) {
            f = f ? f : &a->findings[i];
            ++*n;
        }
    return f;
}

/* The slow host is named, not the rank behind it; uneven ends are its consequence. */
START_TEST(a_run_says_its_slow_host)
{
    static const char *const hosts[] = {"host node0", "host node1", "host node2", "host node3"};
    static const char *const ranks[] = {"rank 0 moves", "rank 1 moves", "rank 2 moves",
                                        "rank 3 moves"};
    bool named = _i >= 4;
    int at = _i % 4;
    double Bps[4] = {2e7, 2e7, 2e7, 2e7};
    const struct lk_finding *f, *uneven;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    size_t n;

    Bps[at] = Bps[(at + 3) % 4] = 2e6;
    analyze(4, (at + 1) % 4, Bps, named, &run, &a);
    f = find(&a, LK_FINDING_SLOW_LINK, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_nonnull(strstr(f->text, named ? hosts[at] : ranks[at]));
    ck_assert_ptr_nonnull(strstr(f->text, "2.00 MB/s"));
    ck_assert_ptr_nonnull(strstr(f->text, "10 %"));
    ck_assert(named == (f->host != NULL));
    ck_assert_int_eq(f->rank, -1);
    ck_assert_double_gt(f->cost_s, 0);
    ck_assert_double_le(f->cost_s, a.losses_s[LK_LOSS_WIRE] + a.losses_s[LK_LOSS_STRAGGLER]);
    uneven = find(&a, LK_FINDING_UNEVEN_ENDS, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_nonnull(strstr(uneven->text, "a slow link does"));
    (void)find(&a, LK_FINDING_LATE_RANK, &n);
    ck_assert_uint_eq(n, 0);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* A mended link leaves the pace to the slowest of the others, whatever their median is. */
START_TEST(a_slow_link_is_worth_the_next_slowest)
{
    static const double Bps[2][4] = {{2e6, 2e6, 1.8e7, 1.8e7}, {2e6, 2e6, 2e7, 1.8e7}};
    double cost_s[2];

    for (int i = 0; i < 2; i++) {
        struct lk_run run = {0};
        struct lk_analysis a = {0};
        size_t n;

        analyze(4, 2, Bps[i], true, &run, &a);
        cost_s[i] = find(&a, LK_FINDING_SLOW_LINK, &n)->cost_s;
        ck_assert_uint_eq(n, 1);
        lk_analysis_fini(&a);
        lk_run_fini(&run);
    }
    ck_assert_double_gt(cost_s[0], 0);
    ck_assert_double_eq_tol(cost_s[1] / cost_s[0], 1, 1e-9);
}
END_TEST

/* The table has each hop with its rate, beside the median; none where no hop was recorded. */
START_TEST(hops_are_a_table)
{
    static const double Bps[4] = {2e7, 1e7, 2e7, 2e7};
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t;

    analyze(4, 1, _i ? Bps : NULL, true, &run, &a);
    must(lk_analysis_table(&a, LK_ANALYSIS_HOPS, &t));
    ck_assert((t != NULL) == (_i == 1));
    for (size_t k = 0; t && k < 4; k++) {
        ck_assert_uint_eq(t->n_rows, 4);
        ck_assert_double_eq(lk_table_cell(t, k, "from")->number, (double)k);
        ck_assert_double_eq(lk_table_cell(t, k, "to")->number, (double)((k + 1) % 4));
        ck_assert_double_eq_tol(lk_table_cell(t, k, "rate_Bps")->number, Bps[k], 1e-6 * Bps[k]);
        ck_assert_double_eq_tol(lk_table_cell(t, k, "of_median")->number, Bps[k] / 2e7, 1e-6);
        ck_assert_double_gt(lk_table_cell(t, k, "busy_s")->number,
                            lk_table_cell(t, k, "full_s")->number);
    }
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* Equal hops name nobody, and the words of uneven ends say what is known. */
START_TEST(a_run_without_a_slow_hop_names_none)
{
    static const double Bps[4] = {2e7, 2.1e7, 1.9e7, 2e7};
    bool recorded = _i;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    size_t n;

    analyze(4, 1, recorded ? Bps : NULL, true, &run, &a);
    (void)find(&a, LK_FINDING_SLOW_LINK, &n);
    ck_assert_uint_eq(n, 0);
    ck_assert_ptr_nonnull(strstr(find(&a, LK_FINDING_UNEVEN_ENDS, &n)->text,
                                 recorded ? "do not tell which" : "is not recorded"));
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* NCCL's ranks send to several: the next one and, in trees, others. A slow host is named by all of
 * its hops, also where one of another host carries next to nothing, at a low rate. */
START_TEST(hops_to_several_ranks_are_told_apart)
{
    struct step_model m = step_model_default((struct step_model){.ranks = 6});
    struct lk_trace *traces = NULL;
    struct lk_slow_link found[64];
    struct lk_run run = {0};
    struct lk_run_hops h;
    size_t n;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < 6; k++) {
        free(traces[k].info.host);
        must(lk_asprintf(&traces[k].info.host, "node%d", k));
        for (int far = 1; far <= 2; far++) {
            int to = (k + far) % 6;

            trace_add_hop(&traces[k], to, k == _i || to == _i ? 1e7 : 2e7, 1.0 / far);
        }
        trace_add_hop(&traces[k], (k + 3) % 6, 1e6, 0.01);
        trace_add_done(&traces[k]);
    }
    must(lk_run_take("model", traces, 6, &run));
    must(lk_run_hops_read(&run, &h));
    ck_assert_uint_eq(h.n, 12);
    must(lk_run_hops_slow(&h, (struct lk_hop_excuse[6]){0}, found, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert(!found[0].pair);
    ck_assert_uint_eq(found[0].at, (size_t)_i);
    lk_run_hops_fini(&h);
    lk_run_fini(&run);
}
END_TEST

SUITE(hops, t)
{
    tcase_add_loop_test(t, hops_to_several_ranks_are_told_apart, 0, 6);
    tcase_add_loop_test(t, a_slow_host_is_named, 0, 3);
    tcase_add_loop_test(t, a_slow_pair_is_named, 0, 3);
    tcase_add_loop_test(t, a_late_rank_near_a_slow_host_is_innocent, 0, 3);
    tcase_add_loop_test(t, two_slow_hosts_are_named, 0, 2);
    tcase_add_test(t, noise_accuses_nobody);
    tcase_add_test(t, without_contrast_or_steps_nobody_is_named);
    tcase_add_loop_test(t, a_run_says_its_slow_host, 0, 8);
    tcase_add_test(t, a_slow_link_is_worth_the_next_slowest);
    tcase_add_loop_test(t, hops_are_a_table, 0, 2);
    tcase_add_loop_test(t, a_run_without_a_slow_hop_names_none, 0, 2);
}
