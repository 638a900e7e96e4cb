/*
 * What the device cuda fuses, chosen on the fake machine with a model of time: what is faster is
 * kept, what is refused or slower is not, what is demanded and missing is an error; the trace says
 * it, and all ranks do as rank 0.
 */
#include "base/array.h"
#include "runtime/model/model.h"
#include "runtime/rendezvous/store.h"
#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdio.h>
#include <string.h>

/* The milliseconds of a step's ops, by what they do. */
static struct times {
    double product, gelu, sums; /* by themselves; sums: of a bias's gradient */
    double with_gelu, with_slope, with_sums;
    double narrow_with_sums; /* of a layer as wide as its input */
} times;

/* What the launches of a run had. */
static struct seen {
    int launches, gelu, slope, slope_with_sums, sums, gelu_with_sums, loss;
} seen;
static bool refuse_gelu, refuse_all;
static char *directory;

static bool is(const struct lk_op *op, const struct lk_op *other)
{
    return op == other;
}

static double takes_ms(const struct fake_work *w, const struct fake_stream *s)
{
    (void)s;
    if (w->kind != WORK_OP)
        return 0;
    if (is(w->op, &lk_op_matmul_forward))
        return ((const struct lk_matmul_forward_args *)w->arg)->gelu ? times.with_gelu
                                                                     : times.product;
    if (is(w->op, &lk_op_matmul_backward_input))
        return ((const struct lk_matmul_backward_input_args *)w->arg)->gelu_in ? times.with_slope
                                                                               : times.product;
    if (is(w->op, &lk_op_matmul_backward_weight)) {
        const struct lk_matmul_backward_weight_args *a = w->arg;

        if (a->epilogue && a->inputs == a->outputs)
            return times.narrow_with_sums;
        return a->epilogue ? times.with_sums : times.product + (a->dbias ? times.sums : 0);
    }
    return times.gelu;
}

/* Count the launches; refuse what cuBLASLt might. */
static enum lk_status run_op(const struct lk_op *op, const void *args, const struct lk_cuda *c)
{
    const struct lk_matmul_forward_args *forward = args;
    const struct lk_matmul_backward_input_args *input = args;
    const struct lk_matmul_backward_weight_args *weight = args;
    const struct lk_gelu_backward_args *gelu = args;
    const struct lk_cross_entropy_forward_args *loss = args;
    bool of_gelu = (is(op, &lk_op_matmul_forward) && forward->gelu) ||
                   (is(op, &lk_op_matmul_backward_input) && input->gelu_in);
    bool of_sums = is(op, &lk_op_matmul_backward_weight) && weight->dbias && weight->epilogue;

    if ((of_gelu && (refuse_gelu || refuse_all)) || (of_sums && refuse_all))
        return lk_fail(LK_EUNSUPPORTED, "cuBLASLt has no algorithm");
    seen.launches++;
    seen.gelu += is(op, &lk_op_matmul_forward) && forward->gelu;
    seen.slope += is(op, &lk_op_matmul_backward_input) && input->gelu_in;
    seen.slope_with_sums += is(op, &lk_op_matmul_backward_input) && input->dbias;
    seen.sums += of_sums;
    seen.gelu_with_sums += is(op, &lk_op_gelu_backward) && gelu->dbias;
    seen.loss += is(op, &lk_op_cross_entropy_forward) && loss->dlogits;
    return fake_cuda_calls.run_op(op, args, c);
}

static struct lk_cuda_calls calls;

static void setup(void)
{
    directory = scratch_create_for_gpus();
    fake_cuda_reset(2);
    fake_cuda.takes_ms = takes_ms;
    times = (struct times){.product = 10,
                           .gelu = 2,
                           .sums = 1,
                           .with_gelu = 11,
                           .with_slope = 11,
                           .with_sums = 10.5,
                           .narrow_with_sums = 12};
    seen = (struct seen){0};
    refuse_gelu = refuse_all = false;
    calls = fake_cuda_calls;
    calls.run_op = run_op;
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(directory);
}

