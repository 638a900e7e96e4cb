/*
 * Late gradients (--sharding async): a step's update takes the gradients of `staleness` steps ago.
 * With 0 that is DDP, bit for bit; with more it is what one rank would do on the global batch, and
 * what a loop does that keeps gradients in a list.
 */
#include "base/array.h"
#include "base/file.h"
#include "kernels/ops.h"
#include "runtime/train/trainer.h"
#include "tests/rigs/must.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 7, GLOBAL = 12 };

static const struct {
    const char *name;
    struct lk_optim_config config;
} optimizers[] = {
    {"sgd", {.kind = LK_OPTIM_SGD, .learning_rate = 0.05}},
    {"momentum", {.kind = LK_OPTIM_SGD, .learning_rate = 0.02, .momentum = 0.9}},
    {"adamw",
     {.kind = LK_OPTIM_ADAMW, .learning_rate = 0.002, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6}},
};

struct run {
    size_t optimizer;
    int staleness, accumulation;
    double clip_norm;
    bool verify, gpt, plain; /* plain: DDP */
    enum lk_compression compression;
    enum lk_plant plant;
    enum lk_overlap_mode overlap;
    const char *fault;
    char *weights; /* file */
    struct lk_train_result results[RANKS_MAX];
    char text[1024];
};

static struct lk_train_config config(const struct run *run, int ranks)
{
    struct lk_train_config c = small_train("cpu", STEPS);

    c.comm = ranks == 1 ? "self" : "tcp";
    c.comm_config.world_size = ranks;
    c.comm_config.fault = run->fault;
    if (!run->gpt)
        c.model = (struct lk_model_config){
            .name = "mlp", .layers = 2, .channels = 20, .context = 8, .vocab = 24, .seed = 3};
    c.samples = 4 * GLOBAL;
    c.local_batch = GLOBAL / ranks / run->accumulation;
    c.reducer.accumulation = run->accumulation;
    c.reducer.first_bytes = c.reducer.cap_bytes = 1024;
    c.reducer.staleness = run->staleness;
    c.reducer.sharding = run->plain ? LK_SHARDING_DDP : LK_SHARDING_ASYNC;
    c.reducer.plant = run->plant;
    c.reducer.overlap = run->overlap;
    c.optim = optimizers[run->optimizer].config;
    c.hook.compression = run->compression;
    c.clip_norm = run->clip_norm;
    c.verify = run->verify;
    c.check_every = 1;
    return c;
}

static enum lk_status run_rank(struct rank *me)
{
    struct run *run = me->ctx;
    struct lk_train_config c = config(run, me->world_size);
    enum lk_status st = LK_OK;

    c.comm_config.rank = me->rank;
    if (me->rank == 0)
        c.export_path = run->weights;
    LK_TRY(rank_connect(me, &c.comm_config.store));
    st = lk_train(&c, &run->results[me->rank]);
    lk_store_close(c.comm_config.store);
out:
    return st;
}

static enum lk_status train(struct run *run, int n)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(n, WAIT_PLENTY_NS, run_rank, run, ranks);
    for (int r = 0; r < n; r++)
        if (ranks[r].status != LK_OK) {
            snprintf(run->text, sizeof run->text, "%s", ranks[r].text);
            return ranks[r].status;
        }
    return LK_OK;
}

static void must_train(struct run *run, int n)
{
    ck_assert_msg(train(run, n) == LK_OK, "%s", run->text);
}

static void drop(struct run *run, int n)
{
    for (int r = 0; r < n; r++)
        lk_train_result_fini(&run->results[r]);
    free(run->weights);
}

/* ---- As DDP, and as one rank ---- */

static const struct {
    int ranks, accumulation;
    size_t optimizer;
    bool gpt;
    enum lk_compression compression;
} cases[] = {{1, 1, 2, false, LK_COMPRESSION_NONE}, {2, 1, 0, false, LK_COMPRESSION_NONE},
             {2, 2, 2, true, LK_COMPRESSION_NONE},  {3, 1, 1, true, LK_COMPRESSION_BF16},
             {3, 2, 0, false, LK_COMPRESSION_FP16}, {4, 1, 2, false, LK_COMPRESSION_NONE}};

static struct run of_case(int i, int staleness, const char *weights)
{
    return (struct run){.optimizer = cases[i].optimizer,
                        .accumulation = cases[i].accumulation,
                        .gpt = cases[i].gpt,
                        .compression = cases[i].compression,
                        .staleness = staleness,
                        .weights = scratch_path(scratch_dir, weights)};
}

START_TEST(no_staleness_is_ddp)
{
    struct run late = of_case(_i, 0, "late"), plain = of_case(_i, 0, "plain");
    int n = cases[_i].ranks;

    plain.plain = true;
    must_train(&late, n);
    plain.verify = n < 3 && plain.compression == LK_COMPRESSION_NONE; /* it changes no bit */
    must_train(&plain, n);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_eq(late.results[0].loss[i], plain.results[0].loss[i]);
    scratch_same(scratch_dir, "late", "plain");
    drop(&late, n);
    drop(&plain, n);
}
END_TEST

