/* Other work on the processors of a run's hosts: what it is, whom it excuses, and where it is not
 * known. */
#include "profiler/analysis/host_load.h"

#include "base/array.h"
#include "base/rng.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

/* ---- Sums ---- */

/* By hand: in 10 s of a machine with 4 processors programs took 25 s, of which two ranks 9 s each;
 * so others took 0.7 processors, and guests 0.2. A third rank is on another machine. */
START_TEST(a_sum_by_hand)
{
    const struct lk_host_seen seen[] = {
        {"a", 10, {{40, 25, 2, 9, 1.5}}},
        {"b", 10, {{80, 80, 0, 1, 0}}},
        {"a", 10, {{40, 25, 2, 9, 1.2}}},
    };
    const struct lk_host_use u = lk_host_use_sum(seen, 3, "a");
    char text[256];

    ck_assert_uint_eq(u.n_ranks, 2);
    ck_assert_double_eq_tol(u.processors, 4, 1e-12);
    ck_assert_double_eq_tol(u.others, 0.7, 1e-12);
    ck_assert_double_eq_tol(u.stolen, 0.2, 1e-12);
    ck_assert_double_eq_tol(u.waited_s, 2.7, 1e-12);
    lk_host_use_text(&u, text, sizeof text);
    ck_assert_str_eq(text, "other work took 0.7 of 4 processors, other guests of the machine 0.2, "
                           "and the threads of 2 ranks waited 2.70 s for one in 10.0 s");
}
END_TEST

/* Ranks that wait for each other, other work that nobody waits for, and a system's own daemons make
 * no host busy. */
START_TEST(what_makes_a_host_busy)
{
    static const struct {
        double others, stolen, waited_s;
        bool busy;
    } cases[] = {
        {1, 0, 2.7, true}, {0.05, 0, 9, false}, {8, 0, 0.3, false},
        {0, 0.2, 0, true}, {0, 0.2, NAN, true}, {3, 0, NAN, false},
        {0, 0, 0, false},  {0.1, 0, 1, true},   {0.09, 0, 0.9, false},
    };
    const struct lk_host_use u = {.n_ranks = 1,
                                  .window_s = 10,
                                  .processors = 16,
                                  .others = cases[_i].others,
                                  .stolen = cases[_i].stolen,
                                  .waited_s = cases[_i].waited_s};

    ck_assert_int_eq(lk_host_is_busy(&u), cases[_i].busy);
}
END_TEST

/* More other work, more stolen time and longer waits never make a host quiet; the order of ranks,
 * and ranks of other machines, change nothing. */
START_TEST(sums_of_random_hosts)
{
    for (size_t i = 0; i < cases_or(200); i++) {
        struct lk_rng g = lk_rng_init(1, i);
        struct lk_host_seen seen[RANKS], back[RANKS];
        struct lk_host_use u, v;

        for (int k = 0; k < RANKS; k++) {
            seen[k] = (struct lk_host_seen){k % 2 ? "b" : "a", 10, {{40, 0, 0, 0, 0}}};
            for (int t = LK_HOST_BUSY; t < LK_HOST_TIMES; t++)
                seen[k].load.s[t] = 6 * lk_rng_uniform(&g);
        }
        for (int k = 0; k < RANKS; k++)
            back[k] = seen[RANKS - 1 - k];
        u = lk_host_use_sum(seen, RANKS, "a");
        v = lk_host_use_sum(back, RANKS, "a");
        ck_assert_double_eq_tol(u.others, v.others, 1e-12);
        ck_assert_double_eq_tol(u.waited_s, v.waited_s, 1e-12);
        ck_assert_double_ge(u.others, 0);
        for (int t = LK_HOST_BUSY; t < LK_HOST_TIMES; t++) {
            if (t == LK_HOST_OWN)
                continue;
            memcpy(back, seen, sizeof back);
            back[0].load.s[t] += 5 * lk_rng_uniform(&g);
            v = lk_host_use_sum(back, RANKS, "a");
            ck_assert(!lk_host_is_busy(&u) || lk_host_is_busy(&v));
        }
    }
}
END_TEST

/* ---- Runs ---- */

