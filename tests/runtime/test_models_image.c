/*
 * Networks of images: gradients against finite differences of the loss, the cpu against the
 * reference, the order of gradients, when weights are released, and torchvision's names and sizes.
 */
#include "base/array.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "tests/rigs/model_bench.h"
#include "tests/rigs/must.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t timeout_ns = WAIT_PLENTY_NS;

/* Small networks of each kind: both blocks, both stems, and VGG. */
static const struct bench_row rows[] = {
    {{.name = "resnet18",
      .layers = 10,
      .channels = 2,
      .image = 8,
      .colours = 1,
      .vocab = 3,
      .max_samples = 3,
      .seed = 1},
     2,
     0},
    {{.name = "resnet50",
      .layers = 14,
      .channels = 1,
      .image = 9,
      .colours = 2,
      .vocab = 4,
      .max_samples = 2,
      .seed = 2},
     2,
     0},
    {{.name = "resnet18",
      .layers = 10,
      .channels = 1,
      .image = 66,
      .vocab = 3,
      .max_samples = 2,
      .seed = 3},
     2,
     0},
    {{.name = "vgg16",
      .layers = 11,
      .channels = 1,
      .image = 32,
      .colours = 1,
      .vocab = 5,
      .max_samples = 2,
      .seed = 4},
     1,
     0},
};
enum { ROWS = sizeof rows / sizeof *rows };

/*
 * The perturbation moves away from biases of 0, at which the relus of dark pixels would lie on
 * their kink. Central differences of step 1e-7 err by rounding, 2^-52 |f| / h, a few 1e-9, and
 * where a relu or a maximum turns within the step: at so short a step at no element here.
 */
START_TEST(gradients_are_the_loss_derivatives)
{
    bench_check_derivatives(&rows[_i], 0.2, 1e-7, 1e-6, 16);
}
END_TEST

/* Layers have sums of a few hundred terms, and divisions by deviations of few values. */
START_TEST(cpu_follows_the_reference)
{
    bench_check_devices(&rows[_i], 0, 2e-4);
}
END_TEST

START_TEST(accumulating_adds)
{
    bench_check_accumulation(&rows[_i], 1e-11);
}
END_TEST

/* ---- The hook ---- */

struct hook_log {
    struct bench *b;
    size_t ready[256], n;
    size_t released;
};

static enum lk_status note(void *ctx, size_t param)
{
    struct hook_log *log = ctx;

    ck_assert_uint_lt(log->n, LK_COUNT(log->ready));
    log->ready[log->n++] = param;
    return LK_OK;
}

/* Ops run at once on the reference device: what reads the weights later reads NaN. */
static enum lk_status spoil(void *ctx, size_t param)
{
    struct hook_log *log = ctx;
    const struct lk_param *p = &log->b->model->params[param];

    for (size_t i = 0; i < p->elems; i++)
        ((double *)p->data)[i] = NAN;
    log->released++;
    return LK_OK;
}

/* PyTorch's order: the reverse of registration by modules; weights come before biases in those of
 * more than two dimensions and in norms, behind them in linear layers. */
START_TEST(gradients_come_in_order_and_weights_are_released)
{
    struct hook_log log = {0};
    const struct lk_grad_hook hook = {.ready = note, .released = spoil, .ctx = &log};
    struct bench b;

    bench_open(&b, "reference", &rows[_i]);
    log.b = &b;
    bench_loss(&b);
    bench_backward(&b, 1, false, &hook);
    ck_assert_uint_eq(log.n, b.model->n_params);
    ck_assert_uint_eq(log.released, b.model->n_params);
    for (size_t i = 0; i < log.n; i++) {
        size_t param = b.model->n_params - 1 - i;
        const char *name = b.model->params[param].name;
        bool linear = !strncmp(name, "fc.", 3) || !strncmp(name, "classifier.", 11);
        bool alone = strstr(name, "conv") || strstr(name, "downsample.0");

        if (!linear && !alone)
            param += strstr(name, "bias") ? -1UL : 1UL;
        ck_assert_msg(log.ready[i] == param, "%zu: %s", i, b.model->params[log.ready[i]].name);
    }
    for (size_t i = 0; i < b.elems; i++)
        ck_assert(isfinite(((double *)b.grads)[i]));
    bench_close(&b);
}
END_TEST

