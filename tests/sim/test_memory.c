/* Memory: the ZeRO paper's figures, measured parts, and which configurations fit. */
#include "sim/planning/memory.h"

#include "base/array.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

enum { N_TENSORS = 75 };
static struct lk_job_tensor tensors[N_TENSORS];
static struct lk_job job;
static struct lk_config config;
static char source[] = "measured";

static void set_tensors(uint64_t elems, enum lk_dtype dtype)
{
    for (int i = 0; i < N_TENSORS; i++)
        tensors[i] = (struct lk_job_tensor){.elems = elems / N_TENSORS, .dtype = dtype};
}

static void setup(void)
{
    set_tensors(7500000000ULL, LK_F16);
    job = (struct lk_job){.tensors = tensors,
                          .n_tensors = N_TENSORS,
                          .optimizer = LK_JOB_OPTIMIZER_ADAMW,
                          .master_weights = true,
                          .memory_fixed_bytes = lk_quantity_none(),
                          .memory_per_sample_bytes = lk_quantity_none()};
    config = (struct lk_config){
        .world_size = 64, .nodes = 8, .local_batch = 1, .accumulation = 1, .cap_bytes = 25 << 20};
}

/* Figure 1 of arXiv:1910.02054: 7.5 billion parameters, 64 GPUs; GB as printed there. */
static const struct {
    enum lk_sharding sharding;
    double gb, digit;
} paper[] = {
    {LK_SHARDING_DDP, 120, 0.01},
    {LK_SHARDING_ZERO1, 31.4, 0.05},
    {LK_SHARDING_ZERO2, 16.6, 0.05},
    {LK_SHARDING_ZERO3, 1.9, 0.05},
};

/* The ZeRO paper's "model states": parameters, gradients, master weights, optimizer states. */
static double model_states_bytes(const struct lk_memory *m)
{
    return m->rows[LK_MEMORY_PARAMETERS].value + m->rows[LK_MEMORY_GRADIENTS].value +
           m->rows[LK_MEMORY_MASTER].value + m->rows[LK_MEMORY_STATES].value;
}

START_TEST(the_zero_papers_figures)
{
    struct lk_memory m;

    config.sharding = paper[_i].sharding;
    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(model_states_bytes(&m) / 1e9, paper[_i].gb, paper[_i].digit);
}
END_TEST

/* Bytes a parameter: gradient dtype, optimizer, master weights. */
static const struct {
    enum lk_dtype dtype;
    enum lk_job_optimizer optimizer;
    bool master;
    double bytes;
} per_parameter[] = {
    {LK_F32, LK_JOB_OPTIMIZER_SGD, false, 8},
    {LK_F32, LK_JOB_OPTIMIZER_MOMENTUM, false, 12},
    {LK_F32, LK_JOB_OPTIMIZER_ADAM, false, 16},
    {LK_BF16, LK_JOB_OPTIMIZER_ADAMW, false, 8}, /* moments in the parameters' dtype */
    {LK_BF16, LK_JOB_OPTIMIZER_ADAMW, true, 16},
    {LK_F32, LK_JOB_OPTIMIZER_ADAMW, true, 18}, /* Megatron-LM: fp32 gradients of bf16 */
    {LK_F16, LK_JOB_OPTIMIZER_SGD, true, 8},
};

START_TEST(bytes_a_parameter)
{
    struct lk_memory m;

    set_tensors(75000, per_parameter[_i].dtype);
    job.optimizer = per_parameter[_i].optimizer;
    job.master_weights = per_parameter[_i].master;
    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(model_states_bytes(&m) / 75000, per_parameter[_i].bytes, 1e-12);
}
END_TEST

START_TEST(buckets_are_a_copy_unless_gradients_are_views)
{
    struct lk_memory m;

    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(m.rows[LK_MEMORY_BUCKETS].value, 15e9, 1);
    job.gradient_as_bucket_view = true;
    lk_memory_of(&job, &config, &m);
    ck_assert(m.rows[LK_MEMORY_BUCKETS].value == 0);
    config.compression = LK_COMPRESSION_POWERSGD; /* error feedback */
    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(m.rows[LK_MEMORY_BUCKETS].value, 15e9, 1);
    config.compression = LK_COMPRESSION_NONE;
    job.gradient_as_bucket_view = false;
    config.world_size = config.nodes = 1;
    lk_memory_of(&job, &config, &m);
    ck_assert(m.rows[LK_MEMORY_BUCKETS].value == 0);
}
END_TEST

