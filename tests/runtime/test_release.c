/*
 * When models release their parameters (runtime/model/model.h): an optimizer may change a parameter
 * from then on. Here it becomes NaN at that point of the stream, and no gradient may show it.
 */
#include "base/array.h"
#include "runtime/device/device.h"
#include "runtime/model/fuse.h"
#include "runtime/model/model.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>

static const struct row {
    const char *device;
    struct lk_model_config config;
} rows[] = {
#define GPT                                                                                        \
    {                                                                                              \
        .name = "gpt", .layers = 2, .heads = 2, .channels = 6, .context = 5, .vocab = 7,           \
        .max_samples = 2, .seed = 1                                                                \
    }
#define MLP                                                                                        \
    {                                                                                              \
        .name = "mlp", .layers = 2, .channels = 10, .context = 6, .vocab = 9, .max_samples = 2,    \
        .seed = 3                                                                                  \
    }
    {"reference", GPT},
    {"reference", MLP},
    {"cpu", GPT},
    {"cpu", MLP},
};

enum { PARAMS_MAX = 64 };

/* A model with gradients, and how often each parameter was overwritten. */
struct bench {
    struct lk_device *device;
    struct lk_stream *stream;
    struct lk_model *model;
    void *grads[PARAMS_MAX];
    int times[PARAMS_MAX];
};

static void open_bench(struct bench *b, const struct row *r)
{
    const struct lk_track_info track = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    const struct lk_device_config config = {.slowdown = 1};

    *b = (struct bench){0};
    must(lk_device_open(r->device, &config, &b->device));
    must(lk_stream_create(b->device, &track, &b->stream));
    must(lk_model_create(b->device, b->stream, &r->config, &b->model));
    ck_assert_uint_le(b->model->n_params, PARAMS_MAX);
    for (size_t i = 0; i < b->model->n_params; i++) {
        must(lk_device_alloc(b->device, b->model->params[i].elems * lk_device_real_bytes(b->device),
                             &b->grads[i]));
        b->model->params[i].grad = b->grads[i];
    }
}

static void close_bench(struct bench *b)
{
    lk_stream_destroy(b->stream);
    for (size_t i = 0; i < b->model->n_params; i++)
        lk_device_free(b->device, b->grads[i]);
    lk_model_destroy(b->model);
    lk_device_close(b->device);
}

static enum lk_status poison(void *ctx, size_t param)
{
    struct bench *b = ctx;
    const struct lk_param *p = &b->model->params[param];

    b->times[param]++;
    return LK_LAUNCH(b->stream, fill, .x = p->data, .n = p->elems, .value = NAN);
}

static enum lk_status ignore(void *ctx, size_t param)
{
    (void)ctx;
    (void)param;
    return LK_OK;
}

/* Run a step with this hook; return how many elements of gradients are NaN. */
static size_t count_nans(struct bench *b, const struct row *r, const struct lk_grad_hook *hook)
{
    struct lk_rng g = lk_rng_init(77, 0);
    size_t n = 2 * (size_t)r->config.context, nans = 0;
    const struct lk_batch batch = {2, lk_sample_text(r->config.context),
                                   random_tokens(&g, n, (size_t)r->config.vocab),
                                   random_tokens(&g, n, (size_t)r->config.vocab)};

    must(b->model->ops->forward(b->model, &batch, 1));
    must(b->model->ops->backward(b->model, &batch, 1, false, hook));
    must(lk_stream_sync(b->stream, lk_deadline_in(WAIT_PLENTY_NS)));
    for (size_t i = 0; i < b->model->n_params; i++)
        for (size_t k = 0; k < b->model->params[i].elems; k++)
            nans += isnan(lk_device_real_bytes(b->device) == sizeof(double)
                              ? ((const double *)b->grads[i])[k]
                              : (double)((const float *)b->grads[i])[k])
                        ? 1
                        : 0;
    return nans;
}