/* ---- SyncBatchNorm over unequal batches ---- */

enum { UNEQUAL = 3 };
static const int unequal[UNEQUAL] = {1, 3, 2};

struct apart {
    double *grads[UNEQUAL], *buffers[UNEQUAL];
    struct bench_row row;
    size_t elems;
};

/* Run a rank's part of a batch, whose loss counts as much as it has samples, and sum the gradients.
 */
static enum lk_status run_part(struct rank *me)
{
    const struct lk_track_info track = {.name = "net", .kind = LK_TRACK_COMM};
    struct apart *a = me->ctx;
    struct lk_store *store = NULL;
    struct lk_comm *comm = NULL;
    struct lk_stream *net = NULL;
    enum lk_status st = LK_OK;
    struct bench b = {0};
    size_t before = 0, inputs;

    bench_open(&b, "reference", &a->row);
    inputs = lk_sample_inputs(&b.model->sample);
    LK_TRY(rank_open_tcp(me, 0, timeout_ns, &store, &comm));
    LK_TRY(lk_stream_create(b.device, &track, &net));
    LK_TRY(b.model->ops->join(b.model, comm, net));
    for (int r = 0; r < me->rank; r++)
        before += (size_t)unequal[r];
    b.batch.samples = unequal[me->rank];
    b.batch.inputs = (uint8_t *)b.inputs + before * inputs;
    b.batch.targets = b.targets + before;
    LK_TRY(b.model->ops->forward(b.model, &b.batch, NAN));
    LK_TRY(b.model->ops->backward(b.model, &b.batch, unequal[me->rank] / 6.0, false, NULL));
    LK_TRY(lk_comm_run(comm, &(struct lk_coll_call){.coll = LK_ALL_REDUCE,
                                                    .dtype = LK_F64,
                                                    .buf = b.grads,
                                                    .count = b.elems,
                                                    .index = -1}));
    memcpy(a->grads[me->rank], b.grads, b.elems * sizeof(double));
    memcpy(a->buffers[me->rank], b.model->buffers[0].data, b.model->buffer_elems * sizeof(double));
out:
    lk_stream_destroy(net);
    bench_close(&b);
    lk_comm_close(comm);
    lk_store_close(store);
    return st;
}

/* Ranks with 1, 3 and 2 samples have the gradients and running statistics of one with all six. */
START_TEST(unequal_batches_are_one_batch)
{
    struct apart a = {.row = rows[0]};
    struct rank ranks[RANKS_MAX];
    struct bench whole;

    a.row.samples = a.row.config.max_samples = 6;
    a.row.config.sync_batch_norm = true;
    bench_open(&whole, "reference", &a.row);
    bench_loss(&whole);
    bench_backward(&whole, 1, false, NULL);
    for (int r = 0; r < UNEQUAL; r++) {
        must(lk_alloc(&a.grads[r], whole.elems, sizeof(double)));
        must(lk_alloc(&a.buffers[r], whole.model->buffer_elems, sizeof(double)));
    }
    ranks_run_threads(UNEQUAL, timeout_ns, run_part, &a, ranks);
    for (int r = 0; r < UNEQUAL; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        for (size_t i = 0; i < whole.elems; i++)
            ck_assert_double_eq_tol(a.grads[r][i], ((double *)whole.grads)[i], 1e-10);
        for (size_t i = 0; i < whole.model->buffer_elems; i++)
            ck_assert_double_eq_tol(a.buffers[r][i], ((double *)whole.model->buffers[0].data)[i],
                                    1e-10);
        free(a.grads[r]);
        free(a.buffers[r]);
    }
    bench_close(&whole);
}
END_TEST

/* ---- Sizes ---- */

/* torchvision's models: parameters, batch norms, and published products of a forward pass (1.81,
 * 4.09, 15.47 GMAC) with the number of them here, all convolutions and linear layers. */
