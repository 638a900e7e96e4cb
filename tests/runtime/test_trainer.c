/* The trainer: a rank alone, ranks together as threads, its spans, and how a failure spreads. */
#include "runtime/train/trainer.h"

#include "base/array.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, WARMUP = 2, ALL = STEPS + WARMUP };
#define TIMEOUT_NS WAIT_PLENTY_NS

static struct lk_train_config config(int ranks, int rank)
{
    struct lk_train_config c = {.device = "cpu",
                                .comm = ranks == 1 ? "self" : "tcp",
                                .local_batch = 8 / ranks,
                                .steps = STEPS,
                                .warmup_steps = WARMUP,
                                .samples = 512,
                                .prefetch = 2,
                                .sampler.shuffle = true,
                                .seed = 5,
                                .timeout_ns = TIMEOUT_NS};

    c.device_config.timed_flops = 1e12;
    c.device_config.timed_Bps = 1e11;
    c.device_config.slowdown = 1;
    c.comm_config.rank = rank;
    c.comm_config.world_size = ranks;
    c.model = (struct lk_model_config){.name = "gpt",
                                       .layers = 1,
                                       .heads = 2,
                                       .channels = 16,
                                       .context = 8,
                                       .vocab = 32,
                                       .seed = 3};
    c.optim.learning_rate = 0.1;
    c.optim.momentum = 0.9;
    c.reducer.ddp_rule = LK_DDP_TORCH_2;
    c.reducer.first_bytes = 4096;
    c.reducer.cap_bytes = 4096;
    c.reducer.accumulation = 1;
    c.reducer.no_sync = true;
    c.reducer.noise_every = 1;
    return c;
}

/* ---- Alone ---- */

/* Counts what is emitted, by track and span kind; steps must not go back on a track. */
struct counts {
    pthread_mutex_t lock;
    int n[LK_TRACK_KIND_COUNT][LK_SPAN_KIND_COUNT];
    bool ordered;
};
struct counted_track {
    struct counts *counts;
    enum lk_track_kind kind;
    uint32_t step;
};
static struct counted_track tracks[8];
static int n_tracks;

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    struct counted_track *t = &tracks[n_tracks++];

    *t = (struct counted_track){sink, info->kind, 0};
    *out_ctx = t;
    return LK_OK;
}

static void emit(void *ctx, const struct lk_span *s)
{
    struct counted_track *t = ctx;

    pthread_mutex_lock(&t->counts->lock);
    t->counts->n[t->kind][s->kind]++;
    t->counts->ordered &= s->step >= t->step && s->end_ns >= s->start_ns;
    t->step = s->step;
    pthread_mutex_unlock(&t->counts->lock);
}

static const struct {
    int accumulation, prefetch;
    bool no_sync;
} shapes[] = {{1, 2, true}, {3, 2, true}, {3, 0, true}, {3, 2, false}};

START_TEST(spans_of_a_run)
{
    static const struct lk_sink_ops ops = {.name = "test", .track_open = track_open, .emit = emit};
    struct counts counts = {.lock = PTHREAD_MUTEX_INITIALIZER, .ordered = true};
    struct lk_train_config c = config(1, 0);
    struct lk_train_result r;
    int micro = ALL * shapes[_i].accumulation;
    int buckets;

    c.reducer.accumulation = shapes[_i].accumulation;
    c.reducer.no_sync = shapes[_i].no_sync;
    c.reducer.noise_every = 0;
    c.prefetch = shapes[_i].prefetch;
    n_tracks = 0;
    ck_assert_int_eq(lk_recorder_create(&c.recorder), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(c.recorder, &ops, &counts), LK_OK);
    ck_assert_msg(lk_train(&c, &r) == LK_OK, "%s", lk_error_text());
    lk_recorder_destroy(c.recorder);
    ck_assert(counts.ordered);
    ck_assert_int_eq(counts.n[LK_TRACK_HOST][LK_SPAN_STEP], ALL);
    ck_assert_int_eq(counts.n[LK_TRACK_HOST][LK_SPAN_INPUT], micro);
    ck_assert_int_eq(counts.n[LK_TRACK_HOST][LK_SPAN_COUNTER], 2 * ALL);
    ck_assert_int_eq(counts.n[LK_TRACK_COMPUTE][LK_SPAN_FORWARD], micro);
    ck_assert_int_eq(counts.n[LK_TRACK_COMPUTE][LK_SPAN_BACKWARD], micro);
    ck_assert_int_eq(counts.n[LK_TRACK_COMPUTE][LK_SPAN_OPTIMIZER], ALL);
    ck_assert_int_gt(counts.n[LK_TRACK_COMPUTE][LK_SPAN_KERNEL], 10 * micro);
    ck_assert_int_ge(counts.n[LK_TRACK_LOADER][LK_SPAN_INPUT], shapes[_i].prefetch ? micro : 0);
    buckets = counts.n[LK_TRACK_COMM][LK_SPAN_COLLECTIVE];
    ck_assert_int_ge(buckets, shapes[_i].no_sync ? 2 * ALL - 1 : 2 * micro - 1);
    ck_assert_int_eq(r.n, ALL);
    ck_assert_double_lt(r.loss[ALL - 1], r.loss[0]);
    ck_assert_double_nan(r.noise.value); /* one rank */
    ck_assert_double_nan(r.verify_max_error);
    lk_train_result_fini(&r);
}
END_TEST

