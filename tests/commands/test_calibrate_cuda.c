/*
 * A calibration of one GPU from end to end, on the machine without GPUs (tests/fakes/fake_cuda.h)
 * with a model of time: what it puts into the cluster file and the tables is what the model says.
 * Two GPUs are probed for collectives over an NCCL that is none (tests/fakes/fake_nccl.h).
 */
#include "base/array.h"
#include "commands/calibrate.h"
#include "kernels/ops.h"
#include "runtime/device/calls_cuda.h"
#include "runtime/rendezvous/rank_env.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_nccl.h"
#include "tests/fakes/fake_nvml.h"
#include "tests/fakes/fake_time_cuda.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <string.h>

/* Parameters of the model of time (tests/fakes/fake_time_cuda.h). */
static const double FLOPS = 1e7, COPY_BPS = 1e9, HOST_BPS = 0.5e9;
static const double WAIT_SLOWDOWN = 0.25, WIRE_SLOWDOWN = 0.5, DELTA = 0.2;

static void start_time(void)
{
    fake_time_reset();
    fake_time.flops = FLOPS;
    fake_time.copy_Bps = COPY_BPS;
    fake_time.host_Bps = HOST_BPS;
    fake_time.compute_ms = 0.25;
    fake_time.wait_slowdown = WAIT_SLOWDOWN;
    fake_time.wire_slowdown = WIRE_SLOWDOWN;
    fake_time.delta = DELTA;
}

/* ---- */

enum { RATE_GBPS = 2, BYTES = 1 << 19 };

static const struct lk_product_shape shapes[] = {
    {"small", 8, 16, 24},
    {"less", 8, 8, 8},
};

static const struct calibrate_options options = {.dtypes = "float32",
                                                 .sizes = {.n = 1, .v = {4096}},
                                                 .repetitions = 3,
                                                 .warmup = 1,
                                                 .overlap = true,
                                                 .overlap_bytes = BYTES,
                                                 .block = {4, {1, 8, 16, 2}},
                                                 .overlap_ctas = {2, {1, 16}},
                                                 .overlap_GBps = {2, {RATE_GBPS, 1}},
                                                 .rates = true,
                                                 .copy_sizes = {2, {1000, 100000}},
                                                 .device = CALIBRATE_CUDA,
                                                 .timeout_s = 20};
/* GPU 1 of 2 is the one that the fake NVML knows. */
static const struct lk_rank_env alone = {
    .present = true, .world_size = 1, .local_rank = 1, .local_world_size = 1, .nodes = 1};

static char *locks;

static void setup(void)
{
    locks = scratch_create_for_gpus();
    fake_cuda_reset(2);
    start_time();
    fake_nvml_reset();
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(locks);
}

static enum lk_status calibrate(const struct calibrate_options *o, struct lk_cluster *c,
                                struct calibrate_tables *t)
{
    const struct calibrate_gpu gpu = {.options = o,
                                      .env = &alone,
                                      .cuda_calls = &fake_cuda_calls,
                                      .nvml_calls = &fake_nvml_calls,
                                      .shapes = shapes,
                                      .n_shapes = LK_COUNT(shapes)};

    lk_cluster_init(c);
    ck_assert_int_eq(calibrate_tables_create(t), LK_OK);
    return calibrate_gpu(&gpu, c, t);
}

static void finish(struct lk_cluster *c, struct calibrate_tables *t)
{
    lk_cluster_fini(c);
    calibrate_tables_fini(t);
}

static void near(double got, double want, const char *what)
{
    ck_assert_msg(fabs(got - want) <= 0.002 * want, "%s: %g, expected %g", what, got, want);
}

static double number(const struct lk_table *t, size_t row, const char *column)
{
    const struct lk_cell *c = lk_table_cell(t, row, column);

    ck_assert_msg(c && c->type == LK_CELL_NUMBER, "%s of row %zu", column, row);
    return c->number;
}

static const char *fact(const struct lk_cluster *c, const char *key)
{
    for (size_t i = 0; i < c->n_machine; i++)
        if (!strcmp(c->machine[i].key, key))
            return c->machine[i].value;
    return "";
}