START_TEST(ranks_are_one_rank)
{
    int n = cases[_i].ranks;
    double u = cases[_i].compression == LK_COMPRESSION_NONE ? 0 : 0x1p-8;

    for (int staleness = 1; staleness <= 3; staleness++) {
        struct run all = of_case(_i, staleness, "all"), one = of_case(_i, staleness, "one");

        one.accumulation = 1;
        must_train(&all, n);
        must_train(&one, 1);
        for (int i = 0; i < STEPS; i++)
            ck_assert_msg(fabs(all.results[0].loss[i] - one.results[0].loss[i]) <= 2e-5 + 2 * n * u,
                          "%d steps late, step %d: %.8g and %.8g", staleness, i,
                          all.results[0].loss[i], one.results[0].loss[i]);
        drop(&all, n);
        drop(&one, 1);
    }
}
END_TEST

/* ---- As a loop that keeps gradients in a list ---- */

struct loop {
    struct lk_device *device;
    struct lk_stream *compute, *net;
    struct lk_model *model;
    struct lk_comm *comm;
    struct lk_reducer *reducer;
    struct lk_dataset *dataset;
    struct lk_loader *loader;
};

static void loop_open(struct loop *l, const struct lk_train_config *c)
{
    struct lk_device_config dc = {.slowdown = 1};
    struct lk_track_info compute = {.name = "compute", .kind = LK_TRACK_COMPUTE, .stream = 1};
    struct lk_track_info net = {.name = "net", .kind = LK_TRACK_COMM, .stream = 2};
    struct lk_model_config mc = c->model;
    struct lk_reducer_config rc = c->reducer;
    struct lk_loader_config lc = {.sampler = c->sampler,
                                  .local_batch = c->local_batch,
                                  .depth = 1,
                                  .workers = 1,
                                  .accumulation = 1};

    must(lk_device_open("cpu", &dc, &l->device));
    must(lk_stream_create(l->device, &compute, &l->compute));
    must(lk_stream_create(l->device, &net, &l->net));
    mc.max_samples = c->local_batch;
    must(lk_model_create(l->device, l->compute, &mc, &l->model));
    must(lk_comm_open("self", &(struct lk_comm_config){.world_size = 1, .device = l->device},
                      &l->comm));
    rc.comm = l->comm;
    rc.compute = l->compute;
    rc.net = l->net;
    rc.staleness = 0;
    rc.timeout_ns = WAIT_PLENTY_NS;
    must(lk_reducer_create(&rc, l->model->params, l->model->n_params, &l->reducer));
    must(lk_dataset_synthetic((size_t)c->samples, &l->model->sample, l->model->vocab, c->seed,
                              &l->dataset));
    lc.sampler.ranks = 1;
    lc.sampler.seed = c->seed;
    lc.dataset = l->dataset;
    lc.compute = l->compute;
    must(lk_loader_create(l->device, &lc, &l->loader));
}

static void loop_close(struct loop *l)
{
    lk_stream_destroy(l->net);
    lk_stream_destroy(l->compute);
    lk_loader_destroy(l->loader);
    lk_dataset_destroy(l->dataset);
    lk_reducer_destroy(l->reducer);
    lk_comm_close(l->comm);
    lk_model_destroy(l->model);
    lk_device_close(l->device);
}

/* Compute the gradients of a step, into the model's parameters' grad. */
static double loop_step(struct loop *l, uint32_t step)
{
    struct lk_grad_hook hook;
    struct lk_batch batch;

    must(lk_reducer_step_begin(l->reducer, step, 1));
    must(lk_loader_next(l->loader, lk_deadline_in(WAIT_PLENTY_NS), &batch));
    must(l->model->ops->forward(l->model, &batch, 1));
    must(lk_reducer_backward_begin(l->reducer, 0));
    hook = lk_reducer_hook(l->reducer);
    must(l->model->ops->backward(l->model, &batch, 1, false, &hook));
    must(lk_reducer_backward_end(l->reducer));
    must(lk_stream_sync(l->compute, lk_deadline_in(WAIT_PLENTY_NS)));
    return (double)*(const float *)l->model->loss;
}

/* Train with plain SGD, gradients `late` steps late; all of it but the gradients is here. */
static void loop_train(const struct lk_train_config *c, int late, double *loss, float **weights)
{
    float *kept[STEPS];
    struct loop l = {0};
    size_t n = 0;

    loop_open(&l, c);
    for (size_t p = 0; p < l.model->n_params; p++)
        n += l.model->params[p].elems;
    for (int s = 0; s < STEPS; s++) {
        must(lk_alloc(&kept[s], n, sizeof(float)));
        loss[s] = loop_step(&l, (uint32_t)s);
        for (size_t p = 0, at = 0; p < l.model->n_params; p++) {
            const struct lk_param *x = &l.model->params[p];
            float *data = x->data;

            memcpy(kept[s] + at, x->grad, x->elems * sizeof(float));
            for (size_t i = 0; s >= late && i < x->elems; i++)
                data[i] -= (float)c->optim.learning_rate * kept[s - late][at + i];
            at += x->elems;
        }
    }
    must(lk_alloc(weights, n, sizeof(float)));
    for (size_t p = 0, at = 0; p < l.model->n_params; at += l.model->params[p++].elems)
        memcpy(*weights + at, l.model->params[p].data, l.model->params[p].elems * sizeof(float));
    for (int s = 0; s < STEPS; s++)
        free(kept[s]);
    loop_close(&l);
}

