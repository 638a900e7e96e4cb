/*
 * Batches of ranks that differ, worked out by hand: a job whose micro-batch of b samples computes
 * 1 ms a sample, at every batch that is measured, on GPUs of which some are known to be slow.
 */
#include "base/array.h"
#include "facts/rank_batches.h"
#include "sim/step/balance.h"
#include "sim/step/batch_curve.h"
#include "sim/step/config.h"
#include "sim/step/straggler_max.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

/* A job with a row at 1 and at 64 samples, between which the curve is a line. */
struct made {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_known_stragglers slow;
};

static void known(struct lk_quantity *q, double v)
{
    ck_assert_int_eq(lk_quantity_set(q, v, v, v, 1, "made"), LK_OK);
}

static void make(struct made *m, const double *slowness, int n)
{
    static const int batches[] = {1, MOST};

    lk_job_init(&m->job);
    lk_cluster_init(&m->cluster);
    ck_assert_int_eq(lk_strdup(&m->job.name, "made"), LK_OK);
    m->job.accumulation = 1;
    ck_assert_int_eq(lk_alloc(&m->job.compute, 2, sizeof *m->job.compute), LK_OK);
    for (size_t i = 0; i < 2; i++) {
        struct lk_job_compute *c = &m->job.compute[m->job.n_compute++];

        c->local_batch = batches[i];
        known(&c->forward_s, 0.25e-3 * batches[i]);
        known(&c->backward_s, 0.75e-3 * batches[i]);
        known(&c->optimizer_s, 0);
        known(&c->input_s, 0);
        known(&c->gap_s, 0);
        known(&c->transient, 0);
        c->optimizer_hidden_s = lk_quantity_none();
    }
    m->cluster.nodes = 1;
    m->cluster.gpus_per_node = n;
    ck_assert_int_eq(lk_known_stragglers_init(&m->slow, &m->job, &m->cluster), LK_OK);
    free(m->slow.list);
    ck_assert_int_eq(lk_alloc(&m->slow.list, (size_t)n, sizeof *m->slow.list), LK_OK);
    m->slow.n = m->slow.n_file = 0;
    for (int r = 0; r < n; r++) {
        struct lk_cluster_slow *e = &m->slow.list[m->slow.n];

        if (slowness[r] == 1)
            continue;
        *e = (struct lk_cluster_slow){.rank = r, .node = -1};
        e->link = lk_quantity_none();
        known(&e->compute, slowness[r]);
        m->slow.n++;
    }
}

static void drop(struct made *m)
{
    lk_known_stragglers_fini(&m->slow);
    lk_cluster_fini(&m->cluster);
    lk_job_fini(&m->job);
}

static const struct {
    int ranks, batch;
    double slowness[4];
    const char *batches;
    double longest; /* ms, of the split */
} splits[] = {
    {2, 16, {1, 2}, "21+11", 22},     /* 32 at 1 : 1/2 is 21.3 and 10.7 */
    {2, 15, {1, 2}, "20+10", 20},     /* 30 */
    {3, 8, {1, 1, 2}, "2x10+4", 10},  /* 24 at 2 : 2 : 1 is 9.6, 9.6, 4.8; 10+9+5 would be 10 */
    {4, 8, {1, 1, 1, 1}, "", 8},      /* nobody is slow */
    {4, 4, {4, 1, 1, 1}, "1+3x5", 5}, /* 16 at 1 : 4 : 4 : 4 is 1.2 and 4.9 */
    {2, 4, {1, 100}, "7+1", 100},     /* nobody has none */
    {4, 6, {1, 1.5, 1, 1.5}, "7+5+7+5", 7.5},
};

START_TEST(samples_go_to_who_is_done_first)
{
    struct lk_config c = {.world_size = splits[_i].ranks,
                          .nodes = 1,
                          .local_batch = splits[_i].batch,
                          .accumulation = 3};
    double samples = lk_config_samples(&c), work[4], whole, longest = 0;
    struct lk_batch_point p;
    struct made m = {0};

    make(&m, splits[_i].slowness, splits[_i].ranks);
    ck_assert_int_eq(lk_balance(&m.job, &m.slow, -1, 1, NULL, &c), LK_OK);
    ck_assert_str_eq(c.batches, splits[_i].batches);
    ck_assert_double_eq(lk_config_samples(&c), samples);
    ck_assert_int_eq(lk_rank_batches_check(c.batches, c.world_size, c.local_batch), LK_OK);
    ck_assert_int_eq(lk_batch_work(&m.job, &c, work), LK_OK);
    ck_assert_int_eq(lk_batch_curve_at(&m.job, c.local_batch, &p), LK_OK);
    whole = p.forward_s + p.backward_s;
    for (int r = 0; r < c.world_size; r++)
        if (splits[_i].slowness[r] * work[r] * whole > longest)
            longest = splits[_i].slowness[r] * work[r] * whole;
    ck_assert_double_eq_tol(longest, 1e-3 * splits[_i].longest, 1e-9);
    drop(&m);
}
END_TEST