static const struct {
    const char *device, *comm;
    int64_t steps;
    int local_batch;
    const char *data;
    enum lk_status st;
} bad[] = {
    {"abacus", "self", 1, 1, NULL, LK_EUNSUPPORTED}, {"cpu", "pigeon", 1, 1, NULL, LK_EUSAGE},
    {"cpu", "self", 0, 1, NULL, LK_EUSAGE},          {"cpu", "self", 1, 0, NULL, LK_EUSAGE},
    {"cpu", "self", 1, 1, "/nowhere", LK_EUSAGE},    {"cpu", "self", 1, 4096, NULL, LK_EUSAGE},
};

START_TEST(bad_configurations)
{
    struct lk_train_config c = config(1, 0);
    struct lk_train_result r;
    enum lk_status st;

    c.device = bad[_i].device;
    c.comm = bad[_i].comm;
    c.steps = bad[_i].steps;
    c.local_batch = bad[_i].local_batch;
    c.data = bad[_i].data; /* the vocabulary of 32 is too small for bytes */
    st = lk_train(&c, &r);
    ck_assert_msg(st == bad[_i].st || st == LK_EUNSUPPORTED, "%d: %s", st, lk_error_text());
}
END_TEST

/* The timed device computes nothing, and runs the same loop. */
START_TEST(timed)
{
    struct lk_train_config c = config(1, 0);
    struct lk_train_result r;

    c.device = "timed";
    ck_assert_msg(lk_train(&c, &r) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(r.n, ALL);
    lk_train_result_fini(&r);
}
END_TEST

static enum lk_status dawdle(void *ctx, int64_t step, double loss)
{
    (void)loss;
    if (step >= *(const int64_t *)ctx)
        lk_sleep_until_ns(lk_monotonic_ns() + 2 * LK_NS_PER_MS);
    return LK_OK;
}

/* Time between counted steps is in the total, not in a step. */
START_TEST(counted_time_is_whole)
{
    struct lk_train_config c = config(1, 0);
    int64_t warmup = c.warmup_steps;
    struct lk_train_result r;
    double sum_s = 0, between_s = 0.002 * (double)(c.steps - 1);

    c.device = "timed";
    c.progress = dawdle;
    c.progress_ctx = &warmup;
    ck_assert_msg(lk_train(&c, &r) == LK_OK, "%s", lk_error_text());
    for (int64_t i = warmup; i < r.n; i++)
        sum_s += r.step_s[i];
    ck_assert_double_ge(r.counted_s, sum_s + between_s);
    lk_train_result_fini(&r);
}
END_TEST

/* ---- Together ---- */

struct together {
    struct lk_train_result results[RANKS_MAX];
    bool verify;
    int accumulation;
    int failing; /* rank whose data are missing; -1: none */
};

static enum lk_status train_rank(struct rank *me)
{
    struct together *t = me->ctx;
    struct lk_train_config c = config(me->world_size, me->rank);
    enum lk_status st = LK_OK;

    c.timeout_ns = me->timeout_ns;
    c.verify = t->verify;
    c.reducer.accumulation = t->accumulation;
    c.local_batch /= t->accumulation;
    if (me->rank == t->failing) {
        c.model.vocab = 256;
        c.data = "/nowhere";
    }
    LK_TRY(rank_connect(me, &c.comm_config.store));
    st = lk_train(&c, &t->results[me->rank]);
    lk_store_close(c.comm_config.store);
out:
    return st;
}

static const struct {
    int ranks, accumulation;
} groups[] = {{2, 1}, {4, 1}, {2, 4}, {8, 1}};

/* K ranks give the losses of one rank on the same global batch. */
START_TEST(as_one_rank)
{
    struct together t = {.verify = true, .accumulation = groups[_i].accumulation, .failing = -1};
    struct lk_train_config alone = config(1, 0);
    struct rank ranks[RANKS_MAX];
    struct lk_train_result one;

    ck_assert_msg(lk_train(&alone, &one) == LK_OK, "%s", lk_error_text());
    ranks_run_threads(groups[_i].ranks, TIMEOUT_NS, train_rank, &t, ranks);
    for (int r = 0; r < groups[_i].ranks; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_mem_eq(t.results[r].loss, t.results[0].loss, ALL * sizeof(double));
        ck_assert_double_eq(t.results[r].noise.value, t.results[0].noise.value);
        ck_assert_double_lt(t.results[r].verify_max_error, 1e-4);
    }
    /* float32 sums in another order: about 1e-7 a step, and eight steps to multiply it. */
    for (int i = 0; i < ALL; i++)
        ck_assert_double_eq_tol(t.results[0].loss[i], one.loss[i], 1e-5);
    ck_assert_uint_eq(t.results[0].noise.n, STEPS);
    for (int r = 0; r < groups[_i].ranks; r++)
        lk_train_result_fini(&t.results[r]);
    lk_train_result_fini(&one);
}
END_TEST

/* A rank that fails ends the others too, with its own error text. */
START_TEST(failure_spreads)
{
    struct together t = {.accumulation = 1, .failing = 1};
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(3, TIMEOUT_NS, train_rank, &t, ranks);
    for (int r = 0; r < 3; r++) {
        ck_assert_int_ne(ranks[r].status, LK_OK);
        ck_assert_msg(strstr(ranks[r].text, "/nowhere") != NULL, "rank %d: %s", r, ranks[r].text);
        ck_assert_msg(strstr(ranks[r].text, "rank 1") != NULL, "rank %d: %s", r, ranks[r].text);
    }
}
END_TEST

SUITE(trainer, c)
{
    tcase_add_loop_test(c, spans_of_a_run, 0, LK_COUNT(shapes));
    tcase_add_loop_test(c, bad_configurations, 0, LK_COUNT(bad));
    tcase_add_test(c, timed);
    tcase_add_test(c, counted_time_is_whole);
    tcase_add_loop_test(c, as_one_rank, 0, LK_COUNT(groups));
    tcase_add_test(c, failure_spreads);
}