START_TEST(hsdp_shares_in_its_group)
{
    struct lk_memory m;

    config.sharding = LK_SHARDING_HSDP; /* 8 ranks a node */
    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(model_states_bytes(&m) / 1e9, 15, 1e-9);
    config.shard_group = 16;
    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(model_states_bytes(&m) / 1e9, 7.5, 1e-9);
}
END_TEST

START_TEST(an_unnamed_optimizer_is_an_interval)
{
    struct lk_memory m;

    job.optimizer = LK_JOB_OPTIMIZER_UNKNOWN;
    lk_memory_of(&job, &config, &m);
    ck_assert(m.optimizer_assumed);
    ck_assert(m.rows[LK_MEMORY_STATES].lo == 0);
    ck_assert_double_eq_tol(m.rows[LK_MEMORY_STATES].hi / 1e9, 60, 1e-9);
}
END_TEST

/* With unknown activations the answer is never "yes", but may be "no". */
START_TEST(unknown_activations_are_said)
{
    struct lk_memory m;

    lk_memory_of(&job, &config, &m);
    ck_assert(isinf(m.total.hi) && m.total.value > 135e9);
    ck_assert_int_eq(lk_memory_fit(&m, 80e9), LK_MEMORY_TOO_LARGE);
    ck_assert_int_eq(lk_memory_fit(&m, 1e12), LK_MEMORY_FIT_UNKNOWN);
    ck_assert_int_eq(lk_memory_largest_batch(&m, 1e12, false), -1);
}
END_TEST

static void measure(double fixed, double sample)
{
    job.memory_fixed_bytes = (struct lk_quantity){fixed, NAN, NAN, 3, source};
    job.memory_per_sample_bytes =
        (struct lk_quantity){sample, 0.9 * sample, 1.1 * sample, 3, source};
}

/* The measured total is reproduced; sharding reduces its parts. */
START_TEST(measured_memory_is_met)
{
    struct lk_memory m;

    measure(140e9, 2e9); /* 135 of states and buckets, 5 of everything else */
    config.local_batch = 4;
    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(m.total.value / 1e9, 148, 1e-9);
    ck_assert_double_eq_tol(m.rows[LK_MEMORY_RUNTIME].value / 1e9, 5, 1e-9);
    ck_assert_double_eq_tol(m.total.hi / 1e9, 148.8, 1e-9);
    ck_assert(!m.runtime_assumed && !m.activations_assumed);
    config.sharding = LK_SHARDING_ZERO1;
    lk_memory_of(&job, &config, &m);
    ck_assert_double_eq_tol(m.total.value / 1e9, 148 - 90 + 90.0 / 64, 1e-9);
}
END_TEST

START_TEST(the_largest_batch_fits_and_the_next_does_not)
{
    struct lk_memory m;
    int batch, sure;

    if (_i)
        measure(140e9, 2e9);
    else
        measure(NAN, 2e9); /* the runtime is assumed, and fragments grow with the batch */
    config.sharding = LK_SHARDING_ZERO3;
    lk_memory_of(&job, &config, &m);
    batch = lk_memory_largest_batch(&m, 80e9, false);
    sure = lk_memory_largest_batch(&m, 80e9, true);
    ck_assert_int_gt(sure, 0);
    ck_assert_int_ge(batch, sure);
    for (int b = 1; b < batch + 10; b++) {
        enum lk_memory_fit fit;

        config.local_batch = b;
        lk_memory_of(&job, &config, &m);
        fit = lk_memory_fit(&m, 80e9);
        ck_assert_int_eq(fit, b <= sure    ? LK_MEMORY_FITS
                              : b <= batch ? LK_MEMORY_TIGHT
                                           : LK_MEMORY_TOO_LARGE);
    }
}
END_TEST

/* 7.5 billion on 64 GPUs of 32 GB: figure 1's stages are 31.4, 16.6 and 1.9 GB. */
START_TEST(the_stage_that_fits_is_named)
{
    enum lk_sharding s;

    measure(NAN, 0.1e9);
    ck_assert(lk_memory_sharding_that_fits(&job, &config, 80e9, &s));
    ck_assert_int_eq(s, LK_SHARDING_ZERO1);
    ck_assert(lk_memory_sharding_that_fits(&job, &config, 32e9, &s));
    ck_assert_int_eq(s, LK_SHARDING_ZERO2);
    set_tensors(30000000000ULL, LK_F16);
    ck_assert(!lk_memory_sharding_that_fits(&job, &config, 8e9, &s));
}
END_TEST