/* Every parameter is released, and only once, whatever is fused (_i & 1: all). */
START_TEST(released_parameters_are_not_read_any_more)
{
    struct bench b;
    const struct lk_grad_hook hook = {ignore, &b, poison};

    open_bench(&b, &rows[_i / 2]);
    for (size_t i = 0; i < b.model->n_fusions; i++)
        b.model->fusions[i].used = _i & 1;
    ck_assert_uint_eq(count_nans(&b, &rows[_i / 2], &hook), 0);
    for (size_t i = 0; i < b.model->n_params; i++)
        ck_assert_msg(b.times[i] == 1, "%s was released %d times", b.model->params[i].name,
                      b.times[i]);
    close_bench(&b);
}
END_TEST

/* When its gradient is ready a parameter may be read still: the test sees what it should. */
START_TEST(parameters_with_ready_gradients_are_read)
{
    struct bench b;
    const struct lk_grad_hook hook = {poison, &b, ignore};

    open_bench(&b, &rows[_i]);
    ck_assert_uint_gt(count_nans(&b, &rows[_i], &hook), 0);
    close_bench(&b);
}
END_TEST

/* ---- Uses ---- */

/* A model whose parameters are elsewhere, NaN, but while a pass uses them. */
struct kept_away {
    struct bench *b;
    void *kept[PARAMS_MAX];
    int needs[PARAMS_MAX], dones[PARAMS_MAX];
};

static enum lk_status bring(void *ctx, size_t first, size_t n)
{
    struct kept_away *k = ctx;

    for (size_t p = first; p < first + n; p++) {
        const struct lk_param *x = &k->b->model->params[p];

        k->needs[p]++;
        LK_PASS(lk_stream_copy(k->b->stream, x->data, k->kept[p],
                               x->elems * lk_device_real_bytes(k->b->device)));
    }
    return LK_OK;
}

static enum lk_status take_away(void *ctx, size_t first, size_t n)
{
    struct kept_away *k = ctx;

    for (size_t p = first; p < first + n; p++) {
        const struct lk_param *x = &k->b->model->params[p];

        k->dones[p]++;
        LK_PASS(LK_LAUNCH(k->b->stream, fill, .x = x->data, .n = x->elems, .value = NAN));
    }
    return LK_OK;
}

/* A pass says once of each parameter that it needs it and is done with it, and reads it only in
 * between. */
START_TEST(passes_use_parameters_as_they_say)
{
    const struct lk_grad_hook hook = {ignore, NULL, ignore};
    struct kept_away k = {0};
    struct bench b;

    open_bench(&b, &rows[_i / 2]);
    for (size_t i = 0; i < b.model->n_fusions; i++)
        b.model->fusions[i].used = _i & 1;
    k.b = &b;
    for (size_t i = 0; i < b.model->n_params; i++) {
        size_t bytes = b.model->params[i].elems * lk_device_real_bytes(b.device);

        must(lk_device_alloc(b.device, bytes, &k.kept[i]));
        must(lk_stream_copy(b.stream, k.kept[i], b.model->params[i].data, bytes));
    }
    must(take_away(&k, 0, b.model->n_params));
    b.model->uses = (struct lk_use_hook){.need = bring, .done = take_away, .ctx = &k};
    ck_assert_uint_eq(count_nans(&b, &rows[_i / 2], &hook), 0);
    for (size_t i = 0; i < b.model->n_params; i++) {
        ck_assert_msg(k.needs[i] == 2 && k.dones[i] == 3, "%s was needed %d times, done %d",
                      b.model->params[i].name, k.needs[i], k.dones[i]);
        lk_device_free(b.device, k.kept[i]);
    }
    close_bench(&b);
}
END_TEST

SUITE(release, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_loop_test(tc, released_parameters_are_not_read_any_more, 0, 2 * (int)LK_COUNT(rows));
    tcase_add_loop_test(tc, parameters_with_ready_gradients_are_read, 0, LK_COUNT(rows));
    tcase_add_loop_test(tc, passes_use_parameters_as_they_say, 0, 2 * (int)LK_COUNT(rows));
}