static const struct {
    const char *name;
    size_t elems, params, buffers;
    double gmac, published;
    const char *first, *last;
} sizes[] = {
    {"resnet18", 11689512, 62, 40, 1.814, 1.8, "conv1.weight", "fc.bias"},
    {"resnet50", 25557032, 161, 106, 4.089, 4.1, "conv1.weight", "fc.bias"},
    {"vgg16", 138357544, 32, 0, 15.470, 15.5, "features.0.weight", "classifier.6.bias"},
    {"gpt2-medium", 354823168, 292, 0, 0, 0, "wte.weight", "ln_f.bias"},
    {"gpt2-large", 774030080, 436, 0, 0, 0, "wte.weight", "ln_f.bias"},
    {"gpt2-xl", 1557611200, 580, 0, 0, 0, "wte.weight", "ln_f.bias"},
};

START_TEST(presets_have_the_published_sizes)
{
    const struct bench_row r = {
        {.name = sizes[_i].name, .max_samples = 1, .blank = true, .described = true}, 1, 0};
    struct bench b;
    double first;

    bench_open(&b, "cpu", &r);
    ck_assert_uint_eq(b.elems, sizes[_i].elems);
    ck_assert_uint_eq(b.model->n_params, sizes[_i].params);
    ck_assert_uint_eq(b.model->n_buffers, sizes[_i].buffers);
    ck_assert_str_eq(b.model->params[0].name, sizes[_i].first);
    ck_assert_str_eq(b.model->params[sizes[_i].params - 1].name, sizes[_i].last);
    if (sizes[_i].gmac > 0) { /* the first layer's input has no gradient */
        first = _i < 2 ? 112.0 * 112 * 147 * 64 : 224.0 * 224 * 27 * 64;
        ck_assert_double_eq_tol((b.model->flops_per_sample + 2 * first) / 6e9, sizes[_i].gmac,
                                0.001);
        ck_assert_double_eq_tol(sizes[_i].gmac, sizes[_i].published, 0.05);
    }
    bench_close(&b);
}
END_TEST

/* The names of a stage's first block, in torchvision's order. */
START_TEST(names_are_torchvisions)
{
    static const char *const names[] = {"layer2.0.conv1.weight",
                                        "layer2.0.bn1.weight",
                                        "layer2.0.bn1.bias",
                                        "layer2.0.conv2.weight",
                                        "layer2.0.bn2.weight",
                                        "layer2.0.bn2.bias",
                                        "layer2.0.downsample.0.weight",
                                        "layer2.0.downsample.1.weight",
                                        "layer2.0.downsample.1.bias",
                                        "layer2.1.conv1.weight"};
    const struct bench_row r = {
        {.name = "resnet18", .max_samples = 1, .blank = true, .described = true}, 1, 0};
    struct bench b;

    bench_open(&b, "cpu", &r);
    for (size_t i = 0; i < LK_COUNT(names); i++)
        ck_assert_str_eq(b.model->params[15 + i].name, names[i]);
    ck_assert_uint_eq(b.model->params[15].elems, 128 * 64 * 9);
    ck_assert_str_eq(b.model->buffers[0].name, "bn1.running_mean");
    ck_assert_str_eq(b.model->buffers[14].name, "layer2.0.downsample.1.running_mean");
    ck_assert_str_eq(b.model->buffers[15].name, "layer2.0.downsample.1.running_var");
    bench_close(&b);
}
END_TEST

/* CIFAR-10's ResNet-18 with 10 classes: a stem of 3 x 3 and no pooling, which the text says. */
START_TEST(small_images_get_a_small_stem)
{
    const struct bench_row r = {{.name = "resnet18",
                                 .image = 32,
                                 .vocab = 10,
                                 .max_samples = 1,
                                 .blank = true,
                                 .described = true},
                                1,
                                0};
    struct bench b;

    bench_open(&b, "cpu", &r);
    ck_assert_uint_eq(b.model->params[0].elems, 64 * 27);
    ck_assert_uint_eq(b.elems, 11173962);
    ck_assert_double_eq_tol(b.model->flops_per_sample / 6e9, 0.556, 0.002);
    ck_assert_msg(strstr(b.model->config_text, "3 x 3 (CIFAR)") != NULL, "%s",
                  b.model->config_text);
    bench_close(&b);
}
END_TEST

