/* The replay model: a job's gradients, in its order and buckets, with its waits. */
#include "runtime/train/trainer.h"

#include "base/array.h"
#include "facts/job.h"
#include "kernels/ops.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 4, STEPS = 4 };
#define TIMEOUT_NS WAIT_PLENTY_NS

/* Registration order a, b, c, d; ready order d, b, c, a. c is float16. */
static const struct {
    const char *name;
    uint64_t elems;
    enum lk_dtype dtype;
    double ready;
} tensors[TENSORS] = {
    {"a", 100, LK_F32, 1}, {"b", 300, LK_F32, 0.5}, {"c", 201, LK_F16, 0.75}, {"d", 50, LK_F32, 0}};
static const size_t ready_order[TENSORS] = {3, 1, 2, 0};

static char *dir;
static char *job_path;

/* Layers of SyncBatchNorm: at a quarter and at three quarters of forward. */
static const struct lk_job_sync_bn layers[] = {{8, 0.25}, {16, 0.75}};

static void set(struct lk_quantity *q, double value)
{
    ck_assert_int_eq(lk_quantity_set(q, value, NAN, NAN, 1, "test"), LK_OK);
}

static void set_gap(struct lk_job *j, double gap_s)
{
    for (size_t i = 0; i < j->n_compute; i++)
        set(&j->compute[i].gap_s, gap_s);
}

static void write_job(bool exchanges)
{
    static const int batches[] = {2, 4};
    struct lk_job j = {.ddp_rule = LK_DDP_TORCH_2,
                       .first_bytes = 200,
                       .cap_bytes = 1000,
                       .accumulation = 1,
                       .reduce = LK_REDUCTION_LAST,
                       .n_tensors = TENSORS};

    j.flops_per_sample = lk_quantity_none();
    j.memory_fixed_bytes = lk_quantity_none();
    j.memory_per_sample_bytes = lk_quantity_none();
    j.noise_scale = lk_quantity_none();
    ck_assert_int_eq(lk_strdup(&j.name, "hand-made"), LK_OK);
    ck_assert_int_eq(lk_strdup(&j.sample_unit, "sample"), LK_OK);
    ck_assert_int_eq(lk_alloc(&j.tensors, TENSORS, sizeof *j.tensors), LK_OK);
    ck_assert_int_eq(lk_alloc(&j.ready_order, TENSORS, sizeof *j.ready_order), LK_OK);
    for (size_t i = 0; i < TENSORS; i++) {
        ck_assert_int_eq(lk_strdup(&j.tensors[i].name, tensors[i].name), LK_OK);
        j.tensors[i].elems = tensors[i].elems;
        j.tensors[i].dtype = tensors[i].dtype;
        j.tensors[i].ready = tensors[i].ready;
        j.ready_order[i] = ready_order[i];
    }
    ck_assert_int_eq(lk_alloc(&j.compute, LK_COUNT(batches), sizeof *j.compute), LK_OK);
    j.n_compute = LK_COUNT(batches);
    for (size_t i = 0; i < j.n_compute; i++) {
        j.compute[i].local_batch = batches[i];
        set(&j.compute[i].forward_s, 0.001 * batches[i]);
        set(&j.compute[i].backward_s, 0.002 * batches[i]);
        set(&j.compute[i].optimizer_s, 0.001);
        set(&j.compute[i].input_s, 0.0005);
        set(&j.compute[i].gap_s, 0);
        set(&j.compute[i].transient, 0);
    }
    if (exchanges) {
        ck_assert_int_eq(lk_alloc(&j.sync_bn, LK_COUNT(layers), sizeof *j.sync_bn), LK_OK);
        j.n_sync_bn = LK_COUNT(layers);
        memcpy(j.sync_bn, layers, sizeof layers);
        j.find_unused_parameters = true;
        set_gap(&j, 0.003);
    }
    ck_assert_msg(lk_job_write(job_path, &j) == LK_OK, "%s", lk_error_text());
    lk_job_fini(&j);
}

static void setup(void)
{
    dir = scratch_create();
    job_path = scratch_path(dir, "job.json");
    write_job(false);
}

static void teardown(void)
{
    free(job_path);
    scratch_remove(dir);
}

static struct lk_train_config config(int ranks, int rank)
{
    struct lk_train_config c = {.device = "timed",
                                .comm = ranks == 1 ? "self" : "tcp",
                                .local_batch = 2,
                                .steps = STEPS,
                                .samples = 64,
                                .prefetch = 2,
                                .timeout_ns = TIMEOUT_NS};

    c.device_config.timed_flops = 1e12;
    c.device_config.timed_Bps = 1e11;
    c.device_config.slowdown = 1;
    c.comm_config.rank = rank;
    c.comm_config.world_size = ranks;
    c.model.name = "replay";
    c.model.job = job_path;
    c.optim.learning_rate = 1;
    c.reducer.ddp_rule = LK_DDP_TORCH_2;
    c.reducer.first_bytes = 200;
    c.reducer.cap_bytes = 1000;
    c.reducer.accumulation = 1;
    c.reducer.no_sync = true;
    return c;
}

