/*
 * The models: gradients against finite differences of the loss on the reference device, the cpu
 * device against the reference, the order of the gradient hook, and weights as a file.
 */
#include "base/file.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "tests/rigs/model_bench.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A small model, with all sizes different; batches shorter than the model's maximum. */
static const struct bench_row rows[] = {
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

/* The perturbation moves away from GPT-2's small initial values, where most gradients are near zero
 * and prove little. */
static const double deviation = 0.4;

/*
 * Central differences with step h have an error of h^2 |f'''| / 6, and 2^-52 |f| / h from rounding:
 * about 1e-10 both at h = 1e-5, with third derivatives of up to a few here.
 */
START_TEST(gradients_are_the_loss_derivatives)
{
    bench_check_derivatives(&rows[_i], deviation, 1e-5, 1e-8, 0);
}
END_TEST

/* A few layers of sums of at most a few dozen terms: rounding stays below 100 ulp of numbers ~1. */
START_TEST(cpu_follows_the_reference)
{
    bench_check_devices(&rows[_i], deviation, 1e-5);
}
END_TEST

START_TEST(accumulating_adds)
{
    bench_check_accumulation(&rows[_i], 1e-14);
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
    bench_loss(&b);
    must(b.model->ops->backward(b.model, &b.batch, 1, false, &hook));
    ck_assert_uint_eq(log.n, b.model->n_params);
    for (size_t i = 0; i < log.n; i++)
        ck_assert_uint_eq(log.params[i], nth_ready(b.model, i));

    log = (struct hook_log){.answer = LK_EPEER};
    ck_assert_int_eq(b.model->ops->backward(b.model, &b.batch, 1, false, &hook), LK_EPEER);
    ck_assert_uint_eq(log.n, 1);
    must(lk_stream_sync(b.stream, lk_deadline_in(WAIT_PLENTY_NS)));
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
    bench_loss(&b);
    bench_backward(&b, 1, false, NULL);
    ck_assert_uint_eq(marks.n, 0); /* gradients were not requested */
    must(b.model->ops->backward(b.model, &b.batch, 1, false, &hook));
    must(lk_stream_sync(b.stream, lk_deadline_in(WAIT_PLENTY_NS)));
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
    ck_assert_double_eq(bench_loss(&a), bench_loss(&b));
    bench_backward(&a, 1, false, NULL);
    bench_backward(&b, 1, false, NULL);
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
    struct bench b;
    size_t elems = 0;

    bench_open(&b, "cpu", &(struct bench_row){{.name = presets[_i].name, .max_samples = 1}, 1, 0});
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
    if (strcmp(presets[_i].name, "mlp") != 0)
        ck_assert_double_eq_tol(bench_loss(&b), log(256), 0.3);
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
    bench_check_refusal(&bad_configs[_i].config, bad_configs[_i].message);
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
    struct bench_row other = rows[_i];
    struct folder f;
    struct bench a, b;

    other.config.seed = 99;
    folder_open(&f);
    bench_open(&a, "cpu", &rows[_i]);
    bench_open(&b, "reference", &other);
    ck_assert_double_ne(bench_loss(&a), bench_loss(&b));
    must(lk_model_export(a.model, f.path));
    must(lk_model_import(b.model, f.path));
    for (size_t i = 0; i < a.model->n_params; i++)
        for (size_t j = 0; j < a.model->params[i].elems; j++)
            ck_assert_double_eq(bench_real(&a, a.model->params[i].data, j),
                                bench_real(&b, b.model->params[i].data, j));
    bench_perturb(&a, deviation);
    must(lk_model_export(b.model, f.path));
    must(lk_model_import(a.model, f.path));
    ck_assert_double_eq_tol(bench_loss(&a), bench_loss(&b), 1e-5);
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
    before = bench_loss(&b);
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
    ck_assert_double_eq(bench_loss(&b), before); /* nothing was changed */
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
