/*
 * Verdicts on collectives: public tables of sound machines pass and those with a fault do not,
 * nested by source; a machine's own points are no evidence of it; and the order of points, more of
 * a fault or a second copy of a point change no verdict for the better.
 */
#include "base/rng.h"
#include "bench/lib/planted.h"
#include "facts/preset.h"
#include "sim/suspects.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 28, CASES = 300 };

/* A preset, the times that it expects of an all-reduce of 1 KiB to 128 GiB, and their verdicts. */
struct table {
    struct lk_cluster machine;
    struct lk_expectation e;
    struct lk_cluster_point points[SIZES];
    size_t n;
};

static char source[] = "made";

static void open_machine(struct table *t, const char *preset)
{
    char *path = NULL;

    memset(t, 0, sizeof *t);
    must(lk_preset_find(NULL, preset, &path));
    must(lk_cluster_read(path, &t->machine));
    must(lk_expectation_create(&t->machine, NULL, NULL, 0, NULL, &t->e));
    free(path);
}

static void close_machine(struct table *t)
{
    lk_expectation_fini(&t->e);
    lk_cluster_fini(&t->machine);
}

/* Fill points with `slowdown` times what is expected; more for those of the band `worse`. */
static void fill(struct table *t, int ranks, int nodes, double slowdown, int worse, double more)
{
    static const double ends[] = {LK_BAND_LIST(LK_WORD_THIRD)};

    for (t->n = 0; t->n < SIZES; t->n++) {
        const uint64_t bytes = (uint64_t)1024 << t->n;
        const bool in = worse >= 0 && (double)bytes <= ends[worse] &&
                        (!worse || (double)bytes > ends[worse - 1]);
        struct lk_cost c;

        must(lk_cost_eval(t->e.model, LK_ALL_REDUCE, LK_ALGO_AUTO, ranks, nodes, &bytes, 1, &c));
        t->points[t->n] = (struct lk_cluster_point){
            .coll = LK_ALL_REDUCE,
            .ranks = ranks,
            .nodes = nodes,
            .bytes = bytes,
            .time_s = {c.seconds * slowdown * (in ? more : 1), NAN, NAN, 20, source}};
    }
}

static void judge(const struct table *t, struct lk_verdicts *out)
{
    must(lk_verdicts_of(&t->e, t->points, t->n, out));
    ck_assert_uint_eq(out->n, 1);
}

static size_t slow_bands(const struct lk_judged_set *s)
{
    size_t n = 0;

    for (int b = 0; b < LK_BAND_COUNT; b++)
        n += s->bands[b].n && s->bands[b].verdict == LK_JUDGEMENT_SLOW;
    return n;
}

static const char *first_suspect(const struct table *t)
{
    const struct lk_suspect *list[LK_SUSPECTS_MAX];
    struct lk_verdicts v;
    size_t n;

    judge(t, &v);
    lk_suspects_of(&t->e, &v, &v.sets[0], list, &n);
    lk_verdicts_fini(&v);
    return n ? list[0]->name : "";
}

START_TEST(public_tables_are_judged)
{
    struct planted_score score[PLANTED_COUNT];
    struct planted_score bad = {0};

    must(planted_score_all("bench/data/nccl_tables.csv", "clusters", score));
    for (int i = 0; i < PLANTED_COUNT; i++) {
        printf("verdicts: %s: %zu of %zu tables are flagged, first suspect right of %zu of %zu\n",
               planted_names[i], score[i].flagged, score[i].n, score[i].right, score[i].stated);
        if (i != PLANTED_NONE) {
            bad.n += score[i].n;
            bad.flagged += score[i].flagged;
            bad.stated += score[i].stated;
            bad.right += score[i].right;
        }
        ck_assert_uint_ge(score[i].n, 1);
        if (i != PLANTED_NONE)
            ck_assert_double_ge((double)score[i].flagged, 0.9 * (double)score[i].n);
        ck_assert_double_ge((double)score[i].right, 0.7 * (double)score[i].stated);
    }
    ck_assert_double_le((double)score[PLANTED_NONE].flagged, 0.05 * (double)score[PLANTED_NONE].n);
    ck_assert_double_ge((double)bad.right, 0.7 * (double)bad.stated);
}
END_TEST

START_TEST(a_sound_machine_passes)
{
    struct table t;
    struct lk_verdicts v;

    open_machine(&t, "dgx-h100");
    fill(&t, 64, 8, 1, -1, 1);
    judge(&t, &v);
    ck_assert_uint_eq(slow_bands(&v.sets[0]), 0);
    for (size_t i = 0; i < v.sets[0].n; i++)
        ck_assert_double_eq_tol(v.sets[0].points[i].slowdown, 1, 1e-9);
    lk_verdicts_fini(&v);
    ck_assert_str_eq(first_suspect(&t), "");
    close_machine(&t);
}
END_TEST

/* Half of the rate of two nodes alone is what a lack of GPUDirect costs, but not GPUs that NVLink
 * joins to their CPU; a third is more, and a node's. Of many nodes one is likelier slow. */