/* ---- Emitted spans ---- */

enum { SEEN_MAX = 256 };
struct seen {
    struct lk_span spans[SEEN_MAX];
    size_t n;
};
static struct seen seen[4]; /* by enum lk_track_kind: one track of each, one thread a track */

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    (void)sink;
    *out_ctx = &seen[info->kind];
    return LK_OK;
}

static void emit(void *ctx, const struct lk_span *s)
{
    struct seen *k = ctx;

    ck_assert_uint_lt(k->n, SEEN_MAX);
    k->spans[k->n++] = *s;
}

static double seconds(const struct lk_span *s)
{
    return (double)(s->end_ns - s->start_ns) * 1e-9;
}

/* Return span i of a kind in the last step; NULL past the last. */
static const struct lk_span *last_step(enum lk_track_kind track, enum lk_span_kind kind, size_t i)
{
    for (size_t k = 0; k < seen[track].n; k++) {
        const struct lk_span *s = &seen[track].spans[k];

        if (s->kind == kind && s->step == STEPS - 1 && i-- == 0)
            return s;
    }
    return NULL;
}

static void run_and_watch(int local_batch)
{
    static const struct lk_sink_ops ops = {.name = "test", .track_open = track_open, .emit = emit};
    struct lk_train_config c = config(1, 0);
    struct lk_train_result r;

    c.local_batch = local_batch;
    memset(seen, 0, sizeof seen);
    ck_assert_int_eq(lk_recorder_create(&c.recorder), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(c.recorder, &ops, &seen), LK_OK);
    ck_assert_msg(lk_train(&c, &r) == LK_OK, "%s", lk_error_text());
    lk_recorder_destroy(c.recorder);
    lk_train_result_fini(&r);
}

START_TEST(order_and_buckets)
{
    /* Limits 200 then 1000: d (200 B) closes the first; b and c (1200 + 404 B) close, since b alone
     * is above; then c and a are left over. c's 201 float16 are 101 float32. */
    static const uint64_t bytes[] = {200, 1200, 804};

    run_and_watch(2);
    for (size_t i = 0; i < TENSORS; i++) {
        const struct lk_span *s = last_step(LK_TRACK_COMPUTE, LK_SPAN_GRADIENT, i);

        ck_assert_ptr_nonnull(s);
        ck_assert_int_eq(s->index, (int)ready_order[i]);
    }
    for (size_t i = 0; i < LK_COUNT(bytes); i++) {
        const struct lk_span *s = last_step(LK_TRACK_COMM, LK_SPAN_COLLECTIVE, i);

        ck_assert_ptr_nonnull(s);
        ck_assert_uint_eq(s->bytes, bytes[i]);
        ck_assert_int_eq(s->index, (int)i);
    }
    ck_assert_ptr_null(last_step(LK_TRACK_COMM, LK_SPAN_COLLECTIVE, LK_COUNT(bytes)));
}
END_TEST

/* The waits are at least as long as in the job; batch 3 lies between the measured ones. */
START_TEST(waits)
{
    const struct lk_span *backward, *gradient;

    run_and_watch(3);
    ck_assert_double_ge(seconds(last_step(LK_TRACK_COMPUTE, LK_SPAN_FORWARD, 0)), 0.003);
    backward = last_step(LK_TRACK_COMPUTE, LK_SPAN_BACKWARD, 0);
    ck_assert_double_ge(seconds(backward), 0.006 - 1e-6);
    ck_assert_double_ge(seconds(last_step(LK_TRACK_COMPUTE, LK_SPAN_OPTIMIZER, 0)), 0.001 - 1e-6);
    ck_assert_double_ge(seconds(last_step(LK_TRACK_HOST, LK_SPAN_INPUT, 0)), 0.0005 - 1e-6);
    gradient = last_step(LK_TRACK_COMPUTE, LK_SPAN_GRADIENT, 1); /* b, half way */
    ck_assert_uint_ge(gradient->start_ns - backward->start_ns, 2999000);
    ck_assert_uint_eq(seen[LK_TRACK_LOADER].n, 0); /* input is waited for, not prefetched */
}
END_TEST

static enum lk_status replay_rank(struct rank *me)
{
    struct lk_train_config c = config(me->world_size, me->rank);
    struct lk_train_result r = {0};
    enum lk_status st = LK_OK;
    double all_s = 0;