static const struct {
    struct lk_model_config config;
    const char *message;
} bad[] = {
    {{.name = "resnet18", .layers = 12, .max_samples = 1},
     "layers 12: there are networks of 10, 18"},
    {{.name = "vgg16", .layers = 12, .max_samples = 1}, "layers 12: there are networks of 11, 13"},
    {{.name = "vgg16", .image = 31, .max_samples = 1}, "image 31 is below 32"},
    {{.name = "resnet18", .heads = 2, .max_samples = 1}, "has no heads and no context"},
    {{.name = "resnet18", .image = 5000, .max_samples = 1}, "image 5000 is not in 1..4096"},
    {{.name = "gpt", .image = 32, .max_samples = 1}, "model gpt: has no images"},
};

START_TEST(bad_configurations_are_refused)
{
    bench_check_refusal(&bad[_i].config, bad[_i].message);
}
END_TEST

START_TEST(batches_that_do_not_fit_are_refused)
{
    const struct bench_row one = {
        {.name = "resnet18", .layers = 10, .channels = 2, .image = 8, .max_samples = 2, .seed = 1},
        1,
        0};
    struct bench b;

    bench_open(&b, "cpu", &one);
    /* The last stage is one pixel: one sample has no variance. */
    ck_assert_int_eq(b.model->ops->forward(b.model, &b.batch, NAN), LK_EUSAGE);
    ck_assert_msg(strstr(lk_error_text(), "has no variance") != NULL, "%s", lk_error_text());
    b.batch.shape = lk_sample_image(3, 8, 9);
    ck_assert_int_eq(b.model->ops->forward(b.model, &b.batch, NAN), LK_EUSAGE);
    ck_assert_msg(strstr(lk_error_text(), "image of 3 x 8 x 9") != NULL, "%s", lk_error_text());
    b.batch.shape = lk_sample_text(4);
    ck_assert_int_eq(b.model->ops->forward(b.model, &b.batch, NAN), LK_EUSAGE);
    bench_close(&b);
}
END_TEST

/* Weights and running statistics go through a file. */
START_TEST(files_hold_buffers)
{
    struct bench_row other = rows[0];
    struct bench a, b;
    char *path = scratch_path(scratch_dir, "weights");

    bench_open(&a, "cpu", &rows[0]);
    bench_loss(&a);
    must(lk_model_export(a.model, path));
    other.config.seed = 9;
    bench_open(&b, "cpu", &other);
    must(lk_model_import(b.model, path));
    for (size_t i = 0; i < a.model->n_buffers; i++)
        ck_assert_mem_eq(a.model->buffers[i].data, b.model->buffers[i].data,
                         a.model->buffers[i].elems * sizeof(float));
    ck_assert_double_eq(bench_loss(&a), bench_loss(&b));
    bench_close(&a);
    bench_close(&b);
    free(path);
}
END_TEST

SUITE(models_image, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, gradients_are_the_loss_derivatives, 0, ROWS);
    tcase_add_loop_test(c, cpu_follows_the_reference, 0, ROWS);
    tcase_add_loop_test(c, accumulating_adds, 0, ROWS);
    tcase_add_loop_test(c, gradients_come_in_order_and_weights_are_released, 0, ROWS);
    tcase_add_test(c, unequal_batches_are_one_batch);
    tcase_add_loop_test(c, presets_have_the_published_sizes, 0, LK_COUNT(sizes));
    tcase_add_test(c, names_are_torchvisions);
    tcase_add_test(c, small_images_get_a_small_stem);
    tcase_add_loop_test(c, bad_configurations_are_refused, 0, LK_COUNT(bad));
    tcase_add_test(c, batches_that_do_not_fit_are_refused);
    tcase_add_test(c, files_hold_buffers);
}
