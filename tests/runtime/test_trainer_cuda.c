/*
 * Train on the device cuda, without a GPU: on the machine of tests/fakes/fake_cuda.h a run gives
 * the losses of the device cpu bit for bit, in any order of streams; every call that fails ends it
 * with an error and leaks nothing.
 */
#include "base/array.h"
#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5, LOCAL_BATCH = 2, SEEDS = 4 };
#define TIMEOUT_NS WAIT_PLENTY_NS

static char *directory;

static void setup(void)
{
    directory = scratch_create_for_gpus();
    fake_cuda_reset(1);
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(directory);
}

static struct lk_train_config config(const char *device, int accumulation, int prefetch)
{
    struct lk_train_config c = small_train(device, STEPS);

    c.prefetch = prefetch;
    c.fuse.wish[LK_FUSE_OPTIMIZER] = LK_FUSE_AUTO;
    c.device_config.cuda_calls = &fake_cuda_calls;
    c.reducer.accumulation = accumulation;
    c.reducer.noise_every = 2;
    return c;
}

static const struct shape {
    int accumulation, prefetch;
    bool no_sync;
    const char *model, *fuse;
    enum lk_optim_kind optim;
} shapes[] = {
    {1, 0, true, "gpt-nano", "none", LK_OPTIM_ADAMW},
    {1, 2, true, "gpt-nano", "none", LK_OPTIM_ADAMW},
    {3, 0, true, "gpt-nano", "none", LK_OPTIM_ADAMW},
    {3, 2, true, "gpt-nano", "none", LK_OPTIM_ADAMW},
    {3, 2, false, "gpt-nano", "none", LK_OPTIM_ADAMW},
    {2, 1, true, "mlp", "none", LK_OPTIM_ADAMW},
    {1, 0, true, "gpt-nano", "loss,gelu", LK_OPTIM_ADAMW},
    {3, 0, true, "gpt-nano", "bias", LK_OPTIM_ADAMW},
    {3, 2, false, "gpt-nano", "loss,bias,gelu", LK_OPTIM_ADAMW},
    {2, 1, true, "mlp", "loss,bias", LK_OPTIM_ADAMW},
    {2, 1, true, "resnet-small", "none", LK_OPTIM_SGD},
    {1, 2, true, "resnet-small", "none", LK_OPTIM_LARS},
    {1, 0, true, "vgg16", "none", LK_OPTIM_LAMB},
};

static struct lk_train_config shaped(const char *device, const struct shape *s)
{
    struct lk_train_config c = config(device, s->accumulation, s->prefetch);

    c.model.name = s->model;
    if (!strcmp(s->model, "mlp"))
        c.model.channels = 32;
    if (!strcmp(s->model, "resnet-small") || !strcmp(s->model, "vgg16"))
        c.model = (struct lk_model_config){.name = s->model,
                                           .channels = 4,
                                           .image = s->model[0] == 'v' ? 32 : 8,
                                           .vocab = 5,
                                           .seed = 3};
    c.optim.kind = s->optim;
    c.optim.momentum = s->optim == LK_OPTIM_SGD || s->optim == LK_OPTIM_LARS ? 0.9 : 0;
    c.optim.trust = 0.01;
    c.reducer.no_sync = s->no_sync;
    if (!strcmp(device, "cuda"))
        ck_assert_int_eq(lk_fuse_parse(s->fuse, &c.fuse), LK_OK);
    return c;
}

/* No data are overwritten before they were read, nor read before they were written: any other order
 * of copies and ops would change the loss, or show fresh memory. */