/*
 * arXiv:2205.05198, section 5: for GPT-3 (175B: 96 heads, 12288 wide, 96 layers) and MT-NLG (530B:
 * 128 heads, 20480 wide, 105 layers) with sequences of 2048 attention's share 5 a s / h is 80 and
 * 64, and selective recomputation saves 70 % and 65 % of a layer's activations.
 */
static const struct {
    int layers, hidden, heads;
    double share, saved_pct;
} shapes[] = {
    {96, 12288, 96, 80, 70},
    {105, 20480, 128, 64, 65},
};

START_TEST(activations_of_a_transformer)
{
    struct lk_job_transformer t = {.layers = shapes[_i].layers,
                                   .hidden = shapes[_i].hidden,
                                   .heads = shapes[_i].heads,
                                   .sequence = 2048,
                                   .activation_bytes = 2};
    double sh = 2048.0 * t.hidden, ends = 5 * sh, all, selective;
    struct lk_memory m;

    all = lk_memory_transformer_bytes(&t);
    ck_assert_double_eq_tol((all - ends) / t.layers / sh, 34 + shapes[_i].share, 1e-9);
    t.recompute = LK_JOB_RECOMPUTE_SELECTIVE;
    selective = lk_memory_transformer_bytes(&t);
    ck_assert_double_eq_tol((selective - ends) / t.layers / sh, 34, 1e-9);
    ck_assert_double_eq_tol(100 * (1 - (selective - ends) / (all - ends)), shapes[_i].saved_pct,
                            0.5);
    t.recompute = LK_JOB_RECOMPUTE_FULL;
    ck_assert_double_eq_tol((lk_memory_transformer_bytes(&t) - ends) / sh,
                            2 * t.layers + 34 + shapes[_i].share, 1e-9);
    t.vocabulary = 51200; /* logits of 4 bytes */
    ck_assert_double_eq_tol(lk_memory_transformer_bytes(&t) / sh,
                            2 * t.layers + 39 + shapes[_i].share + 4 * 51200.0 / t.hidden, 1e-9);
    job.transformer = t;
    config.local_batch = 3;
    lk_memory_of(&job, &config, &m);
    ck_assert(m.activations_of_shape && !m.activations_assumed);
    ck_assert_double_eq_tol(m.rows[LK_MEMORY_ACTIVATIONS].value / m.per_sample.value, 3, 1e-12);
    ck_assert_double_eq_tol(m.per_sample.value, lk_memory_transformer_bytes(&t), 1);
}
END_TEST

START_TEST(layers_bound_activations)
{
    struct lk_job_layer layers[] = {{.bytes = {100, NAN, NAN, 0, source}},
                                    {.bytes = {300, NAN, NAN, 0, source}}};
    struct lk_memory m;

    job.layers = layers;
    job.n_layers = 2;
    config.local_batch = 10;
    lk_memory_of(&job, &config, &m);
    ck_assert(m.activations_assumed);
    ck_assert_double_eq_tol(m.rows[LK_MEMORY_ACTIVATIONS].hi, 2000, 1e-9);
    ck_assert(m.rows[LK_MEMORY_ACTIVATIONS].lo == 0);
}
END_TEST

/* A checkpoint of AdamW in mixed precision has 2 + 4 + 8 bytes a parameter, and no gradients. */
START_TEST(a_checkpoint_holds_what_training_goes_on_from)
{
    ck_assert_double_eq_tol(lk_memory_checkpoint_bytes(&job, &config) / 1e9, 105, 1e-9);
    ck_assert_ptr_nonnull(strstr(lk_memory_assumed(), "34323"));
}
END_TEST

SUITE(memory, c)
{
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_loop_test(c, the_zero_papers_figures, 0, LK_COUNT(paper));
    tcase_add_loop_test(c, bytes_a_parameter, 0, LK_COUNT(per_parameter));
    tcase_add_test(c, buckets_are_a_copy_unless_gradients_are_views);
    tcase_add_test(c, hsdp_shares_in_its_group);
    tcase_add_test(c, an_unnamed_optimizer_is_an_interval);
    tcase_add_test(c, unknown_activations_are_said);
    tcase_add_test(c, measured_memory_is_met);
    tcase_add_loop_test(c, the_largest_batch_fits_and_the_next_does_not, 0, 2);
    tcase_add_test(c, the_stage_that_fits_is_named);
    tcase_add_loop_test(c, activations_of_a_transformer, 0, (int)LK_COUNT(shapes));
    tcase_add_test(c, layers_bound_activations);
    tcase_add_test(c, a_checkpoint_holds_what_training_goes_on_from);
}
