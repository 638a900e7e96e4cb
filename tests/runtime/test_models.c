/*
 * The models: gradients against finite differences of the loss on the reference device, the cpu
 * device against the reference, the order of the gradient hook, and weights as a file.
 */
#include "base/file.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t timeout_ns = WAIT_PLENTY_NS;

/* A small model, with all sizes different; batches shorter than the model's maximum. */
static const struct row {
    struct lk_model_config config;
    int samples, context;
} rows[] = {
    {{.name = "gpt",
      .layers = 2,
      .heads = 2,
      .channels = 6,
      .context = 5,
      .vocab = 7,
      .max_samples = 3,
      .seed = 1},
     2,
     4},
    {{.name = "gpt",
      .layers = 1,
      .heads = 3,
      .channels = 9,
      .context = 8,
      .vocab = 5,
      .max_samples = 1,
      .seed = 2},
     1,
     8},
    {{.name = "mlp",
      .layers = 2,
      .channels = 10,
      .context = 6,
      .vocab = 9,
      .max_samples = 4,
      .seed = 3},
     3,
     6},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* A model on a device, with gradients and one random batch. */
struct bench {
    struct lk_device *device;
    struct lk_stream *stream;
    struct lk_model *model;
    struct lk_recorder *recorder; /* NULL: no recording */
    void *grads;
    struct lk_batch batch;
    int32_t *inputs, *targets;
    bool wide; /* reals are double */
};

static void bench_open_recorded(struct bench *b, const char *device, const struct row *r,
                                struct lk_recorder *recorder)
{
    struct lk_device_config config = {.slowdown = 1, .recorder = recorder};
    struct lk_track_info track = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    struct lk_rng g = lk_rng_init(77, 0);
    size_t elems = 0, n = (size_t)(r->samples * r->context), real_bytes;
    char *grad;

    *b = (struct bench){.recorder = recorder};
    must(lk_device_open(device, &config, &b->device));
    must(lk_stream_create(b->device, &track, &b->stream));
    must(lk_model_create(b->device, b->stream, &r->config, &b->model));
    real_bytes = lk_device_real_bytes(b->device);
    b->wide = real_bytes == sizeof(double);
    for (size_t i = 0; i < b->model->n_params; i++)
        elems += b->model->params[i].elems;
    must(lk_device_alloc(b->device, elems * real_bytes, &b->grads));
    memset(b->grads, 0x7f, elems * real_bytes); /* large numbers that must be overwritten */
    grad = b->grads;
    for (size_t i = 0; i < b->model->n_params; i++) {
        b->model->params[i].grad = grad;
        grad += b->model->params[i].elems * real_bytes;
    }
    b->inputs = random_tokens(&g, n, (size_t)r->config.vocab);
    b->targets = random_tokens(&g, n, (size_t)r->config.vocab);
    b->batch = (struct lk_batch){r->samples, lk_sample_text(r->context), b->inputs, b->targets};
}

static void bench_open(struct bench *b, const char *device, const struct row *r)
{
    bench_open_recorded(b, device, r, NULL);
}

static void bench_close(struct bench *b)
{
    lk_model_destroy(b->model);
    lk_device_free(b->device, b->grads);
    lk_stream_destroy(b->stream);
    lk_device_close(b->device);
    lk_recorder_destroy(b->recorder);
}

static double real_at(const struct bench *b, const lk_real *x, size_t i)
{
    return b->wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static double loss_of(struct bench *b)
{
    must(b->model->ops->forward(b->model, &b->batch, NAN));
    must(lk_stream_sync(b->stream, lk_deadline_in(timeout_ns)));
    return real_at(b, b->model->loss, 0);
}

static void backward(struct bench *b, double seed, bool accumulate)
{
    must(b->model->ops->backward(b->model, &b->batch, seed, accumulate, NULL));
    must(lk_stream_sync(b->stream, lk_deadline_in(timeout_ns)));
}

/* Move away from GPT-2's small initial values, where most gradients are near
 * zero and prove little. */
static void perturb(struct bench *b)
{
    struct lk_rng g = lk_rng_init(5, 0);

    for (size_t i = 0; i < b->model->n_params; i++)
        for (size_t j = 0; j < b->model->params[i].elems; j++) {
            float v = (float)(0.4 * lk_rng_normal(&g));

            if (b->wide)
                ((double *)b->model->params[i].data)[j] += (double)v;
            else
                ((float *)b->model->params[i].data)[j] += v;
        }
}

/*
 * Central differences with step h have an error of h^2 |f'''| / 6, and 2^-52 |f| / h from rounding:
 * about 1e-10 both at h = 1e-5, with third derivatives of up to a few here.
 */
START_TEST(gradients_are_the_loss_derivatives)
{
    const double h = 1e-5, tolerance = 1e-8;
    struct bench b;
    size_t nonzero = 0;

    bench_open(&b, "reference", &rows[_i]);
    perturb(&b);
    loss_of(&b);
    backward(&b, 0.5, false);
    for (size_t i = 0; i < b.model->n_params; i++) {
        double *data = b.model->params[i].data;
        const double *grad = b.model->params[i].grad;

        for (size_t j = 0; j < b.model->params[i].elems; j++) {
            double at = data[j], up, down;

            data[j] = at + h;
            up = loss_of(&b);
            data[j] = at - h;
            down = loss_of(&b);
            data[j] = at;
            ck_assert_msg(fabs(grad[j] - 0.5 * (up - down) / (2 * h)) <= tolerance,
                          "%s[%zu]: gradient %.12g, difference %.12g", b.model->params[i].name, j,
                          grad[j], 0.5 * (up - down) / (2 * h));
            nonzero += fabs(grad[j]) > 100 * tolerance;
        }
    }
    ck_assert_uint_gt(nonzero, 50);
    bench_close(&b);
}
END_TEST

/* A few layers of sums of at most a few dozen terms: rounding stays below 100 ulp of numbers ~1. */
START_TEST(cpu_follows_the_reference)
{
    const double tolerance = 1e-5;
    struct bench cpu, ref;

    bench_open(&cpu, "cpu", &rows[_i]);
    bench_open(&ref, "reference", &rows[_i]);
    ck_assert_uint_eq(cpu.model->n_params, ref.model->n_params);
    for (size_t i = 0; i < cpu.model->n_params; i++)
        for (size_t j = 0; j < cpu.model->params[i].elems; j++)
            ck_assert_double_eq(real_at(&cpu, cpu.model->params[i].data, j),
                                real_at(&ref, ref.model->params[i].data, j));
    perturb(&cpu);
    perturb(&ref);
    ck_assert_double_eq_tol(loss_of(&cpu), loss_of(&ref), tolerance);
    backward(&cpu, 1, false);
    backward(&ref, 1, false);
    for (size_t i = 0; i < cpu.model->n_params; i++)
        for (size_t j = 0; j < cpu.model->params[i].elems; j++)
            ck_assert_double_eq_tol(real_at(&cpu, cpu.model->params[i].grad, j),
                                    real_at(&ref, ref.model->params[i].grad, j), tolerance);
    bench_close(&cpu);
    bench_close(&ref);
}
END_TEST

START_TEST(accumulating_adds)
{
    struct bench b;
    double *once;
    size_t elems = 0, at = 0;

    bench_open(&b, "reference", &rows[_i]);
    for (size_t i = 0; i < b.model->n_params; i++)
        elems += b.model->params[i].elems;
    once = calloc(elems, sizeof *once);
    ck_assert_ptr_nonnull(once);
    loss_of(&b);
    backward(&b, 1, false);
    memcpy(once, b.grads, elems * sizeof *once);
    loss_of(&b);
    backward(&b, 2, true);
    for (size_t i = 0; i < b.model->n_params; i++)
        for (size_t j = 0; j < b.model->params[i].elems; j++, at++)
            ck_assert_double_eq_tol(((double *)b.grads)[at], 3 * once[at], 1e-14);
    free(once);
    bench_close(&b);
}
END_TEST

struct hook_log {
    size_t params[64], n;
    enum lk_status answer;
};

static enum lk_status note(void *ctx, size_t param)
{
    struct hook_log *log = ctx;

    ck_assert_uint_lt(log->n, sizeof log->params / sizeof *log->params);
    log->params[log->n++] = param;
    return log->answer == LK_OK ? LK_OK : lk_fail(log->answer, "planted");
}

/* PyTorch's order: the reverse of registration, but a norm's weight before its bias. */
static size_t nth_ready(const struct lk_model *m, size_t i)
{
    size_t param = m->n_params - 1 - i;
    const char *name = m->params[param].name;

    if (!strstr(name, "ln_"))
        return param;
    return strstr(name, "bias") ? param - 1 : param + 1;
}

START_TEST(the_hook_comes_once_a_parameter_in_order)
{
    struct hook_log log = {.answer = LK_OK};
    struct lk_grad_hook hook = {.ready = note, .ctx = &log};
    struct bench b;

    bench_open(&b, "cpu", &rows[_i]);
    loss_of(&b);
    must(b.model->ops->backward(b.model, &b.batch, 1, false, &hook));
    ck_assert_uint_eq(log.n, b.model->n_params);
    for (size_t i = 0; i < log.n; i++)
        ck_assert_uint_eq(log.params[i], nth_ready(b.model, i));

    log = (struct hook_log){.answer = LK_EPEER};
    ck_assert_int_eq(b.model->ops->backward(b.model, &b.batch, 1, false, &hook), LK_EPEER);
    ck_assert_uint_eq(log.n, 1);
    must(lk_stream_sync(b.stream, lk_deadline_in(timeout_ns)));
    bench_close(&b);
}
END_TEST

/* A sink that keeps the tensors of GRADIENT instants. */
static enum lk_status marks_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    (void)info;
    *out_ctx = sink;
    return LK_OK;
}

static void marks_emit(void *ctx, const struct lk_span *s)
{
    struct hook_log *marks = ctx;

    if (s->kind == LK_SPAN_GRADIENT && marks->n < sizeof marks->params / sizeof *marks->params)
        marks->params[marks->n++] = (size_t)s->index;
}

static const struct lk_sink_ops marks_sink = {
    .name = "marks", .track_open = marks_open, .emit = marks_emit};

START_TEST(gradients_are_marked_on_the_stream)
{
    struct hook_log log = {.answer = LK_OK}, marks = {.answer = LK_OK};
    struct lk_grad_hook hook = {.ready = note, .ctx = &log};
    struct bench b;

    must(lk_recorder_create(&b.recorder));
    must(lk_recorder_attach(b.recorder, &marks_sink, &marks));
    bench_open_recorded(&b, "cpu", &rows[_i], b.recorder);
    loss_of(&b);
    backward(&b, 1, false);
    ck_assert_uint_eq(marks.n, 0); /* gradients were not requested */
    must(b.model->ops->backward(b.model, &b.batch, 1, false, &hook));
    must(lk_stream_sync(b.stream, lk_deadline_in(timeout_ns)));
    ck_assert_uint_eq(marks.n, b.model->n_params);
    ck_assert_mem_eq(marks.params, log.params, log.n * sizeof *log.params);
    bench_close(&b);
}
END_TEST

START_TEST(the_same_run_gives_the_same_bits)
{
    struct bench a, b;

    bench_open(&a, "cpu", &rows[_i]);
    bench_open(&b, "cpu", &rows[_i]);
    ck_assert_double_eq(loss_of(&a), loss_of(&b));
    backward(&a, 1, false);
    backward(&b, 1, false);
    for (size_t i = 0; i < a.model->n_params; i++)
        ck_assert_mem_eq(a.model->params[i].grad, b.model->params[i].grad,
                         a.model->params[i].elems * sizeof(float));
    bench_close(&a);
    bench_close(&b);
}
END_TEST

static const struct {
    const char *name;
    size_t params, elems;
} presets[] = {
    {"gpt", 40, 100272},       {"gpt-nano", 40, 100272},    {"gpt-micro", 52, 842496},
    {"gpt-mini", 76, 2767872}, {"gpt-small", 76, 10844160}, {"mlp", 6, 140032},
};
enum { PRESETS = sizeof presets / sizeof *presets };

/* Counts by hand: GPT-2 has 12 C^2 + 13 C a block, 2 C, (vocab + context) C. */
START_TEST(presets_have_their_sizes)
{
    struct row r = {{.name = presets[_i].name, .max_samples = 1}, 1, 1};
    struct lk_rng g = lk_rng_init(1, 1);
    struct bench b;
    size_t elems = 0;
    int32_t *inputs, *targets;

    bench_open(&b, "cpu", &(struct row){r.config, 0, 0});
    ck_assert_uint_eq(b.model->n_params, presets[_i].params);
    for (size_t i = 0; i < b.model->n_params; i++) {
        const struct lk_param *p = &b.model->params[i];
        bool vector = strstr(p->name, "bias") || strstr(p->name, "ln_");

        elems += p->elems;
        ck_assert_int_eq(p->decay, !vector);
    }
    ck_assert_uint_eq(elems, presets[_i].elems);
    ck_assert_double_gt(b.model->flops_per_sample, 4.0 * (double)elems);
    /* Untrained: all tokens are about equally likely. */
    inputs = random_tokens(&g, (size_t)b.model->sample.width, 256);
    targets = random_tokens(&g, (size_t)b.model->sample.width, 256);
    b.batch = (struct lk_batch){1, b.model->sample, inputs, targets};
    if (strcmp(presets[_i].name, "mlp") != 0)
        ck_assert_double_eq_tol(loss_of(&b), log(256), 0.3);
    bench_close(&b);
}
END_TEST

static const struct {
    struct lk_model_config config;
    const char *message;
} bad_configs[] = {
    {{.name = "gtp", .max_samples = 1}, "'gtp' is not a model (known: gpt "},
    {{.name = "gpt", .heads = 5, .max_samples = 1}, "5 heads do not divide 48 channels"},
    {{.name = "gpt", .layers = -1, .max_samples = 1}, "layers -1 is not in 1..1024"},
    {{.name = "gpt", .max_samples = 0}, "max_samples 0 is not in 1.."},
    {{.name = "gpt", .channels = 65536, .heads = 65536, .context = 65536, .max_samples = 32767},
     "address space"},
    {{.name = "mlp", .heads = 2, .max_samples = 1}, "mlp: has no heads"},
};
enum { BAD_CONFIGS = sizeof bad_configs / sizeof *bad_configs };

START_TEST(bad_configurations_are_refused)
{
    struct lk_device_config config = {.slowdown = 1};
    struct lk_track_info track = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    struct lk_device *d;
    struct lk_stream *s;
    struct lk_model *m = NULL;

    must(lk_device_open("reference", &config, &d));
    must(lk_stream_create(d, &track, &s));
    ck_assert_msg(lk_model_create(d, s, &bad_configs[_i].config, &m) == LK_EUSAGE, "%s",
                  lk_error_text());
    ck_assert_msg(strstr(lk_error_text(), bad_configs[_i].message) != NULL, "%s", lk_error_text());
    ck_assert_ptr_null(m);
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

START_TEST(batches_that_do_not_fit_are_refused)
{
    struct bench b;

    bench_open(&b, "cpu", &rows[_i]);
    b.batch.samples = rows[_i].config.max_samples + 1;
    ck_assert_int_eq(b.model->ops->forward(b.model, &b.batch, NAN), LK_EUSAGE);
    ck_assert_int_eq(b.model->ops->backward(b.model, &b.batch, 1, false, NULL), LK_EUSAGE);
    b.batch.samples = 1;
    b.batch.shape = lk_sample_text(rows[_i].config.context + 1);
    ck_assert_int_eq(b.model->ops->forward(b.model, &b.batch, NAN), LK_EUSAGE);
    bench_close(&b);
}
END_TEST

struct folder {
    char dir[64], path[80];
};

static void folder_open(struct folder *f)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(f->dir, sizeof f->dir, "%s/lk-models-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/weights", f->dir);
}

static void folder_close(struct folder *f)
{
    unlink(f->path);
    ck_assert_int_eq(rmdir(f->dir), 0);
}

/* Export from cpu, import on reference, and back: float32 is preserved. */
START_TEST(weights_round_trip)
{
    struct row other = rows[_i];
    struct folder f;
    struct bench a, b;

    other.config.seed = 99;
    folder_open(&f);
    bench_open(&a, "cpu", &rows[_i]);
    bench_open(&b, "reference", &other);
    ck_assert_double_ne(loss_of(&a), loss_of(&b));
    must(lk_model_export(a.model, f.path));
    must(lk_model_import(b.model, f.path));
    for (size_t i = 0; i < a.model->n_params; i++)
        for (size_t j = 0; j < a.model->params[i].elems; j++)
            ck_assert_double_eq(real_at(&a, a.model->params[i].data, j),
                                real_at(&b, b.model->params[i].data, j));
    perturb(&a);
    must(lk_model_export(b.model, f.path));
    must(lk_model_import(a.model, f.path));
    ck_assert_double_eq_tol(loss_of(&a), loss_of(&b), 1e-5);
    bench_close(&a);
    bench_close(&b);
    folder_close(&f);
}
END_TEST

/* A change to a good file: a replacement of equal length, bytes cut off the end or
 * appended; and the expected error. */
static const struct {
    const char *find, *replace;
    size_t cut, more;
    const char *message;
} bad_files[] = {
    {NULL, NULL, 1, 0, "bytes of weights, expected"},
    {NULL, NULL, 0, 4, "bytes of weights, expected"},
    {"}]}\n", "}]} ", 0, 0, "weights:"},
    {"weights\"", "wrights\"", 0, 0, "schema"},
    {"\"version\": 1", "\"version\": 9", 0, 0, "version"},
    {"wpe.weight", "wpe_weight", 0, 0, "'wpe_weight' with 30 elements where the model has"},
    {"\"elems\": 30", "\"elems\": 31", 0, 0, "31 elements"},
    {"\"elems\": 30", "\"elems\": []", 0, 0, "expected a"},
    {"\"elems\": 30", "\"elams\": 30", 0, 0, "elems"},
    {"\"parameters\"", "\"pirameters\"", 0, 0, "parameters"},
    {"\"ln_f.bias\"", "\"ln_f.bias ", 0, 0, "weights:"},
};
enum { BAD_FILES = sizeof bad_files / sizeof *bad_files };

START_TEST(bad_files_are_refused)
{
    struct folder f;
    struct bench b;
    struct lk_writer *w;
    char *text, *found;
    size_t size;
    double before;

    folder_open(&f);
    bench_open(&b, "reference", &rows[0]);
    before = loss_of(&b);
    must(lk_model_export(b.model, f.path));
    must(lk_file_read(f.path, &text, &size));
    if (bad_files[_i].find) {
        found = memmem(text, size, bad_files[_i].find, strlen(bad_files[_i].find));
        ck_assert_ptr_nonnull(found);
        memcpy(found, bad_files[_i].replace, strlen(bad_files[_i].replace));
    }
    must(lk_writer_open(f.path, false, &w));
    must(lk_writer_put(w, text, size - bad_files[_i].cut % size));
    must(lk_writer_put(w, "more", bad_files[_i].more));
    must(lk_writer_commit(w));
    free(text);
    ck_assert_int_eq(lk_model_import(b.model, f.path), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), bad_files[_i].message) != NULL, "%s", lk_error_text());
    ck_assert_double_eq(loss_of(&b), before); /* nothing was changed */
    bench_close(&b);
    folder_close(&f);
}
END_TEST