START_TEST(losses_are_the_cpus)
{
    const struct shape *s = &shapes[_i / (SEEDS + 1)];
    struct lk_train_config on_cpu = shaped("cpu", s), on_cuda = shaped("cuda", s);
    struct lk_train_result expected, got;

    fake_cuda.seed = (uint64_t)(_i % (SEEDS + 1));
    ck_assert_msg(lk_train(&on_cpu, &expected) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_train(&on_cuda, &got) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(got.n, STEPS);
    ck_assert_double_ne(got.loss[STEPS - 1], got.loss[0]);
    for (int i = 0; i < STEPS; i++)
        ck_assert_msg(got.loss[i] == expected.loss[i], "step %d: %.9g, on the cpu %.9g", i,
                      got.loss[i], expected.loss[i]);
    lk_train_result_fini(&expected);
    lk_train_result_fini(&got);
}
END_TEST

/* ---- Descriptions of a run ---- */

static const char *configured(const struct lk_run_info *info, const char *key)
{
    for (size_t i = 0; i < info->n_config; i++)
        if (!strcmp(info->config[i].key, key))
            return info->config[i].value;
    return "";
}

/* A process that only queries the GPU releases it. */
START_TEST(descriptions)
{
    struct lk_train_config c = config("cuda", 1, 0);
    struct lk_run_info info = {0};

    c.device_config.real = _i ? LK_BF16 : LK_F32;
    c.device_config.brief = _i;
    ck_assert_msg(lk_train_describe(&c, &info) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(info.device, "cuda");
    ck_assert_str_eq(configured(&info, "gpu"), "fake");
    ck_assert_str_eq(configured(&info, "gpu_uuid"), "GPU-00000000-0000-0000-0000-000000000000");
    ck_assert_str_eq(configured(&info, "cuda_driver"), "13.0");
    for (size_t i = 0; i < info.n_tensors; i++)
        ck_assert_int_eq(info.tensors[i].dtype, c.device_config.real);
    ck_assert_int_eq(fake_cuda.resets, _i);
    lk_run_info_fini(&info);
}
END_TEST

static enum lk_track_kind kinds[16];
static int n_kinds, copies[STEPS];

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    (void)sink;
    kinds[n_kinds] = info->kind;
    *out_ctx = &kinds[n_kinds++];
    return LK_OK;
}

static void emit(void *ctx, const struct lk_span *s)
{
    if (*(enum lk_track_kind *)ctx != LK_TRACK_COPY || s->step >= STEPS)
        return;
    ck_assert_int_eq(s->kind, LK_SPAN_INPUT);
    ck_assert_int_eq(s->index, copies[s->step]++);
    ck_assert_uint_ge(s->end_ns, s->start_ns);
}

/* Each batch's copy to the GPU is a range on the copy stream, with the step it is for. */
START_TEST(copies_are_seen)
{
    static const struct lk_sink_ops ops = {.name = "test", .track_open = track_open, .emit = emit};
    struct lk_train_config c = config("cuda", 3, _i);
    struct lk_train_result r = {0};

    ck_assert_int_eq(lk_recorder_create(&c.recorder), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(c.recorder, &ops, copies), LK_OK);
    ck_assert_msg(lk_train(&c, &r) == LK_OK, "%s", lk_error_text());
    for (int i = 0; i < STEPS; i++)
        ck_assert_int_eq(copies[i], 3);
    lk_train_result_fini(&r);
    lk_recorder_destroy(c.recorder);
}
END_TEST

/* ---- Narrow factors ---- */

/* Rounding: of float products on a GPU, or of everything. */
static const struct {
    const char *model;
    enum lk_dtype real;
    double rate;
    const char *fuse;
    double scale; /* of the loss; 0: it is not scaled */
} narrow[] = {
    {"gpt", LK_F32, 1e-2, "none", 0},
    {"gpt", LK_BF16, 1e-2, "none", 0},
    {"mlp", LK_F32, 1e-2, "none", 0},
    {"mlp", LK_BF16, 1e-3, "none", 0},
    {"gpt", LK_F32, 1e-2, "loss,bias,gelu", 0},
    {"gpt", LK_BF16, 1e-2, "loss,bias,gelu", 0},
    {"mlp", LK_BF16, 1e-3, "loss,bias", 0},
    {"gpt", LK_BF16, 1e-2, "loss,bias,gelu", 1024},
    {"gpt", LK_F16, 1e-2, "loss,bias,gelu", 1024},
    {"mlp", LK_F16, 1e-3, "none", 1024},
};
enum { NARROW_STEPS = 12 };

static struct lk_train_config narrow_config(int i)
{
    struct lk_train_config c = config("cuda", 2, 1);

    fake_cuda.tf32 = narrow[i].real == LK_F32;
    c.device_config.real = narrow[i].real;
    c.model = (struct lk_model_config){
        .name = narrow[i].model, .layers = 3, .channels = 32, .context = 8, .vocab = 32, .seed = 3};
    if (!strcmp(c.model.name, "gpt"))
        c.model.heads = 2;
    c.steps = NARROW_STEPS;
    c.local_batch = 8;
    c.samples = 64;
    c.optim.learning_rate = narrow[i].rate;
    if (narrow[i].scale > 0)
        c.scaler = (struct lk_scaler_config){LK_LOSS_SCALE_DYNAMIC, narrow[i].scale, NARROW_STEPS};
    ck_assert_int_eq(lk_fuse_parse(narrow[i].fuse, &c.fuse), LK_OK);
    return c;
}

/* The fake's rounding is within the bound, faults are not; the model learns as in float32. */
START_TEST(narrow_factors_verify)
{
    struct lk_train_config c = narrow_config(_i);
    struct lk_train_result exact, result = {0};

    c.verify = true;
    ck_assert_msg(lk_train(&c, &result) == LK_OK, "%s", lk_error_text());
    /* The factors were rounded: far more than float32 would show. */
    ck_assert_double_gt(result.verify_max_error, 1e-4);
    ck_assert_double_lt(result.verify_max_error, result.verify_allowed);
    if (narrow[_i].scale > 0)
        ck_assert_double_eq(result.loss_scale, 2 * narrow[_i].scale);
    printf("verify: %s in %s: largest error %.2g, where %.2g is allowed\n", c.model.name,
           narrow[_i].real == LK_F32 ? "tf32" : lk_dtype_name(narrow[_i].real),
           result.verify_max_error, result.verify_allowed);
    c.reducer.plant = LK_PLANT_WRONG_DIVISOR;
    ck_assert_int_eq(lk_train(&c, &exact), LK_EVERIFY);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "in step 0"));
    c.reducer.plant = LK_PLANT_NONE;
    c.verify = false;
    c.fuse = (struct lk_fuse){0};
    c.device = "cpu";
    c.device_config.real = LK_F32;
    ck_assert_msg(lk_train(&c, &exact) == LK_OK, "%s", lk_error_text());
    /* A bfloat16 has 8 bits; further steps multiply the rounding. */
    for (int i = 0; i < NARROW_STEPS; i++)
        ck_assert_double_eq_tol(result.loss[i], exact.loss[i], 0.05 * exact.loss[i]);
    lk_train_result_fini(&result);
    lk_train_result_fini(&exact);
}
END_TEST

