/* Tables of ranks' times in steps: planted slow ranks and hosts are found, in whatever words. */
#include "profiler/import/step_times.h"

#include "base/array.h"
#include "base/rng.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/step_turns.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job of RANKS, 4 a host, whose ranks work 10 ms +- 1 % in each step, but for those of [slow,
 * slow
 * + n_slow), which take `more` of it longer. */
enum { RANKS = 32, STEPS = 60, A_HOST = 4 };
struct planted {
    int slow, n_slow;
    double more;
};

static double time_of(const struct planted *p, int rank, int step)
{
    struct lk_rng g = lk_rng_init(11, (uint64_t)(rank * STEPS + step));

    return 0.01 * (1 + 0.01 * lk_rng_normal(&g)) *
           (1 + (rank >= p->slow && rank < p->slow + p->n_slow ? p->more : 0));
}

/* How the same table is written. */
struct words {
    const char *header, *format; /* of rank, step, time; or of step, rank, time */
    double scale;
    bool step_first, backwards;
};

static void write_table(const char *path, const struct planted *p, const struct words *w)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f, "%s\n", w->header);
    for (int i = 0; i < RANKS * STEPS; i++) {
        int at = w->backwards ? RANKS * STEPS - 1 - i : i, rank = at % RANKS, step = at / RANKS;

        fprintf(f, w->format, w->step_first ? step + 3 : rank, w->step_first ? rank : step + 3,
                time_of(p, rank, step) * w->scale, rank / A_HOST);
    }
    ck_assert_int_eq(fclose(f), 0);
}

static const struct words words[] = {
    {"rank,step,own_s,host", "%d,%d,%.17g,h%d\n", 1, false, false},
    {"rank,step,own_s,host", "%d,%d,%.17g,h%d\n", 1, false, true},
    {"step,rank,own_s,host,loss", "%d,%d,%.17g,h%d,2.5\n", 1, true, true},
    {"# by our timers\nrank,step,own_ms,host", " %d ,%d,%.17g , h%d\r\n\n", 1e3, false, false},
    {"rank,step,own_us,host", "%d,%d,%.17g,h%d\n# a comment\n", 1e6, false, true},
};

static enum lk_status read_text(const char *text, struct lk_step_times *t)
{
    char *path = scratch_put("times.csv.gz", text, strlen(text));
    enum lk_status st = lk_step_times_read(path, t);

    free(path);
    return st;
}

static void ask(const struct planted *p, const struct words *w, struct lk_step_times *t,
                struct lk_turns *u)
{
    char *path = scratch_path(scratch_dir, "times.csv");

    write_table(path, p, w);
    ck_assert(lk_step_times_is(path));
    must(lk_step_times_read(path, t));
    must(lk_turns_of(t, u));
    free(path);
}

START_TEST(one_table_in_any_words)
{
    static const struct planted p = {13, 1, 0.2};
    struct lk_step_times t = {0}, first = {0};
    struct lk_turns u = {0}, of_first = {0};

    ask(&p, &words[0], &first, &of_first);
    ck_assert_uint_eq(first.n_ranks, RANKS);
    ck_assert_uint_eq(first.n_steps, STEPS);
    ck_assert_int_eq((int)first.steps[0], 3);
    ck_assert_str_eq(first.hosts[13], "h3");
    for (size_t k = 1; k < LK_COUNT(words); k++) {
        ask(&p, &words[k], &t, &u);
        ck_assert_uint_eq(t.n_ranks, RANKS);
        for (size_t i = 0; i < (size_t)RANKS * STEPS; i++)
            ck_assert_double_eq_tol(t.own_s[i], first.own_s[i], 1e-17);
        ck_assert_double_eq_tol(u.step_s, of_first.step_s, 1e-15);
        ck_assert_double_eq_tol(u.without_s, of_first.without_s, 1e-15);
        ck_assert_uint_eq(u.ranks[0].at, of_first.ranks[0].at);
        lk_turns_fini(&u);
        lk_step_times_fini(&t);
    }
    lk_turns_fini(&of_first);
    lk_step_times_fini(&first);
}
END_TEST

/* What is planted is found, all of it and nothing else, and costs what it takes longer. */
START_TEST(planted)
{
    static const struct planted cases[] = {{0, 0, 0},   {5, 1, 0.2},  {31, 1, 0.05},
                                           {8, 4, 0.3}, {8, 2, 0.15}, {0, 16, 0.5}};

    for (size_t k = 0; k < LK_COUNT(cases); k++) {
        const struct planted *p = &cases[k];
        struct lk_step_times t = {0};
        struct lk_turns u = {0};

        ask(p, &words[0], &t, &u);
        ck_assert_msg(u.n_persistent == (size_t)p->n_slow || (p->n_slow == 16 && !u.n_persistent) ||
                          (p->n_slow == 16 && u.n_persistent <= 16),
                      "case %zu: %zu", k, u.n_persistent);
        for (size_t i = 0; i < u.n_persistent; i++)
            ck_assert_msg((int)u.ranks[i].at >= p->slow && (int)u.ranks[i].at < p->slow + p->n_slow,
                          "case %zu: rank %zu", k, u.ranks[i].at);
        if (p->n_slow && p->n_slow < 16)
            ck_assert_msg(fabs(u.step_s / u.without_s / (1 + p->more) - 1) < 0.03, "case %zu: %g",
                          k, u.step_s / u.without_s);
        ck_assert(u.without_s <= u.step_s && u.mean_s <= u.step_s);
        lk_turns_fini(&u);
        lk_step_times_fini(&t);
    }
}
END_TEST