static void check_cluster(const struct lk_cluster *c)
{
    ck_assert_str_ne(fact(c, "processor"), "");
    ck_assert_str_eq(fact(c, "gpu_nvlinks"), "17");
    ck_assert_str_eq(fact(c, "gpu_pcie"), "5 x16");
    ck_assert_str_eq(c->gpu, "fake");
    ck_assert_int_eq(c->gpus_per_node, 2);
    ck_assert_int_eq(c->device.compute_capability, 90);
    near(c->device.memory_bytes.value, 80.0 * (1 << 30), "memory");
    near(c->device.flops.value, FLOPS, "flops");
    ck_assert_ptr_nonnull(strstr(c->device.flops.source, "bfloat16"));
    near(c->device.memory_Bps.value, 2 * COPY_BPS, "memory's rate");
    near(c->gamma_wait.value, WAIT_SLOWDOWN, "gamma_wait");
    near(c->gamma_wire.value, WIRE_SLOWDOWN, "gamma_wire");
    near(c->delta.value, DELTA, "delta");
    ck_assert(c->overlap_proxy);
    ck_assert_ptr_nonnull(strstr(c->delta.source, "surrogate of 16 thread blocks"));
    ck_assert_ptr_nonnull(strstr(c->delta.source, "2 GB/s"));
    ck_assert_uint_eq(c->n_points, 0);
}

static void check_tables(const struct calibrate_tables *t)
{
    const struct lk_table *copies = t->table[CALIBRATE_COPIES];
    const struct lk_table *products = t->table[CALIBRATE_PRODUCTS];
    const struct lk_table *overlap = t->table[CALIBRATE_OVERLAP];
    int in_file = 0;

    ck_assert_uint_eq(t->table[CALIBRATE_COLLECTIVES]->n_rows, 0);
    ck_assert_uint_eq(copies->n_rows, 3 * 2); /* directions and sizes */
    for (size_t i = 0; i < copies->n_rows; i++)
        near(number(copies, i, "rate_Bps"), i < 2 ? COPY_BPS : HOST_BPS, "a copy");
    ck_assert_uint_eq(products->n_rows, 2 * LK_COUNT(shapes)); /* bfloat16, then tf32 */
    for (size_t i = 0; i < products->n_rows; i++) {
        near(number(products, i, "rate_flops"), FLOPS, "a product");
        ck_assert_str_eq(lk_table_cell(products, i, "dtype")->text, i < 2 ? "bfloat16" : "tf32");
    }
    ck_assert_uint_eq(overlap->n_rows, 2 * 2); /* rates and thread blocks */
    for (size_t i = 0; i < overlap->n_rows; i++) {
        near(number(overlap, i, "ctas"), i % 2 ? 16 : 1, "thread blocks");
        near(number(overlap, i, "rate_Bps"), (i < 2 ? RATE_GBPS : 1) * 1e9, "rate");
        near(number(overlap, i, "alone_Bps"), (i < 2 ? RATE_GBPS : 1) * 1e9, "rate alone");
        near(number(overlap, i, "gamma_wait"), WAIT_SLOWDOWN, "gamma_wait");
        near(number(overlap, i, "gamma_wire"), WIRE_SLOWDOWN, "gamma_wire");
        near(number(overlap, i, "delta"), DELTA, "delta");
        in_file += lk_table_cell(overlap, i, "in_file")->text[0] != 0;
    }
    ck_assert_int_eq(in_file, 1);
    /* The note tells the GPU's clock during the probe. */
    ck_assert_ptr_nonnull(strstr(overlap->notes[overlap->n_notes - 1], "MHz"));
}

START_TEST(ranks_with_gpus_have_all_cpus)
{
    struct calibrate_options o = {.device = CALIBRATE_CUDA, .pin = true};

    ck_assert(!calibrate_pins(&o));
    o.device = CALIBRATE_CPU;
    ck_assert(calibrate_pins(&o));
    o.pin = false;
    ck_assert(!calibrate_pins(&o));
}
END_TEST