static char *in_directory(const char *name)
{
    char *path = malloc(strlen(directory) + strlen(name) + 2);

    ck_assert_ptr_nonnull(path);
    sprintf(path, "%s/%s", directory, name);
    return path;
}

static void read_weights(const char *path, float *out, size_t n)
{
    FILE *f = fopen(path, "rb");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, -(long)(n * sizeof *out), SEEK_END), 0);
    ck_assert_uint_eq(fread(out, sizeof *out, n, f), n);
    fclose(f);
}

static struct lk_model *open_model(enum lk_dtype real, struct lk_device **d, struct lk_stream **s)
{
    const struct lk_device_config dc = {.real = real, .cuda_calls = &fake_cuda_calls};
    const struct lk_track_info info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    const struct lk_model_config mc = {.name = "mlp",
                                       .layers = 1,
                                       .channels = 8,
                                       .context = 8,
                                       .vocab = 16,
                                       .max_samples = 1,
                                       .seed = 3};
    struct lk_model *m = NULL;

    ck_assert_int_eq(lk_device_open("cuda", &dc, d), LK_OK);
    ck_assert_int_eq(lk_stream_create(*d, &info, s), LK_OK);
    ck_assert_msg(lk_model_create(*d, *s, &mc, &m) == LK_OK, "%s", lk_error_text());
    return m;
}

static void close_model(struct lk_model *m, struct lk_device *d, struct lk_stream *s)
{
    lk_stream_destroy(s);
    lk_model_destroy(m);
    lk_device_close(d);
}

/* Files hold float32 and lose nothing through a bfloat16 model, whose ops see the rounded weights;
 * both runs start from the same numbers. */
START_TEST(exact_weights_in_files)
{
    enum { ELEMS = 4096 };
    char *floats = in_directory("floats"), *narrow_path = in_directory("narrow");
    static float exact[ELEMS], back[ELEMS];
    static uint16_t rounded[ELEMS];
    struct lk_device *d;
    struct lk_stream *s;
    struct lk_model *m = open_model(LK_F32, &d, &s);
    size_t n = 0;

    for (size_t i = 0; i < m->n_params; i++)
        n += m->params[i].elems;
    ck_assert_uint_le(n, ELEMS);
    ck_assert_ptr_null(m->params[0].master);
    ck_assert_int_eq(lk_model_export(m, floats), LK_OK);
    close_model(m, d, s);
    read_weights(floats, exact, n);
    for (int import = 0; import < 2; import++) {
        m = open_model(LK_BF16, &d, &s);
        if (import)
            ck_assert_msg(lk_model_import(m, floats) == LK_OK, "%s", lk_error_text());
        ck_assert_int_eq(lk_model_export(m, narrow_path), LK_OK);
        fake_cuda_peek(rounded, m->params[0].data, m->params[0].elems * sizeof *rounded);
        for (size_t i = 0; i < m->params[0].elems; i++)
            ck_assert_uint_eq(rounded[i], lk_bf16_from_f32(exact[i]));
        close_model(m, d, s);
        read_weights(narrow_path, back, n);
        ck_assert_mem_eq(back, exact, n * sizeof *back);
    }
    free(floats);
    free(narrow_path);
}
END_TEST