/* The rank that the analysis of a run's traces blames is that which the run's own times accuse. */
START_TEST(as_the_analysis)
{
    const struct step_model m = {.ranks = 4, .steps = 40, .slow = {0, 0, 0.25, 0}};
    struct step_model full = step_model_default(m);
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_step_times t = {0};
    struct lk_turns u = {0};
    int blamed = -1;

    must(step_model_run(&full, &traces, NULL));
    must(lk_run_take("model", traces, 4, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    t = (struct lk_step_times){.n_ranks = run.n, .n_steps = run.n_steps};
    must(lk_alloc(&t.own_s, run.n * run.n_steps, sizeof *t.own_s));
    for (size_t k = 0; k < run.n; k++)
        for (size_t i = 0; i < run.n_steps; i++) {
            struct lk_step_split x;

            lk_step_split(&run.ranks[k], lk_rank_step(&run.ranks[k], run.steps[i]), NULL, &x);
            t.own_s[k * run.n_steps + i] = x.s[LK_PART_FORWARD] + x.s[LK_PART_BACKWARD];
        }
    must(lk_turns_of(&t, &u));
    ck_assert_uint_eq(u.n_persistent, 1);
    ck_assert_uint_eq(u.ranks[0].at, 2);
    for (size_t i = 0; i < a.n_findings; i++)
        if (a.findings[i].id == LK_FINDING_LATE_RANK)
            blamed = a.findings[i].rank;
    ck_assert_int_eq(blamed, 2);
    lk_turns_fini(&u);
    lk_step_times_fini(&t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* A step that lacks a rank does not count; with none left there is no answer. */
START_TEST(missing)
{
    struct lk_step_times t = {0};
    struct lk_turns u = {0};

    must(read_text("rank,step,own_s\n0,1,2\n1,1,3\n0,2,2\n1,2,\n", &t));
    ck_assert(isnan(t.own_s[1 * 2 + 1]));
    must(lk_turns_of(&t, &u));
    ck_assert_uint_eq(u.n_steps, 1);
    ck_assert_double_eq(u.step_s, 3);
    ck_assert_double_eq(u.mean_s, 2.5);
    lk_turns_fini(&u);
    lk_step_times_fini(&t);
    must(read_text("rank,step,own_s\n0,1,2\n1,2,3\n", &t));
    ck_assert_int_eq(lk_turns_of(&t, &u), LK_EEVIDENCE);
    lk_step_times_fini(&t);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"rank,step\n", "columns have to be"},
        {"rank,step,own_s,own_ms\n", "columns have to be"},
        {"rank,step,own_s\n0,1,2\n", "1 of at least two ranks"},
        {"rank,step,own_s\n0,1,2\n1,1,x\n", ":3: column 'own_s': 'x' is not a time"},
        {"rank,step,own_s\n0,1,2\n1,1,-3\n", ":3: column 'own_s': '-3' is not a time"},
        {"rank,step,own_s\n0,1,nan\n", ":2: column 'own_s'"},
        {"rank,step,own_s\n0,1,2\n-1,1,3\n", ":3: column 'rank': '-1'"},
        {"rank,step,own_s\n0,1,2\n1,1\n", ":3: column 'own_s' is not there"},
        {"rank,step,own_s\n0,1,2\n1,1,3\n\n0,1,2\n", ":5: column 'step': rank 0 has step 1 twice"},
        {"rank,step,own_s,host\n0,1,2,a\n0,2,2,b\n", ":3: column 'host': rank 0 is on b"},
        {"rank,step,own_s\n0,1,2\n16777216,1,3\n", ":3: column 'rank'"},
        {"rank,step,own_s\n0,0,2\n1,4000000000,3\n", "steps from 0 to 4000000000"},
    };

    for (size_t k = 0; k < LK_COUNT(bad); k++) {
        struct lk_step_times t = {0};

        ck_assert_int_eq(read_text(bad[k].text, &t), LK_EPARSE);
        ck_assert_msg(strstr(lk_error_text(), bad[k].says), "%s: %s", bad[k].text, lk_error_text());
        ck_assert_ptr_null(t.own_s);
    }
}
END_TEST

SUITE(step_times, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_test(tests, one_table_in_any_words);
    tcase_add_test(tests, planted);
    tcase_add_test(tests, as_the_analysis);
    tcase_add_test(tests, missing);
    tcase_add_test(tests, refused);
}