START_TEST(one_gpu_gives_what_its_model_says)
{
    struct calibrate_tables t;
    struct lk_cluster c;

    ck_assert_msg(calibrate(&options, &c, &t) == LK_OK, "%s", lk_error_text());
    check_cluster(&c);
    check_tables(&t);
    ck_assert_int_gt(fake_time.holds, 0);
    ck_assert_int_gt(fake_time.moves, fake_time.holds);
    ck_assert_int_gt(fake_time.products, 0);
    finish(&c, &t);
}
END_TEST

/* The expected number of thread blocks is measured, even if it was not requested. */
START_TEST(the_file_takes_the_thread_blocks_of_nccl)
{
    struct calibrate_options o = options;
    struct calibrate_tables t;
    struct lk_cluster c;

    o.rates = false;
    o.overlap_GBps.n = 1;
    o.nccl_ctas = 5;
    ck_assert_msg(calibrate(&o, &c, &t) == LK_OK, "%s", lk_error_text());
    ck_assert_ptr_nonnull(strstr(c.delta.source, "surrogate of 5 thread blocks"));
    ck_assert_uint_eq(t.table[CALIBRATE_OVERLAP]->n_rows, 3);
    ck_assert(!lk_quantity_known(&c.device.flops));
    ck_assert_int_eq(fake_time.products, 0);
    finish(&c, &t);
}
END_TEST

/* With compute that takes no time everything but the overlap is calibrated, and a note says so. */
START_TEST(what_cannot_be_probed_costs_no_more)
{
    struct calibrate_options o = options;
    const struct lk_table *overlap;
    struct calibrate_tables t;
    struct lk_cluster c;

    fake_time.compute_ms = 0;
    ck_assert_msg(calibrate(&o, &c, &t) == LK_OK, "%s", lk_error_text());
    overlap = t.table[CALIBRATE_OVERLAP];
    near(c.device.flops.value, FLOPS, "flops");
    ck_assert(!lk_quantity_known(&c.gamma_wait) && !lk_quantity_known(&c.delta));
    ck_assert_uint_eq(overlap->n_rows, 0);
    ck_assert_uint_ge(overlap->n_notes, 4);
    ck_assert_ptr_nonnull(strstr(overlap->notes[0], "not measured: calibrate: a surrogate of 1 "));
    finish(&c, &t);
}
END_TEST

/* Every so many-th call into CUDA fails once: the calibration returns an
 * error and leaks nothing. */
START_TEST(a_call_that_fails_leaves_nothing)
{
    struct calibrate_options o = options;
    enum lk_status st = LK_EINTERNAL;
    int failures = 0;

    o.overlap_ctas.n = o.overlap_GBps.n = 1;
    o.nccl_ctas = 1;
    o.repetitions = 1;
    o.warmup = 0;
    for (int n = 1; st != LK_OK; n += n < 50 ? 1 : n / 6) {
        struct calibrate_tables t;
        struct lk_cluster c;

        fake_cuda_reset(2);
        start_time();
        fake_cuda.fail_at = n;
        fake_cuda.fail_with = cudaErrorIllegalAddress;
        st = calibrate(&o, &c, &t);
        if (st != LK_OK) {
            failures++;
            ck_assert_ptr_nonnull(strstr(lk_error_text(), "cudaErrorIllegalAddress"));
        }
        finish(&c, &t);
        fake_cuda_check_clean();
    }
    ck_assert_int_gt(failures, 50);
}
END_TEST

START_TEST(a_gpu_that_hangs_is_given_up)
{
    struct calibrate_options o = options;
    struct calibrate_tables t;
    struct lk_cluster c;

    o.timeout_s = 0.05;
    fake_cuda.stuck = true;
    ck_assert_int_eq(calibrate(&o, &c, &t), LK_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "did not finish in time"));
    finish(&c, &t);
}
END_TEST

#ifdef LK_NCCL_BUILT

/* ---- Two GPUs, a process each, over the fake NCCL ---- */

enum { RANKS = 2, COLLS = 4, DTYPES = 2, TIMINGS = 2 };

static enum lk_status expect(bool right, const char *what)
{
    return right ? LK_OK : lk_fail(LK_EVERIFY, "not so: %s", what);
}