/* Steps too small for a bfloat16 add up in the exact weights. */
START_TEST(small_steps_add_up)
{
    enum { ELEMS = 4096, MANY = 20 };
    char *path = in_directory("weights");
    static float start[ELEMS], end[2][ELEMS];
    size_t n = 0;
    double moved = 0, apart = 0;

    for (int i = 0; i < 3; i++) {
        struct lk_train_config c = config("cuda", 1, 0);
        struct lk_train_result r = {0};

        c.device_config.real = i == 1 ? LK_BF16 : LK_F32;
        c.model = (struct lk_model_config){
            .name = "mlp", .layers = 1, .channels = 8, .context = 8, .vocab = 16, .seed = 3};
        c.optim = (struct lk_optim_config){.kind = LK_OPTIM_SGD, .learning_rate = 1e-4};
        c.steps = i == 2 ? 1 : MANY;
        c.export_path = path;
        ck_assert_msg(lk_train(&c, &r) == LK_OK, "%s", lk_error_text());
        lk_train_result_fini(&r);
        n = 8 * 8 + 8 + 16 * 8 + 16;
        read_weights(path, i == 2 ? start : end[i], n);
    }
    for (size_t i = 0; i < n; i++) {
        moved += pow((double)end[0][i] - (double)start[i], 2);
        apart += pow((double)end[0][i] - (double)end[1][i], 2);
    }
    /* The weights move the same way, but for the rounding of gradients and weights. */
    ck_assert_double_gt(moved, 0);
    ck_assert_double_lt(apart, 0.05 * 0.05 * moved);
    free(path);
}
END_TEST

/* ---- Failures ---- */

/* Note the number of calls into CUDA until the last step ended: later ones are closing, whose
 * failures are not reported. */
static enum lk_status note_calls(void *ctx, int64_t step, double loss)
{
    (void)step;
    (void)loss;
    *(int *)ctx = fake_cuda.calls;
    return LK_OK;
}

/* Run every feature in as few calls as possible. */
static enum lk_status short_run(int prefetch, int fail_at, int *calls)
{
    struct lk_train_config c = config("cuda", 2, prefetch);
    struct lk_train_result result = {0};
    char path[256];
    enum lk_status st;

    snprintf(path, sizeof path, "%s/weights", directory);
    c.model = (struct lk_model_config){
        .name = "mlp", .layers = 1, .channels = 8, .context = 8, .vocab = 16, .seed = 3};
    c.steps = 2;
    c.verify = true;
    c.verify_steps = 1;
    c.export_path = path;
    c.progress = note_calls;
    c.progress_ctx = calls;
    fake_cuda_reset(1);
    fake_cuda.fail_at = fail_at;
    fake_cuda.fail_with = cudaErrorMemoryAllocation;
    st = lk_train(&c, &result);
    lk_train_result_fini(&result);
    fake_cuda_check_clean();
    return st;
}

START_TEST(any_call_may_fail)
{
    int prefetch = _i, last = 0, calls = 0;

    ck_assert_msg(short_run(prefetch, 0, &last) == LK_OK, "%s", lk_error_text());
    ck_assert_int_gt(last, 200);
    for (int i = 1; i <= last; i++) {
        enum lk_status st = short_run(prefetch, i, &calls);

        /* The loader's thread may fail at a batch that is no longer needed. A wait asks as often as
         * it takes, so this run may have made fewer calls than the first. */
        if (st != LK_OK || (prefetch == 0 && calls >= i))
            ck_assert_msg(st == LK_ENOMEM, "call %d of %d: %s", i, last,
                          st == LK_OK ? "no error" : lk_error_text());
    }
}
END_TEST

/* Stop the GPU in the middle: the wait ends, and the error says where. */
static enum lk_status stop(void *ctx, int64_t step, double loss)
{
    (void)loss;
    fake_cuda.stuck = step == *(int *)ctx;
    return LK_OK;
}

START_TEST(a_gpu_that_stops)
{
    struct lk_train_config c = config("cuda", 2, _i);
    struct lk_train_result result = {0};
    int step = 1;

    c.timeout_ns = WAIT_SHORT_NS;
    c.device_config.hang_ns = LK_NS_PER_S / 20;
    c.progress = stop;
    c.progress_ctx = &step;
    ck_assert_int_eq(lk_train(&c, &result), LK_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "stream 'compute stream' did not finish"));
}
END_TEST