/* Record in a trace what the rank saw, as `run` does: before the steps, and after the last one. */
static void record(struct lk_trace *t, const char *boot, const struct lk_host_load *l)
{
    uint32_t track = trace_add_track(t, LK_HOST_TRACK_NAME, LK_TRACK_HOST, LK_HOST_TRACK_STREAM);
    uint64_t at_ns[2] = {UINT64_MAX, 0};

    for (size_t i = 0; i < t->n_spans; i++) {
        at_ns[0] = t->spans[i].span.start_ns < at_ns[0] ? t->spans[i].span.start_ns : at_ns[0];
        at_ns[1] = t->spans[i].span.end_ns > at_ns[1] ? t->spans[i].span.end_ns : at_ns[1];
    }
    for (int end = 0; end < 2; end++)
        for (int k = 0; k < LK_HOST_TIMES; k++) {
            struct lk_span s = {.kind = LK_SPAN_COUNTER,
                                .name = trace_add_name(t, lk_host_time_name((enum lk_host_time)k)),
                                .index = -1,
                                .start_ns = at_ns[end],
                                .end_ns = at_ns[end]};

            s.value = 100 + end * l->s[k] * 1e-9 * (double)(at_ns[1] - at_ns[0]);
            trace_add_span(t, track, s);
        }
    if (boot)
        must(lk_run_info_config(&t->info, LK_BOOT_CONFIG_KEY, boot));
}

static const struct lk_finding *find(const struct lk_analysis *a, enum lk_finding_id id)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].id == id)
            return &a->findings[i];
    return NULL;
}

/* Analyse RANKS ranks; each is alone on its host. reference: a run, or NULL. loads: of a second, by
 * rank. */
static void analyze(struct step_model change, const struct lk_run *reference,
                    const struct lk_host_load *loads, const char *const *boots, int recorded,
                    struct lk_run *run, struct lk_analysis *a)
{
    const struct step_model m = step_model_default(change);
    struct lk_trace *traces = NULL;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < RANKS; k++) {
        free(traces[k].info.host);
        must(lk_asprintf(&traces[k].info.host, "node%d", k));
        if (k < recorded)
            record(&traces[k], boots[k], &loads[k]);
        trace_add_done(&traces[k]);
    }
    must(lk_run_take("model", traces, RANKS, run));
    must(lk_analyze(run, &reference, reference ? 1 : 0, a));
}

/* The slow rank's host is busy, and excuses it; another's is, and does not, nor does one on which
 * the rank waited for less than it is slower; all hosts are one
 * machine; the job itself is what they wait for; not all ranks recorded it. */