    LK_TRY(rank_connect(me, &c.comm_config.store));
    c.device_config.slowdown = me->rank == 1 ? 2 : 1;
    st = lk_train(&c, &r);
    for (int64_t i = 0; i < r.n; i++)
        all_s += r.step_s[i];
    /* Rank 1 takes two of (2 + 4) ms, and all wait for it. A rank that starts late finds part of
     * the wait over, in the first step all of it, but no step of rank 1 ends before all arrived. */
    if (st == LK_OK && all_s < (me->rank == 1 ? STEPS : STEPS - 1) * 0.012)
        st = lk_fail(LK_EINTERNAL, "%d steps of %g s", STEPS, all_s);
    lk_train_result_fini(&r);
    lk_store_close(c.comm_config.store);
out:
    return st;
}

START_TEST(slow_rank_is_waited_for)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(3, TIMEOUT_NS, replay_rank, NULL, ranks);
    for (int r = 0; r < 3; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}
END_TEST

static enum lk_status watched_rank(struct rank *me)
{
    static const struct lk_sink_ops ops = {.name = "test", .track_open = track_open, .emit = emit};
    struct lk_train_config c = config(me->world_size, me->rank);
    struct lk_train_result r = {0};
    enum lk_status st = LK_OK;

    LK_TRY(rank_connect(me, &c.comm_config.store));
    if (me->rank == 0) {
        LK_TRY(lk_recorder_create(&c.recorder));
        LK_TRY(lk_recorder_attach(c.recorder, &ops, &seen));
    }
    st = lk_train(&c, &r);
    lk_train_result_fini(&r);
    lk_recorder_destroy(c.recorder);
    lk_store_close(c.comm_config.store);
out:
    return st;
}

/* Collectives come in stream order: both layers' gathers in forward, then, in backward, buckets and
 * layers by position (layers at 1/4 and 3/4, gradients at 0, 1/2, 3/4, 1), and the map of used
 * parameters last. Backward does not continue before a layer's sum has arrived. */
START_TEST(exchanges_are_real)
{
    static const struct {
        int index;
        uint64_t bytes;
    } expected[] = {{-1, 2 * 17 * 4}, {-1, 2 * 33 * 4}, {0, 200}, {-1, 32 * 4},
                    {1, 1200},        {-1, 16 * 4},     {2, 804}, {-1, 4 * 4}};
    struct rank ranks[RANKS_MAX];
    const struct lk_span *step, *optimizer, *mark;

    write_job(true);
    memset(seen, 0, sizeof seen);
    ranks_run_threads(2, TIMEOUT_NS, watched_rank, NULL, ranks);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
    for (size_t i = 0; i < LK_COUNT(expected); i++) {
        const struct lk_span *s = last_step(LK_TRACK_COMM, LK_SPAN_COLLECTIVE, i);

        ck_assert_ptr_nonnull(s);
        ck_assert_int_eq(s->index, expected[i].index);
        ck_assert_uint_eq(s->bytes, expected[i].bytes);
    }
    ck_assert_ptr_null(last_step(LK_TRACK_COMM, LK_SPAN_COLLECTIVE, LK_COUNT(expected)));
    /* b, at half of backward, comes after the layer at a quarter of it. */
    mark = last_step(LK_TRACK_COMPUTE, LK_SPAN_GRADIENT, 1);
    ck_assert_uint_ge(mark->start_ns, last_step(LK_TRACK_COMM, LK_SPAN_COLLECTIVE, 3)->end_ns);
    optimizer = last_step(LK_TRACK_COMPUTE, LK_SPAN_OPTIMIZER, 0);
    ck_assert_uint_ge(optimizer->start_ns, last_step(LK_TRACK_COMM, LK_SPAN_COLLECTIVE, 7)->end_ns);
    step = last_step(LK_TRACK_HOST, LK_SPAN_STEP, 0);
    ck_assert_uint_ge(step->end_ns, optimizer->end_ns + 2999000); /* the gap */
}
END_TEST

static const struct {
    const char *device, *says;
    int local_batch;
    bool no_job;
} bad[] = {{"cpu", "needs the device timed", 2, false},
           {"timed", "needs a job file", 2, true},
           {"timed", "from local batch 2 to 4, not 1", 1, false},
           {"timed", "from local batch 2 to 4, not 5", 5, false}};

START_TEST(refused)
{
    struct lk_train_config c = config(1, 0);
    struct lk_train_result r;

    c.device = bad[_i].device;
    c.local_batch = bad[_i].local_batch;
    if (bad[_i].no_job)
        c.model.job = NULL;
    ck_assert_int_ne(lk_train(&c, &r), LK_OK);
    ck_assert_msg(strstr(lk_error_text(), bad[_i].says) != NULL, "%s", lk_error_text());
}
END_TEST

SUITE(replay, c)
{
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, order_and_buckets);
    tcase_add_test(c, waits);
    tcase_add_test(c, slow_rank_is_waited_for);
    tcase_add_test(c, exchanges_are_real);
    tcase_add_loop_test(c, refused, 0, LK_COUNT(bad));
}