/* ---- The loader alone ---- */

static const struct {
    int accumulation, depth;
} rings[] = {{1, 0}, {1, 1}, {1, 3}, {3, 0}, {3, 2}};
enum { BATCHES = 60, CONTEXT = 8, TOKENS = 2 * LOCAL_BATCH * CONTEXT };

static struct lk_loader *loader(struct lk_device *d, struct lk_dataset *data,
                                struct lk_stream *compute, int ring)
{
    const struct lk_loader_config c = {
        .dataset = data,
        .sampler = {.ranks = 1, .shuffle = true, .seed = 4},
        .compute = compute,
        .local_batch = LOCAL_BATCH,
        .depth = rings[ring].depth,
        .accumulation = rings[ring].accumulation,
    };
    struct lk_loader *l = NULL;

    ck_assert_msg(lk_loader_create(d, &c, &l) == LK_OK, "%s", lk_error_text());
    return l;
}

/* Read all batches in order and copy them to the host; on a GPU without ever waiting for it. */
static void read_batches(const char *name, int ring, int32_t (*out)[TOKENS])
{
    const struct lk_device_config dc = {.slowdown = 1, .cuda_calls = &fake_cuda_calls};
    const struct lk_track_info info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    const struct lk_sample_shape shape = lk_sample_text(CONTEXT);
    const void *addresses[3];
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL;
    struct lk_dataset *data = NULL;
    struct lk_loader *l;
    int32_t(*host)[TOKENS] = NULL;
    struct lk_batch b;

    ck_assert_int_eq(lk_device_open(name, &dc, &d), LK_OK);
    ck_assert_int_eq(lk_stream_create(d, &info, &s), LK_OK);
    ck_assert_int_eq(lk_dataset_synthetic(27, &shape, 100, 1, &data), LK_OK);
    ck_assert_int_eq(lk_device_alloc_host(d, BATCHES * sizeof *host, (void **)&host), LK_OK);
    l = loader(d, data, s, ring);
    for (int n = 0; n < BATCHES; n++) {
        int m = n % rings[ring].accumulation;

        ck_assert_msg(lk_loader_next(l, lk_deadline_in(TIMEOUT_NS), &b) == LK_OK, "%s",
                      lk_error_text());
        ck_assert_ptr_eq(b.targets, (const int32_t *)b.inputs + TOKENS / 2);
        /* Micro-batch m of every step has the same address. */
        if (n >= rings[ring].accumulation && !lk_device_uses_host_memory(d))
            ck_assert_ptr_eq(b.inputs, addresses[m]);
        addresses[m] = b.inputs;
        ck_assert_int_eq(lk_stream_copy(s, host[n], b.inputs, sizeof *host), LK_OK);
        if (lk_device_uses_host_memory(d))
            ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(TIMEOUT_NS)), LK_OK);
    }
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(TIMEOUT_NS)), LK_OK);
    memcpy(out, host, BATCHES * sizeof *host);
    lk_stream_destroy(s);
    lk_loader_destroy(l);
    lk_device_free_host(d, host);
    lk_dataset_destroy(data);
    lk_device_close(d);
}

START_TEST(batches_are_not_overwritten)
{
    static int32_t expected[BATCHES][TOKENS], got[BATCHES][TOKENS];
    int ring = _i / SEEDS;

    fake_cuda.seed = (uint64_t)(_i % SEEDS) + 1;
    read_batches("cpu", ring, expected);
    read_batches("cuda", ring, got);
    for (int n = 0; n < BATCHES; n++)
        ck_assert_msg(!memcmp(got[n], expected[n], sizeof got[n]), "batch %d", n);
}
END_TEST

SUITE(trainer_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, batches_are_not_overwritten, 0, (int)LK_COUNT(rings) * SEEDS);
    tcase_add_loop_test(tc, narrow_factors_verify, 0, LK_COUNT(narrow));
    tcase_add_test(tc, exact_weights_in_files);
    tcase_add_loop_test(tc, descriptions, 0, 2);
    tcase_add_loop_test(tc, copies_are_seen, 0, 3);
    tcase_add_test(tc, small_steps_add_up);
    tcase_add_loop_test(tc, any_call_may_fail, 0, 2);
    tcase_add_loop_test(tc, a_gpu_that_stops, 0, 2);
    tcase_add_loop_test(tc, losses_are_the_cpus, 0, (int)LK_COUNT(shapes) * (SEEDS + 1));
}