static enum lk_status check_line(const struct lk_table *t, size_t row)
{
    static const char *const numbers[] = {"in_time_s",  "in_algbw_Bps",  "in_busbw_Bps",
                                          "out_time_s", "out_algbw_Bps", "out_busbw_Bps",
                                          "host_s"};
    const struct lk_cell *c;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < LK_COUNT(numbers); i++) {
        c = lk_table_cell(t, row, numbers[i]);
        LK_TRY(expect(c && c->type == LK_CELL_NUMBER && c->number > 0, numbers[i]));
    }
    c = lk_table_cell(t, row, "ranks");
    LK_TRY(expect(c->number == RANKS, "two ranks"));
    c = lk_table_cell(t, row, "estimate_s");
    LK_TRY(
        expect(c->type == (row % TIMINGS ? LK_CELL_EMPTY : LK_CELL_NUMBER), "an estimate a call"));
out:
    return st;
}

/* Check rank 0's results; the others have none. Ranks that share a GPU give no evidence. */
static enum lk_status check_probe(const struct lk_cluster *c, const struct calibrate_tables *t,
                                  int rank, bool shared)
{
    const struct lk_table *colls = t->table[CALIBRATE_COLLECTIVES];
    size_t lines = rank == 0 ? COLLS * DTYPES * TIMINGS : 0;
    enum lk_status st = LK_OK;

    LK_TRY(expect(colls->n_rows == lines, "a line a collective, type and timing"));
    for (size_t i = 0; i < lines; i++)
        LK_TRY(check_line(colls, i));
    LK_TRY(expect(c->n_points == (rank || shared ? 0 : COLLS * TIMINGS), "points of one type"));
    LK_TRY(expect(c->gpus_per_node == (shared ? 1 : RANKS), "GPUs of the node"));
out:
    return st;
}

static enum lk_status probe_two(struct rank *me)
{
    bool shared = *(const bool *)me->ctx;
    struct calibrate_options o = options;
    struct lk_rank_env env = {.present = true,
                              .rank = me->rank,
                              .world_size = RANKS,
                              .local_rank = me->rank,
                              .local_world_size = RANKS,
                              .nodes = 1};
    struct calibrate_gpu gpu = {
        .options = &o, .env = &env, .cuda_calls = &fake_cuda_calls, .nccl_calls = &fake_nccl_calls};
    struct calibrate_tables t;
    struct lk_cluster c;
    enum lk_status st = LK_OK;

    fake_cuda_reset(shared ? 1 : RANKS);
    fake_cuda.host_threads = true;
    o.dtypes = "float32,bfloat16";
    o.overlap = o.rates = false;
    o.share_gpu = shared;
    lk_cluster_init(&c);
    LK_TRY(calibrate_tables_create(&t));
    LK_TRY(rank_connect(me, &gpu.store));
    LK_TRY(calibrate_gpu(&gpu, &c, &t));
    LK_TRY(check_probe(&c, &t, me->rank, shared));
    LK_TRY(expect(!fake_nccl.comms_alive && !fake_nccl.memory_alive, "nothing left of NCCL"));
    LK_TRY(expect(!fake_cuda.streams_alive && !fake_cuda.allocated, "nothing left of CUDA"));
out:
    finish(&c, &t);
    lk_store_close(gpu.store);
    return st;
}

START_TEST(two_gpus_probe_collectives)
{
    bool shared = _i;
    struct rank ranks[RANKS_MAX];

    fake_nccl_create();
    fake_nccl_reset();
    ranks_run_processes(RANKS, WAIT_PLENTY_NS, probe_two, &shared, 1, NULL, ranks);
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
    fake_nccl_destroy();
}
END_TEST

#endif

SUITE(calibrate_cuda, c)
{
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, one_gpu_gives_what_its_model_says);
    tcase_add_test(c, the_file_takes_the_thread_blocks_of_nccl);
    tcase_add_test(c, what_cannot_be_probed_costs_no_more);
    tcase_add_test(c, a_call_that_fails_leaves_nothing);
    tcase_add_test(c, a_gpu_that_hangs_is_given_up);
    tcase_add_test(c, ranks_with_gpus_have_all_cpus);
#ifdef LK_NCCL_BUILT
    tcase_add_loop_test(c, two_gpus_probe_collectives, 0, 2);
#endif
}