/* Compare a file of weights, behind its line of text, with the loop's. */
static void check_weights(const char *path, const float *want)
{
    char *text = NULL;
    size_t size, head;

    must(lk_file_read_max(path, SIZE_MAX, &text, &size));
    head = (size_t)((char *)memchr(text, '\n', size) - text) + 1;
    for (size_t i = 0; head + i * sizeof(float) < size; i++) {
        float x;

        memcpy(&x, text + head + i * sizeof x, sizeof x);
        ck_assert_msg(fabs((double)x - (double)want[i]) <= 1e-6, "element %zu: %g and %g", i,
                      (double)x, (double)want[i]);
    }
    free(text);
}

/* 0 and more steps late, on one rank and on three: the same loop. Rates that differ would show, as
 * the loss falls by more than the tolerance in each step. */
START_TEST(is_a_loop_with_a_list_of_gradients)
{
    int late = _i % 4, n = _i < 4 ? 1 : 3;
    struct run run = {
        .accumulation = 1, .staleness = late, .weights = scratch_path(scratch_dir, "weights")};
    struct lk_train_config c = config(&run, 1);
    double loss[STEPS];
    float *weights = NULL;

    loop_train(&c, late, loss, &weights);
    must_train(&run, n);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_eq_tol(run.results[0].loss[i], loss[i], 2e-6);
    check_weights(run.weights, weights);
    /* Nothing is learnt before the first gradients are due. */
    if (late) {
        struct run more = run;

        more.staleness = late - 1;
        more.weights = NULL;
        must_train(&more, n);
        ck_assert_double_gt(fabs(more.results[0].loss[STEPS - 1] - loss[STEPS - 1]), 1e-4);
        drop(&more, n);
    }
    free(weights);
    drop(&run, n);
}
END_TEST

/* ---- What else a step does ---- */

/* Gradients are those of their own step, and all ranks have the same weights after every step. */
START_TEST(every_step_is_verified)
{
    struct run run = {.optimizer = 2, .accumulation = 1 + _i, .staleness = 1 + _i, .verify = true};

    run.overlap = _i ? LK_OVERLAP_MODE_NONE : LK_OVERLAP_MODE_PARTIAL;
    must_train(&run, 2);
    ck_assert_double_le(run.results[0].verify_max_error, run.results[0].verify_allowed);
    drop(&run, 2);
    run.plant = _i ? LK_PLANT_WRONG_DIVISOR : LK_PLANT_DROPPED_BUCKET;
    ck_assert_int_ne(train(&run, 2), LK_OK);
    ck_assert_msg(strstr(run.text, "planted") != NULL, "%s", run.text);
    drop(&run, 2);
}
END_TEST

/* The gradients that are applied are the ones that are clipped. */
START_TEST(late_gradients_are_clipped)
{
    struct run all = {.accumulation = 1, .staleness = 2, .clip_norm = 0.1}, one = all, whole = all;

    whole.clip_norm = 0;
    must_train(&all, 3);
    must_train(&one, 1);
    must_train(&whole, 1);
    ck_assert_double_eq_tol(all.results[0].loss[STEPS - 1], one.results[0].loss[STEPS - 1], 1e-5);
    ck_assert_double_gt(one.results[0].loss[STEPS - 1], whole.results[0].loss[STEPS - 1] + 1e-3);
    drop(&all, 3);
    drop(&one, 1);
    drop(&whole, 1);
}
END_TEST

/* A rank whose links are slow delays the others, and changes no bit. */
START_TEST(a_slow_rank_changes_no_bit)
{
    struct run plain = {.optimizer = 2, .accumulation = 1, .staleness = 1}, slow = plain;

    slow.fault = "delay:rank=1,time=3ms";
    plain.weights = scratch_path(scratch_dir, "plain");
    slow.weights = scratch_path(scratch_dir, "slow");
    must_train(&plain, 3);
    must_train(&slow, 3);
    scratch_same(scratch_dir, "plain", "slow");
    drop(&plain, 3);
    drop(&slow, 3);
}
END_TEST

SUITE(async, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, no_staleness_is_ddp, 0, (int)LK_COUNT(cases));
    tcase_add_loop_test(t, ranks_are_one_rank, 0, (int)LK_COUNT(cases));
    tcase_add_loop_test(t, is_a_loop_with_a_list_of_gradients, 0, 8);
    tcase_add_loop_test(t, every_step_is_verified, 0, 2);
    tcase_add_test(t, late_gradients_are_clipped);
    tcase_add_test(t, a_slow_rank_changes_no_bit);
}