/* ---- Runs ---- */

static char said[2048]; /* gpu_fusion */

static enum lk_status fact(void *sink, const char *key, const char *value)
{
    (void)sink;
    if (!strcmp(key, "gpu_fusion"))
        snprintf(said, sizeof said, "%s", value);
    return LK_OK;
}

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    (void)info;
    *out_ctx = sink;
    return LK_OK;
}

/* Run two steps of a model and keep what the trace says. */
static enum lk_status run(const char *fuse, struct lk_train_config c)
{
    static const struct lk_sink_ops sink = {
        .name = "facts", .track_open = track_open, .fact = fact};
    struct lk_train_result r = {0};
    enum lk_status st;

    said[0] = '\0';
    must(lk_fuse_parse(fuse, &c.fuse));
    c.fuse.wish[LK_FUSE_OPTIMIZER] = LK_FUSE_NO; /* tests/runtime/test_early_cuda.c */
    c.device_config.cuda_calls = &calls;
    must(lk_recorder_create(&c.recorder));
    must(lk_recorder_attach(c.recorder, &sink, said));
    st = lk_train(&c, &r);
    lk_train_result_fini(&r);
    lk_recorder_destroy(c.recorder);
    return st;
}

enum { STEPS = 2, LAYERS = 3 };

static struct lk_train_config gpt(void)
{
    return small_train("cuda", STEPS);
}

static void must_run(const char *fuse, struct lk_train_config c)
{
    ck_assert_msg(run(fuse, c) == LK_OK, "%s", lk_error_text());
}

/* Forward, backward and the update of the model, and nothing else. */
START_TEST(none_is_as_before)
{
    must_run("none", gpt());
    ck_assert_int_eq(seen.gelu + seen.slope + seen.sums + seen.gelu_with_sums + seen.loss, 0);
    ck_assert_int_eq(seen.launches, STEPS * (LAYERS * (8 + 12) + 4 + 6 + 1));
    ck_assert_str_eq(said, "none");
}
END_TEST

START_TEST(what_is_faster_is_kept)
{
    must_run("auto", gpt());
    ck_assert_str_eq(said, "loss: fused; bias of c_fc: fused; "
                           "bias of c_attn: fused, 0.955 of own's time; "
                           "bias of attn.c_proj: own, fused 1.091 of its time; "
                           "bias of mlp.c_proj: fused, 0.955 of own's time; "
                           "gelu: fused, 0.917 of own's time; "
                           "gelu's derivative: fused, 0.917 of own's time");
    /* Steps, and the turns before them. */
    ck_assert_int_ge(seen.gelu, STEPS * LAYERS);
    ck_assert_int_eq(seen.slope, seen.slope_with_sums);
    ck_assert_int_eq(seen.loss, STEPS);
}
END_TEST

START_TEST(what_is_slower_is_not_kept)
{
    times.with_gelu = 12.5;
    times.with_slope = 12.01;
    times.with_sums = 11; /* as long */
    must_run("auto", gpt());
    ck_assert_str_eq(said, "loss: fused; bias of c_fc: fused; "
                           "bias of c_attn: own, fused 1.000 of its time; "
                           "bias of attn.c_proj: own, fused 1.091 of its time; "
                           "bias of mlp.c_proj: own, fused 1.000 of its time; "
                           "gelu: own, fused 1.042 of its time; "
                           "gelu's derivative: own, fused 1.001 of its time");
    ck_assert_int_ge(seen.gelu_with_sums, STEPS * LAYERS);
}
END_TEST

START_TEST(what_is_refused_is_not_kept)
{
    refuse_all = true;
    must_run("auto", gpt());
    ck_assert_str_eq(said, "loss: fused; bias of c_fc: fused; "
                           "bias of c_attn: own, the other is refused; "
                           "bias of attn.c_proj: own, the other is refused; "
                           "bias of mlp.c_proj: own, the other is refused; "
                           "gelu: own, the other is refused; "
                           "gelu's derivative: own, the other is refused");
    ck_assert_int_eq(seen.gelu + seen.slope + seen.sums, 0);
}
END_TEST