/* No other split of as many samples is shorter: all are tried. */
START_TEST(no_split_is_better)
{
    static const double slowness[][4] = {
        {1, 1.3, 1, 1}, {2, 1, 1.1, 1}, {1.7, 1.3, 1, 1.9}, {1, 1, 1, 5}};
    const double *s = slowness[_i];
    struct lk_config c = {.world_size = 4, .nodes = 1, .local_batch = 5, .accumulation = 1};
    struct lk_rank_batches b;
    struct made m = {0};
    double least = 1e9, own = 0;

    make(&m, s, 4);
    ck_assert_int_eq(lk_balance(&m.job, &m.slow, -1, 1, NULL, &c), LK_OK);
    ck_assert_int_eq(lk_rank_batches_parse(c.batches, &b), LK_OK);
    for (int r = 0; r < 4; r++)
        own = s[r] * lk_rank_batches_at(&b, r) > own ? s[r] * lk_rank_batches_at(&b, r) : own;
    for (int i = 1; i < 20; i++)
        for (int k = 1; i + k < 19; k++)
            for (int l = 1; i + k + l < 20; l++) {
                const int batch[] = {i, k, l, 20 - i - k - l};
                double most = 0;

                for (int r = 0; r < 4; r++)
                    most = s[r] * batch[r] > most ? s[r] * batch[r] : most;
                least = most < least ? most : least;
            }
    ck_assert_double_eq_tol(own, least, 1e-12);
    drop(&m);
}
END_TEST

/* The model's slowest rank is the slowest by its own batch. */
START_TEST(the_slowest_by_its_batch_counts)
{
    static const double slowness[] = {1, 1, 2};
    static const struct {
        const char *batches;
        int most;
        double longest_ms;
    } rows[] = {{"2x8+4", 8, 8}, {"2x8+6", 8, 12}, {"4+8+1", 8, 8}, {"", 8, 16}};
    struct lk_config c = {
        .world_size = 3, .nodes = 1, .local_batch = rows[_i].most, .accumulation = 1};
    struct lk_config_model model;
    struct lk_cost_model *cost = NULL;
    struct lk_straggler_max slowest;
    struct made m = {0};

    make(&m, slowness, 3);
    snprintf(c.batches, sizeof c.batches, "%s", rows[_i].batches);
    ck_assert_int_eq(lk_cost_model_create(&m.cluster, NULL, NULL, &cost), LK_OK);
    ck_assert_int_eq(lk_config_model_init(&model, &m.job, &m.cluster, cost, &m.slow, &c), LK_OK);
    model.step.law = (struct lk_straggler_law){0};
    ck_assert_int_eq(lk_straggler_max_init(&slowest, &model.step, 1), LK_OK);
    ck_assert_double_eq_tol((model.step.forward_s + model.step.backward_s) * (1 + slowest.mean),
                            1e-3 * rows[_i].longest_ms, 1e-8);
    lk_config_model_fini(&model);
    lk_cost_model_destroy(cost);
    drop(&m);
}
END_TEST

/* ---- Texts ---- */

static const struct {
    const char *text, *canonical;
    int ranks, most;
    int64_t sum;
} texts[] = {{"8+8+4", "2x8+4", 3, 8, 20},
             {"2x8+4", "2x8+4", 3, 8, 20},
             {"1x3+2x3+5", "3x3+5", 4, 5, 14},
             {"7", "7", 1, 7, 7}};
static const char *const none[] = {"",      "8,4", "8+",    "+8",  "x8",           "2x",
                                   "0x8+1", "0+1", "2x2x2", "8 4", "2147483648x1", "1e3"};

START_TEST(texts_are_read)
{
    char text[LK_RANK_BATCHES_TEXT], list[64];
    struct lk_rank_batches b;

    for (size_t i = 0; i < LK_COUNT(texts); i++) {
        ck_assert_int_eq(lk_rank_batches_parse(texts[i].text, &b), LK_OK);
        ck_assert_int_eq(lk_rank_batches_text(&b, text), LK_OK);
        ck_assert_str_eq(text, texts[i].canonical);
        ck_assert_int_eq(b.ranks, texts[i].ranks);
        ck_assert_int_eq(b.most, texts[i].most);
        ck_assert_int_eq(b.sum, texts[i].sum);
    }
    for (size_t i = 0; i < LK_COUNT(none); i++)
        ck_assert_msg(lk_rank_batches_parse(none[i], &b) == LK_EUSAGE, "'%s'", none[i]);
    lk_rank_batches_list("2x8+4", list, sizeof list);
    ck_assert_str_eq(list, "8,8,4");
    lk_rank_batches_list("2x8+4", list, 4);
    ck_assert_str_eq(list, "");
    ck_assert_int_eq(lk_rank_batches_check("2x8+4", 3, 8), LK_OK);
    ck_assert_int_eq(lk_rank_batches_check("8+8+4", 3, 8), LK_EUSAGE);
    ck_assert_int_eq(lk_rank_batches_check("2x8+4", 4, 8), LK_EUSAGE);
    ck_assert_int_eq(lk_rank_batches_check("2x8+4", 3, 9), LK_EUSAGE);
    ck_assert_int_eq(lk_rank_batches_check("3x8", 3, 8), LK_EUSAGE);
}
END_TEST

SUITE(balance, c)
{
    tcase_add_loop_test(c, samples_go_to_who_is_done_first, 0, LK_COUNT(splits));
    tcase_add_loop_test(c, no_split_is_better, 0, 4);
    tcase_add_loop_test(c, the_slowest_by_its_batch_counts, 0, 4);
    tcase_add_test(c, texts_are_read);
}