START_TEST(a_missing_file_is_an_error)
{
    struct bench b;

    bench_open(&b, "reference", &rows[0]);
    ck_assert_int_eq(lk_model_import(b.model, "/nonexistent/weights"), LK_EIO);
    ck_assert_int_eq(lk_model_export(b.model, "/nonexistent/weights"), LK_EIO);
    bench_close(&b);
}
END_TEST

SUITE(models, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_loop_test(tc, gradients_are_the_loss_derivatives, 0, ROWS);
    tcase_add_loop_test(tc, cpu_follows_the_reference, 0, ROWS);
    tcase_add_loop_test(tc, accumulating_adds, 0, ROWS);
    tcase_add_loop_test(tc, the_hook_comes_once_a_parameter_in_order, 0, ROWS);
    tcase_add_loop_test(tc, gradients_are_marked_on_the_stream, 0, ROWS);
    tcase_add_loop_test(tc, the_same_run_gives_the_same_bits, 0, ROWS);
    tcase_add_loop_test(tc, presets_have_their_sizes, 0, PRESETS);
    tcase_add_loop_test(tc, bad_configurations_are_refused, 0, BAD_CONFIGS);
    tcase_add_loop_test(tc, batches_that_do_not_fit_are_refused, 0, ROWS);
    tcase_add_loop_test(tc, weights_round_trip, 0, ROWS);
    tcase_add_loop_test(tc, bad_files_are_refused, 0, BAD_FILES);
    tcase_add_test(tc, a_missing_file_is_an_error);
}