/* A name asks for the fusion however long it takes, and for no other. */
START_TEST(names_are_demands)
{
    static const struct {
        const char *fuse;
        struct seen steps; /* of each layer and step, but for loss; launches not compared */
    } rows[] = {
        {"loss", {.loss = 1}},
        {"bias", {.sums = 3, .gelu_with_sums = 1}},
        {"gelu", {.gelu = 1, .slope = 1}},
        {"gelu,bias", {.gelu = 1, .slope = 1, .slope_with_sums = 1, .sums = 3}},
    };
    const struct seen *want = &rows[_i].steps;

    times.with_gelu = times.with_slope = times.with_sums = 1000;
    must_run(rows[_i].fuse, gpt());
    ck_assert_int_eq(seen.loss, STEPS * want->loss);
    ck_assert_int_eq(seen.gelu_with_sums, STEPS * LAYERS * want->gelu_with_sums);
    /* Each that may be refused is tried once before the first step. */
    ck_assert_int_eq(seen.gelu, STEPS * LAYERS * want->gelu + want->gelu);
    ck_assert_int_eq(seen.slope, STEPS * LAYERS * want->slope + want->slope);
    ck_assert_int_eq(seen.slope_with_sums,
                     STEPS * LAYERS * want->slope_with_sums + want->slope_with_sums);
    ck_assert_int_eq(seen.sums, STEPS * LAYERS * want->sums + want->sums);
}
END_TEST

/* Nothing of an equal run may depend on time. */
START_TEST(a_deterministic_run_measures_nothing)
{
    struct lk_train_config c = gpt();

    c.device_config.deterministic = true;
    must_run("auto", c);
    ck_assert_ptr_nonnull(strstr(said, "bias of c_fc: fused; bias of c_attn: own, a deterministic "
                                       "run chooses nothing by time; "));
    ck_assert_int_eq(seen.gelu + seen.slope + seen.sums, 0);
    ck_assert_int_eq(seen.loss, STEPS);
    must_run("gelu", c);
    ck_assert_int_gt(seen.gelu, 0);
}
END_TEST

/* Views of gradients of this width begin anywhere. */
START_TEST(an_odd_width_has_no_epilogues)
{
    struct lk_train_config c = gpt();

    c.model.heads = 3;
    c.model.channels = 45;
    must_run("auto", c);
    ck_assert_ptr_nonnull(strstr(said, "bias of c_fc: fused; bias of c_attn: own, gradients begin "
                                       "at no multiples of 16 bytes; "));
    ck_assert_int_eq(seen.gelu + seen.slope + seen.sums, 0);
    ck_assert_int_eq(run("gelu", c), LK_EUNSUPPORTED);
    ck_assert_str_eq(lk_error_text(),
                     "--fuse=gelu: gelu: gradients begin at no multiples of 16 bytes");
}
END_TEST

START_TEST(demands_that_cannot_be_met)
{
    struct lk_train_config c = gpt();

    refuse_gelu = true;
    ck_assert_int_eq(run("bias,gelu", c), LK_EUNSUPPORTED);
    ck_assert_str_eq(lk_error_text(), "--fuse=gelu: gelu: cuBLASLt has no algorithm");
    c.model = (struct lk_model_config){
        .name = "mlp", .layers = 1, .channels = 8, .context = 8, .vocab = 16, .seed = 3};
    ck_assert_int_eq(run("gelu", c), LK_EUNSUPPORTED);
    ck_assert_str_eq(lk_error_text(), "--fuse=gelu: model mlp does not fuse it");
    must_run("loss,bias", c);
    ck_assert_str_eq(said, "loss: fused; bias of the first layer: fused; bias of the last layer: "
                           "fused");
    c.device = "cpu";
    ck_assert_int_eq(run("loss", c), LK_EUNSUPPORTED);
    ck_assert_str_eq(lk_error_text(), "--fuse=loss: device cpu does not fuse it");
    must_run("auto", c);
    ck_assert_str_eq(said, "");
}
END_TEST