START_TEST(a_rate_tells_gpudirect_from_a_node)
{
    static const struct {
        const char *preset;
        int per_node, nodes;
        double slowdown;
        const char *suspect;
    } cases[] = {{"dgx-a100", 8, 2, 1.7, "no_gpudirect"},
                 {"dgx-a100", 8, 2, 3.2, "slow_node"},
                 {"dgx-a100", 8, 16, 1.7, "slow_node"},
                 {"gh200-slingshot", 4, 2, 1.7, "slow_node"}};
    struct table t;

    open_machine(&t, cases[_i].preset);
    fill(&t, cases[_i].per_node * cases[_i].nodes, cases[_i].nodes, 1, LK_BAND_LARGE,
         cases[_i].slowdown);
    ck_assert_str_eq(first_suspect(&t), cases[_i].suspect);
    close_machine(&t);
}
END_TEST

START_TEST(own_points_are_no_evidence)
{
    struct table t;
    struct lk_expectation e;
    struct lk_verdicts v, own;
    struct lk_cluster c;

    open_machine(&t, "dgx-h100");
    fill(&t, 16, 2, 20, -1, 1);
    c = t.machine;
    c.points = t.points;
    c.n_points = t.n;
    must(lk_expectation_create(&c, NULL, NULL, 0, NULL, &e));
    judge(&t, &v);
    must(lk_verdicts_of(&e, t.points, t.n, &own));
    for (size_t i = 0; i < t.n; i++)
        ck_assert(own.sets[0].points[i].expected_s == v.sets[0].points[i].expected_s);
    ck_assert_uint_eq(slow_bands(&own.sets[0]), LK_BAND_COUNT);
    lk_verdicts_fini(&v);
    lk_verdicts_fini(&own);
    lk_expectation_fini(&e);
    close_machine(&t);
}
END_TEST

/* More of a fault keeps the verdict, in any order of the points, and two of each are as one. */
START_TEST(random_faults)
{
    struct table t;
    struct lk_rng g = lk_rng_init(11, 1);

    open_machine(&t, "dgx-a100");
    for (size_t k = 0; k < cases_or(CASES); k++) {
        const int nodes = 1 << (int)(lk_rng_uniform(&g) * 5);
        const int band = (int)(lk_rng_uniform(&g) * LK_BAND_COUNT);
        const double more = exp(3 * lk_rng_uniform(&g));
        struct lk_cluster_point doubled[2 * SIZES];
        struct lk_verdicts a, b, c;

        fill(&t, 8 * nodes, nodes, 0.8 + 0.4 * lk_rng_uniform(&g), band, more);
        judge(&t, &a);
        for (size_t i = 0; i < t.n; i++)
            doubled[2 * i] = doubled[2 * i + 1] = t.points[t.n - 1 - i];
        must(lk_verdicts_of(&t.e, doubled, 2 * t.n, &b));
        fill(&t, 8 * nodes, nodes, 4, band, more);
        judge(&t, &c);
        for (int i = 0; i < LK_BAND_COUNT; i++) {
            ck_assert_int_eq(a.sets[0].bands[i].verdict, b.sets[0].bands[i].verdict);
            ck_assert(lk_judged_slowdown(&a.sets[0], (enum lk_band)i) ==
                      lk_judged_slowdown(&b.sets[0], (enum lk_band)i));
        }
        ck_assert_uint_ge(slow_bands(&c.sets[0]), slow_bands(&a.sets[0]));
        lk_verdicts_fini(&a);
        lk_verdicts_fini(&b);
        lk_verdicts_fini(&c);
    }
    close_machine(&t);
}
END_TEST

/* A table of public times is ranked among the others of its machine, and not by itself. */
START_TEST(rank_among_public_tables)
{
    struct lk_public_tables tables = {0};
    size_t ranked = 0;

    must(lk_public_tables_read("bench/data/nccl_tables.csv", NULL, LK_PUBLIC_SOUND, &tables));
    for (size_t i = 0; i < tables.n; i++) {
        const struct lk_public_table *t = &tables.s[i];
        struct lk_cluster_point p = {.coll = t->coll,
                                     .ranks = t->ranks,
                                     .nodes = t->nodes,
                                     .bytes = (uint64_t)t->bytes[t->n - 1],
                                     .time_s = {t->us[t->n - 1] * 1e-6, NAN, NAN, 20, source}};
        struct lk_expectation e;
        struct lk_verdicts with, without;

        if (t->machine < 0)
            continue;
        must(lk_expectation_create(&t->cluster, NULL, tables.s, tables.n, NULL, &e));
        must(lk_verdicts_of(&e, &p, 1, &with));
        lk_expectation_fini(&e);
        must(lk_expectation_create(&t->cluster, NULL, tables.s, tables.n, t->source, &e));
        must(lk_verdicts_of(&e, &p, 1, &without));
        lk_expectation_fini(&e);
        ck_assert_uint_ge(with.sets[0].points[0].n_public, without.sets[0].points[0].n_public);
        ck_assert_uint_lt(with.sets[0].points[0].n_public, tables.n);
        ranked += without.sets[0].points[0].n_public > 0;
        lk_verdicts_fini(&with);
        lk_verdicts_fini(&without);
    }
    ck_assert_uint_ge(ranked, 10);
    lk_public_tables_fini(&tables);
}
END_TEST

SUITE(judged, tests)
{
    tcase_add_test(tests, public_tables_are_judged);
    tcase_add_test(tests, a_sound_machine_passes);
    tcase_add_loop_test(tests, a_rate_tells_gpudirect_from_a_node, 0, 4);
    tcase_add_test(tests, own_points_are_no_evidence);
    tcase_add_test(tests, random_faults);
    tcase_add_test(tests, rank_among_public_tables);
}
