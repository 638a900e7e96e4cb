/* Models with and without each fusion: on a device of the host the losses and gradients have the
 * same bits. tests/runtime/test_fuse_cuda.c has the choice. */
#include "base/array.h"
#include "runtime/device/device.h"
#include "runtime/model/fuse.h"
#include "runtime/model/model.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 2, CONTEXT = 4, VOCAB = 11, FUSIONS_MAX = 7 };

static const struct row {
    const char *device;
    struct lk_model_config config;
} rows[] = {
    {"cpu",
     {.name = "gpt",
      .layers = 2,
      .heads = 2,
      .channels = 6,
      .context = CONTEXT,
      .vocab = VOCAB,
      .max_samples = SAMPLES,
      .seed = 1}},
    {"reference",
     {.name = "gpt",
      .layers = 1,
      .heads = 1,
      .channels = 8,
      .context = CONTEXT,
      .vocab = VOCAB,
      .max_samples = SAMPLES,
      .seed = 1}},
    {"cpu",
     {.name = "mlp",
      .layers = 3,
      .channels = 10,
      .context = CONTEXT,
      .vocab = VOCAB,
      .max_samples = SAMPLES,
      .seed = 3}},
    {"reference",
     {.name = "mlp",
      .layers = 1,
      .channels = 5,
      .context = CONTEXT,
      .vocab = VOCAB,
      .max_samples = SAMPLES,
      .seed = 3}},
};

struct rig {
    struct lk_device *d;
    struct lk_stream *s;
    struct lk_model *m;
    struct lk_batch batch;
    void *grads;
    size_t bytes; /* of grads */
};

static void rig_open(struct rig *r, const struct row *row)
{
    const struct lk_device_config config = {.slowdown = 1};
    const struct lk_track_info track = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    struct lk_rng g = lk_rng_init(7, 0);
    char *grad;

    memset(r, 0, sizeof *r);
    must(lk_device_open(row->device, &config, &r->d));
    must(lk_stream_create(r->d, &track, &r->s));
    must(lk_model_create(r->d, r->s, &row->config, &r->m));
    for (size_t i = 0; i < r->m->n_params; i++)
        r->bytes += r->m->params[i].elems * lk_device_real_bytes(r->d);
    must(lk_device_alloc(r->d, r->bytes, &r->grads));
    grad = r->grads;
    for (size_t i = 0; i < r->m->n_params; i++) {
        r->m->params[i].grad = grad;
        grad += r->m->params[i].elems * lk_device_real_bytes(r->d);
    }
    r->batch = (struct lk_batch){SAMPLES, lk_sample_text(CONTEXT),
                                 random_tokens(&g, SAMPLES * CONTEXT, VOCAB),
                                 random_tokens(&g, SAMPLES * CONTEXT, VOCAB)};
}

static void rig_close(struct rig *r)
{
    lk_model_destroy(r->m);
    lk_device_free(r->d, r->grads);
    lk_stream_destroy(r->s);
    lk_device_close(r->d);
}

static void sync_rig(struct rig *r)
{
    must(lk_stream_sync(r->s, lk_deadline_in(WAIT_PLENTY_NS)));
}

/* Two micro-batches with the seed, from gradients that have to be overwritten. */
static void two_passes(struct rig *r, double seed, void *loss, void *grads)
{
    memset(r->grads, 0x7f, r->bytes);
    for (int i = 0; i < 2; i++) {
        must(r->m->ops->forward(r->m, &r->batch, seed));
        must(r->m->ops->backward(r->m, &r->batch, seed, i > 0, NULL));
    }
    sync_rig(r);
    memcpy(loss, r->m->loss, lk_device_wide_bytes(r->d));
    memcpy(grads, r->grads, r->bytes);
}

/* _i: the row and the set of fusions that are used. */
START_TEST(every_set_has_the_same_bits)
{
    const struct row *row = &rows[_i >> FUSIONS_MAX];
    unsigned set = (unsigned)_i & ((1U << FUSIONS_MAX) - 1);
    double loss[2] = {0};
    void *grads[2];
    struct rig r;

    rig_open(&r, row);
    ck_assert_uint_le(r.m->n_fusions, FUSIONS_MAX);
    for (size_t k = 0; k < 2; k++) {
        grads[k] = malloc(r.bytes);
        ck_assert_ptr_nonnull(grads[k]);
        for (size_t i = 0; i < r.m->n_fusions; i++)
            r.m->fusions[i].used = k && (set >> i & 1);
        two_passes(&r, 0.25, &loss[k], grads[k]);
    }
    ck_assert_double_eq(loss[0], loss[1]);
    ck_assert_mem_eq(grads[0], grads[1], r.bytes);
    free(grads[0]);
    free(grads[1]);
    rig_close(&r);
}
END_TEST

static void use_all(struct lk_model *m)
{
    for (size_t i = 0; i < m->n_fusions; i++)
        m->fusions[i].used = true;
}

/* A forward that no backward follows changes nothing that a backward needs: it may be run again,
 * and a backward with any seed may follow after all. */
START_TEST(a_forward_alone_keeps_the_logits)
{
    double loss[2] = {0};
    void *grads[2];
    struct rig r;

    rig_open(&r, &rows[_i]);
    grads[0] = malloc(r.bytes);
    grads[1] = malloc(r.bytes);
    ck_assert(grads[0] && grads[1]);
    two_passes(&r, 0.5, &loss[0], grads[0]);
    use_all(r.m);
    for (int i = 0; i < 2; i++) {
        must(r.m->ops->forward(r.m, &r.batch, NAN));
        must(r.m->ops->backward(r.m, &r.batch, 0.5, i > 0, NULL));
    }
    sync_rig(&r);
    memcpy(&loss[1], r.m->loss, lk_device_wide_bytes(r.d));
    memcpy(grads[1], r.grads, r.bytes);
    ck_assert_double_eq(loss[0], loss[1]);
    ck_assert_mem_eq(grads[0], grads[1], r.bytes);
    free(grads[0]);
    free(grads[1]);
    rig_close(&r);
}
END_TEST

/* The gradient was made with forward's seed: backward with another would be wrong. */
START_TEST(backward_has_the_seed_of_forward)
{
    struct rig r;

    rig_open(&r, &rows[_i]);
    use_all(r.m);
    must(r.m->ops->forward(r.m, &r.batch, 0.5));
    ck_assert_int_eq(r.m->ops->backward(r.m, &r.batch, 0.25, false, NULL), LK_EINTERNAL);
    ck_assert_str_eq(lk_error_text(), "backward with seed 0.25 of a forward with 0.5");
    must(r.m->ops->forward(r.m, &r.batch, 0.25));
    must(r.m->ops->backward(r.m, &r.batch, 0.25, false, NULL));
    sync_rig(&r);
    rig_close(&r);
}
END_TEST

SUITE(fused, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_loop_test(tc, every_set_has_the_same_bits, 0, (int)LK_COUNT(rows) << FUSIONS_MAX);
    tcase_add_loop_test(tc, a_forward_alone_keeps_the_logits, 0, (int)LK_COUNT(rows));
    tcase_add_loop_test(tc, backward_has_the_seed_of_forward, 0, (int)LK_COUNT(rows));
}