START_TEST(a_busy_host_excuses_its_ranks)
{
    static const struct lk_host_load quiet = {{2, 1, 0, 1, 0}}, busy = {{2, 2, 0, 1, 0.27}},
                                     own = {{8, 4, 0, 1, 0.5}}, stolen = {{2, 1, 0.4, 1, 0}},
                                     brief = {{2, 2, 0, 1, 0.11}};
    const struct {
        struct lk_host_load loads[RANKS];
        const char *boots[RANKS];
        int recorded;
        const char *host; /* that is busy; NULL: none */
        bool excuses;
    } cases[] = {
        {{quiet, quiet, busy, quiet}, {"a", "b", "c", "d"}, RANKS, "node2", true},
        {{quiet, quiet, stolen, quiet}, {"a", "b", "c", "d"}, RANKS, "node2", true},
        {{quiet, busy, quiet, quiet}, {"a", "b", "c", "d"}, RANKS, "node1", false},
        /* it waited 11 % of the time, and computes 30 % longer */
        {{quiet, quiet, brief, quiet}, {"a", "b", "c", "d"}, RANKS, "node2", false},
        {{quiet, quiet, quiet, quiet}, {"a", "b", "c", "d"}, RANKS, NULL, false},
        {{own, own, own, own}, {"a", "a", "a", "a"}, RANKS, NULL, false},
        {{quiet, quiet, busy, quiet}, {"a", "b", "c", NULL}, RANKS - 1, NULL, false},
    };
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    const struct lk_finding *slow, *f;

    analyze((struct step_model){.ranks = RANKS, .slow = {0, 0, 0.3}}, NULL, cases[_i].loads,
            cases[_i].boots, cases[_i].recorded, &run, &a);
    slow = find(&a, LK_FINDING_SLOW_RANK);
    f = find(&a, LK_FINDING_HOST_BUSY);
    ck_assert_ptr_nonnull(slow);
    ck_assert_int_eq(f != NULL, cases[_i].host != NULL);
    if (f) {
        ck_assert_str_eq(f->host, cases[_i].host);
        ck_assert_ptr_nonnull(strstr(f->text, cases[_i].host));
        ck_assert_int_eq(f->rank, -1);
    }
    ck_assert_int_eq(slow->cause >= 0 && &a.findings[slow->cause] == f, cases[_i].excuses);
    ck_assert_int_eq(slow->next == NULL, cases[_i].excuses); /* the host's advice is given */
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* On a busy machine communication takes of compute, and the collectives are not at fault. */
START_TEST(a_busy_machine_slows_compute_beside_communication)
{
    static const struct lk_host_load loads[] = {{{8, 4, 0, 1, 0}}, {{8, 6, 0, 1, 0.4}}};
    const struct lk_host_load all[RANKS] = {loads[_i], loads[_i], loads[_i], loads[_i]};
    const char *const boots[RANKS] = {"a", "a", "a", "a"};
    struct lk_trace *traces = NULL;
    struct lk_run run = {0}, one = {0};
    struct lk_analysis a = {0};
    const struct lk_finding *slower;
    struct step_model m;
    size_t said = 0;

    m = step_model_default((struct step_model){.ranks = 1});
    must(step_model_run(&m, &traces, NULL));
    must(lk_run_take("one", traces, 1, &one));
    analyze((struct step_model){.ranks = RANKS, .gamma_wire = 0.5, .bandwidth_Bps = 5e8}, &one, all,
            boots, RANKS, &run, &a);
    slower = find(&a, LK_FINDING_OVERLAP_SLOWDOWN);
    ck_assert_ptr_nonnull(slower);
    ck_assert_int_eq(slower->cause >= 0, _i);
    for (size_t i = 0; i < a.n_findings; i++)
        said += a.findings[i].id == LK_FINDING_HOST_BUSY;
    ck_assert_uint_eq(said, (size_t)_i); /* once, of four hosts */
    if (_i) {
        ck_assert_uint_eq(a.findings[slower->cause].id, LK_FINDING_HOST_BUSY);
        ck_assert_ptr_null(a.findings[slower->cause].host);
        ck_assert_ptr_nonnull(
            strstr(a.findings[slower->cause].text, "host busy: all hosts are one machine: "));
    }
    lk_analysis_fini(&a);
    lk_run_fini(&one);
    lk_run_fini(&run);
}
END_TEST

/* A busy machine may be why communication blocks, at a cost that nobody knows: a slow link beside
 * it is worth what its rate says, and only the rest is left for the machine. */
START_TEST(a_busy_machine_leaves_a_slow_link_its_worth)
{
    static const struct lk_host_load busy = {{8, 6, 0, 1, 0.9}};
    const struct step_model m =
        step_model_default((struct step_model){.ranks = RANKS, .bandwidth_Bps = 1e8});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    const struct lk_finding *link, *machine;
    double wire_s;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < RANKS; k++) {
        free(traces[k].info.host);
        must(lk_asprintf(&traces[k].info.host, "node%d", k));
        record(&traces[k], "a", &busy);
        trace_add_hop(&traces[k], (k + 1) % RANKS, k < 2 ? 8e7 : 1e8, 1);
        trace_add_done(&traces[k]);
    }
    must(lk_run_take("model", traces, RANKS, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    link = find(&a, LK_FINDING_SLOW_LINK);
    machine = find(&a, LK_FINDING_HOST_BUSY);
    ck_assert_ptr_nonnull(link);
    ck_assert_ptr_nonnull(machine);
    ck_assert(machine->inherited);
    wire_s = a.losses_s[LK_LOSS_WIRE];
    ck_assert_double_eq_tol(link->cost_s, 0.2 * wire_s, 0.05 * wire_s);
    ck_assert_double_le(link->cost_s + machine->cost_s, a.step_s - a.losses_s[LK_LOSS_IDEAL]);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

SUITE(host_load, t)
{
    tcase_add_test(t, a_busy_machine_leaves_a_slow_link_its_worth);
    tcase_add_loop_test(t, a_busy_machine_slows_compute_beside_communication, 0, 2);
    tcase_add_test(t, a_sum_by_hand);
    tcase_add_loop_test(t, what_makes_a_host_busy, 0, 9);
    tcase_add_test(t, sums_of_random_hosts);
    tcase_add_loop_test(t, a_busy_host_excuses_its_ranks, 0, 7);
}