/* ---- Ranks ---- */

struct one {
    struct lk_device *d;
    struct lk_stream *s;
    struct lk_model *m;
    void *grads;
    struct lk_store *store;
};

static void one_open(struct one *o, int rank, int port)
{
    const struct lk_device_config dc = {.cuda_calls = &calls, .local_rank = rank};
    const struct lk_track_info info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    const struct lk_model_config mc = {
        .name = "gpt-nano", .layers = 1, .context = 8, .vocab = 16, .max_samples = 1, .seed = 3};
    size_t elems = 0;
    char *grad;

    must(lk_device_open("cuda", &dc, &o->d));
    must(lk_stream_create(o->d, &info, &o->s));
    must(lk_model_create(o->d, o->s, &mc, &o->m));
    for (size_t i = 0; i < o->m->n_params; i++)
        elems += o->m->params[i].elems;
    must(lk_device_alloc(o->d, elems * sizeof(float), &o->grads));
    grad = o->grads;
    for (size_t i = 0; i < o->m->n_params; i++) {
        o->m->params[i].grad = grad;
        grad += o->m->params[i].elems * sizeof(float);
    }
    must(lk_store_connect("127.0.0.1", port, rank, 2, WAIT_PLENTY_NS, NULL, &o->store));
}

static void one_close(struct one *o)
{
    lk_store_close(o->store);
    lk_stream_destroy(o->s);
    lk_model_destroy(o->m);
    lk_device_free(o->d, o->grads);
    lk_device_close(o->d);
}

static void choose(struct one *o, int rank)
{
    struct lk_fuse_config c = {
        .rank = rank, .ranks = 2, .store = o->store, .timeout_ns = WAIT_PLENTY_NS};

    must(lk_fuse_parse("auto", &c.fuse));
    must(lk_fuse_choose(o->m, &c));
}

/* Rank 1's GPU would choose otherwise: its bits have to be rank 0's. */
START_TEST(ranks_do_as_rank_0)
{
    struct lk_store_server *server = NULL;
    struct one ranks[2];
    int launches;

    must(lk_store_serve("127.0.0.1", 0, 2, NULL, &server));
    for (int i = 0; i < 2; i++)
        one_open(&ranks[i], i, lk_store_server_port(server));
    choose(&ranks[0], 0);
    times.with_gelu = times.with_sums = 100;
    times.narrow_with_sums = 1;
    launches = seen.launches;
    choose(&ranks[1], 1);
    ck_assert_int_eq(seen.launches, launches);
    for (size_t i = 0; i < ranks[0].m->n_fusions; i++)
        ck_assert_int_eq(ranks[0].m->fusions[i].used, ranks[1].m->fusions[i].used);
    ck_assert(ranks[1].m->fusions[5].used); /* gelu */
    for (int i = 0; i < 2; i++)
        one_close(&ranks[i]);
    lk_store_server_stop(server, WAIT_PLENTY_NS);
}
END_TEST

SUITE(fuse_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, none_is_as_before);
    tcase_add_test(tc, what_is_faster_is_kept);
    tcase_add_test(tc, what_is_slower_is_not_kept);
    tcase_add_test(tc, what_is_refused_is_not_kept);
    tcase_add_loop_test(tc, names_are_demands, 0, 4);
    tcase_add_test(tc, a_deterministic_run_measures_nothing);
    tcase_add_test(tc, an_odd_width_has_no_epilogues);
    tcase_add_test(tc, demands_that_cannot_be_met);
    tcase_add_test(tc, ranks_do_as_rank_0);
}
