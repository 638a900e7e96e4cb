/* Attention by cuDNN: who runs it, and what cuDNN is given, by the fake
 * (tests/fakes/fake_cudnn_cuda.h), which runs it. */
#include "kernels/dnn.h"
#include "tests/rigs/suite.h"

#ifndef LK_HAVE_CUDNN

START_TEST(a_build_without_cudnn_says_so)
{
    const struct lk_attention_shape s = {1, 128, 64, 1};
    char text[LK_ATTENTION_TEXT];
    struct lk_cuda_dnn *d = NULL;
    bool taken = true;

    ck_assert_int_eq(lk_cuda_dnn_open(LK_ATTENTION_AUTO, false, &d), LK_OK);
    ck_assert_int_eq(lk_cuda_dnn_choose(d, LK_BF16, &s, &taken, text), LK_OK);
    ck_assert(!taken);
    ck_assert_str_eq(text, "own: built without cuDNN's headers");
    lk_cuda_dnn_close(d);
    ck_assert_int_eq(lk_cuda_dnn_open(LK_ATTENTION_CUDNN, false, &d), LK_OK);
    ck_assert_int_eq(lk_cuda_dnn_choose(d, LK_BF16, &s, &taken, text), LK_EUNSUPPORTED);
    lk_cuda_dnn_close(d);
}
END_TEST

SUITE(dnn_cuda, tc)
{
    tcase_add_test(tc, a_build_without_cudnn_says_so);
}

#else

#include "base/array.h"
#include "base/rng.h"
#include "tests/fakes/fake_cudnn_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_attention_shape small = {2, 128, 128, 2};
static int streams[2];
static struct lk_cuda cuda;

static enum lk_status open_fake(enum lk_attention by, bool deterministic, int major)
{
    const struct lk_dnn_target target = {.major = major};

    cuda = (struct lk_cuda){.stream = &streams[0], .real = LK_BF16};
    return lk_cuda_dnn_open_calls(&fake_cudnn_calls, &target, by, deterministic, &cuda.dnn);
}

static void setup(void)
{
    fake_cudnn_reset();
    ck_assert_int_eq(open_fake(LK_ATTENTION_AUTO, false, 9), LK_OK);
}

static void teardown(void)
{
    lk_cuda_dnn_close(cuda.dnn);
    ck_assert_int_eq(fake_cudnn.alive, 0);
}

/* ---- The choice ---- */

static const struct {
    enum lk_dtype real;
    struct lk_attention_shape shape;
    bool deterministic;
    int major;
    size_t version;
    const char *text;
} choices[] = {
    {LK_BF16, {2, 128, 128, 2}, false, 9, 91900, "cudnn 9.19.0"},
    {LK_BF16, {2, 128, 128, 1}, true, 9, 91002, "cudnn 9.10.2"},
    {LK_BF16, {2, 128, 128, 2}, false, 8, 91900, "cudnn 9.19.0"},
    {LK_F32,
     {2, 128, 128, 2},
     false,
     9,
     91900,
     "own: cuDNN's attention is for bfloat16, not float32"},
    {LK_BF16,
     {2, 128, 96, 2},
     false,
     9,
     91900,
     "own: cuDNN's attention is for heads of 64 or 128 channels, not 48"},
    {LK_BF16,
     {2, 100, 128, 2},
     false,
     9,
     91900,
     "own: cuDNN's attention is for contexts of multiples of 128, not 100"},
    {LK_BF16,
     {2, 128, 128, 2},
     true,
     10,
     91900,
     "own: cuDNN's deterministic attention is for compute capability 9.x, not 10.x"},
    {LK_BF16, {2, 128, 128, 2}, false, 9, 91001, "own: cuDNN 9.10.1 is older than 9.10.2"},
};

/* What is not cuDNN's turn is an error where it must be. */
START_TEST(the_shape_decides_who_runs_it)
{
    bool taken = false, own = !strncmp(choices[_i].text, "own", 3);
    char text[LK_ATTENTION_TEXT];

    for (int must = 0; must < 2; must++) {
        lk_cuda_dnn_close(cuda.dnn);
        fake_cudnn.version = choices[_i].version;
        ck_assert_int_eq(open_fake(must ? LK_ATTENTION_CUDNN : LK_ATTENTION_AUTO,
                                   choices[_i].deterministic, choices[_i].major),
                         LK_OK);
        ck_assert_int_eq(
            lk_cuda_dnn_choose(cuda.dnn, choices[_i].real, &choices[_i].shape, &taken, text),
            must && own ? LK_EUNSUPPORTED : LK_OK);
        if (must && own) {
            ck_assert_str_eq(lk_error_text(), choices[_i].text + strlen("own: "));
            continue;
        }
        ck_assert_int_eq(taken, !own);
        ck_assert_str_eq(text, choices[_i].text);
    }
    ck_assert_int_eq(fake_cudnn.plans, own ? 0 : 4); /* both, in both rounds */
}
END_TEST

/* A run that is only described has no plans made for it. */
START_TEST(asking_makes_no_plan)
{
    char text[LK_ATTENTION_TEXT];
    int alive;

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(lk_cuda_dnn_ask(cuda.dnn, LK_BF16, &small, text), LK_OK);
        ck_assert_str_eq(text, "cudnn 9.19.0");
        alive = i ? alive : fake_cudnn.alive;
        ck_assert_int_eq(fake_cudnn.alive, alive);
    }
    fake_cudnn.fail_at = fake_cudnn.calls + 9;
    fake_cudnn.fail_with = CUDNN_STATUS_INTERNAL_ERROR;
    ck_assert_int_eq(lk_cuda_dnn_ask(cuda.dnn, LK_BF16, &small, text), LK_OK);
    ck_assert_int_eq(strncmp(text, "own: cuDNN: ", 12), 0);
    ck_assert_int_eq(lk_cuda_dnn_ask(cuda.dnn, LK_F32, &small, text), LK_OK);
    ck_assert_str_eq(text, "own: cuDNN's attention is for bfloat16, not float32");
    ck_assert_int_eq(fake_cudnn.plans, 0);
}
END_TEST

/* How a plan fails that the heuristic named: by the n-th engine's refusal of either graph, or by an
 * error of the library's. */
static const struct {
    int engines_that_fail, plans_before;
    cudnnStatus_t with;
    enum lk_status st;
    const char *says;
} failing_plans[] = {
    {9, 0, CUDNN_STATUS_NOT_SUPPORTED_SHAPE, LK_EUNSUPPORTED, "engine 2 does not take it"},
    {9, 1, CUDNN_STATUS_NOT_SUPPORTED_SHAPE, LK_EUNSUPPORTED, "engine 2 does not take it"},
    {9, 0, CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED, LK_EINTERNAL,
     "engine 2 does not take it"},
    {9, 1, CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER, LK_EINTERNAL, "engine 2 does not take it"},
};

/* A plan that cannot be made is found out when the model is made, and attention is our own, with
 * the reason; where cuDNN was demanded that is an error. Either way nothing is left of it. */
START_TEST(a_plan_that_fails_is_found_before_the_run)
{
    struct lk_attention_forward_args args = {
        .samples = small.samples, .context = small.context, .channels = 128, .heads = 2};
    char text[LK_ATTENTION_TEXT];
    bool taken = true;

    fake_cudnn.engines_that_fail = failing_plans[_i].engines_that_fail;
    fake_cudnn.plans_before = failing_plans[_i].plans_before;
    fake_cudnn.plans_fail_with = failing_plans[_i].with;
    ck_assert_int_eq(lk_cuda_dnn_choose(cuda.dnn, LK_BF16, &small, &taken, text), LK_OK);
    ck_assert(!taken);
    ck_assert_int_eq(strncmp(text, "own: cuDNN: a plan: ", 20), 0);
    ck_assert_msg(strstr(text, failing_plans[_i].says) != NULL, "%s", text);
    ck_assert_int_eq(fake_cudnn.alive, 1); /* the handle */
    /* Decided once: no kernels are changed in mid-run. */
    fake_cudnn.engines_that_fail = 0;
    taken = true;
    ck_assert_int_eq(lk_cuda_dnn_forward(&cuda, &args, &taken), LK_OK);
    ck_assert(!taken);

    lk_cuda_dnn_close(cuda.dnn);
    fake_cudnn.engines_that_fail = failing_plans[_i].engines_that_fail;
    fake_cudnn.plans = 0;
    ck_assert_int_eq(open_fake(LK_ATTENTION_CUDNN, false, 9), LK_OK);
    ck_assert_int_eq(lk_cuda_dnn_choose(cuda.dnn, LK_BF16, &small, &taken, text),
                     failing_plans[_i].st);
    ck_assert_msg(strstr(lk_error_text(), failing_plans[_i].says) != NULL, "%s", lk_error_text());
}
END_TEST

START_TEST(without_an_engine_it_is_our_own)
{
    char text[LK_ATTENTION_TEXT];
    bool taken = true;

    fake_cudnn.no_engine = true;
    ck_assert_int_eq(lk_cuda_dnn_choose(cuda.dnn, LK_BF16, &small, &taken, text), LK_OK);
    ck_assert(!taken);
    ck_assert_str_eq(text, "own: cuDNN: no engine for attention");
    /* Decided once: an engine that turns up later changes nothing. */
    fake_cudnn.no_engine = false;
    ck_assert_int_eq(lk_cuda_dnn_choose(cuda.dnn, LK_BF16, &small, &taken, text), LK_OK);
    ck_assert(!taken);
}
END_TEST

START_TEST(nothing_to_do_asks_nobody)
{
    struct lk_attention_forward_args none = {.context = 128, .channels = 128, .heads = 2};
    bool taken = true;

    ck_assert_int_eq(lk_cuda_dnn_forward(&cuda, &none, &taken), LK_OK);
    ck_assert(!taken);
    ck_assert_int_eq(fake_cudnn.calls, 0);
}
END_TEST

/* ---- Execution ---- */

/* bfloat16 buffers, and the reference's doubles of the same values. */
struct pair {
    uint16_t *real;
    double *exact;
    size_t n;
};

struct buffers {
    struct pair qkv, out, dout, dqkv;
    float *log_sum;
    double *probs, *scratch;
};

static void *room(size_t n, size_t size)
{
    void *p = aligned_alloc(256, (n * size + 511) / 256 * 256);

    ck_assert_ptr_nonnull(p);
    memset(p, 0x7f, n * size);
    return p;
}

static struct pair make_pair(struct lk_rng *g, size_t n)
{
    struct pair p = {.real = room(n, sizeof *p.real), .exact = room(n, sizeof *p.exact), .n = n};

    for (size_t i = 0; g && i < n; i++) {
        p.real[i] = lk_bf16_from_f32((float)(2 * lk_rng_uniform(g) - 1));
        p.exact[i] = (double)lk_f32_from_bf16(p.real[i]);
    }
    return p;
}

static struct buffers make_buffers(const struct lk_attention_shape *s)
{
    struct lk_rng g = lk_rng_init(9, s->context);
    size_t rows = s->samples * s->context;

    return (struct buffers){.qkv = make_pair(&g, rows * 3 * s->channels),
                            .out = make_pair(NULL, rows * s->channels),
                            .dout = make_pair(&g, rows * s->channels),
                            .dqkv = make_pair(NULL, rows * 3 * s->channels),
                            .log_sum = room(rows * s->heads, sizeof(float)),
                            .probs = room(rows * s->heads * s->context, sizeof(double)),
                            .scratch = room(s->context * s->context, sizeof(double))};
}

static void free_buffers(struct buffers *b)
{
    struct pair *pairs[] = {&b->qkv, &b->out, &b->dout, &b->dqkv};

    for (size_t i = 0; i < LK_COUNT(pairs); i++) {
        free(pairs[i]->real);
        free(pairs[i]->exact);
    }
    free(b->log_sum);
    free(b->probs);
    free(b->scratch);
}

static struct lk_attention_forward_args forward_args(const struct lk_attention_shape *s,
                                                     const struct buffers *b, bool exact)
{
    return (struct lk_attention_forward_args){.out = exact ? (void *)b->out.exact : b->out.real,
                                              .probs = b->probs,
                                              .log_sum = b->log_sum,
                                              .qkv = exact ? (void *)b->qkv.exact : b->qkv.real,
                                              .samples = s->samples,
                                              .context = s->context,
                                              .channels = s->channels,
                                              .heads = s->heads};
}

static struct lk_attention_backward_args backward_args(const struct lk_attention_shape *s,
                                                       const struct buffers *b, bool exact)
{
    return (struct lk_attention_backward_args){.dqkv = exact ? (void *)b->dqkv.exact : b->dqkv.real,
                                               .scratch = b->scratch,
                                               .dout = exact ? (void *)b->dout.exact : b->dout.real,
                                               .qkv = exact ? (void *)b->qkv.exact : b->qkv.real,
                                               .out = exact ? (void *)b->out.exact : b->out.real,
                                               .probs = b->probs,
                                               .log_sum = b->log_sum,
                                               .samples = s->samples,
                                               .context = s->context,
                                               .channels = s->channels,
                                               .heads = s->heads};
}

/* The bound: three roundings to bfloat16 (2^-9 each) of numbers that are sums of few large ones. */
static void assert_near(const struct pair *p)
{
    double most = 0, worst = 0;

    for (size_t i = 0; i < p->n; i++) {
        double error = fabs((double)lk_f32_from_bf16(p->real[i]) - p->exact[i]);

        most = fmax(most, fabs(p->exact[i]));
        worst = error <= worst ? worst : error; /* a NaN is the worst */
    }
    ck_assert_double_le(worst, most * 0x3p-9);
}

static void step(const struct lk_attention_shape *s, const struct buffers *b)
{
    struct lk_attention_forward_args forward = forward_args(s, b, false);
    struct lk_attention_backward_args backward = backward_args(s, b, false);
    bool taken = false;

    ck_assert_msg(lk_cuda_dnn_forward(&cuda, &forward, &taken) == LK_OK, "%s", lk_error_text());
    ck_assert(taken);
    ck_assert_msg(lk_cuda_dnn_backward(&cuda, &backward, &taken) == LK_OK, "%s", lk_error_text());
    ck_assert(taken);
}

START_TEST(cudnn_is_given_the_definition)
{
    static const struct lk_attention_shape shapes[] = {{2, 128, 128, 2}, {1, 256, 128, 1}};
    const struct lk_attention_shape *s = &shapes[_i / 2];
    struct buffers b = make_buffers(s);
    struct lk_attention_forward_args forward = forward_args(s, &b, true);
    struct lk_attention_backward_args backward = backward_args(s, &b, true);

    lk_cuda_dnn_close(cuda.dnn);
    ck_assert_int_eq(open_fake(LK_ATTENTION_CUDNN, _i % 2, 9), LK_OK);
    step(s, &b);
    lk_op_attention_forward.ref(&forward);
    lk_op_attention_backward.ref(&backward);
    assert_near(&b.out);
    assert_near(&b.dqkv);
    free_buffers(&b);
}
END_TEST

START_TEST(plans_are_made_once)
{
    struct buffers b = make_buffers(&small);
    char text[LK_ATTENTION_TEXT];
    bool taken;
    int alive;

    ck_assert_int_eq(lk_cuda_dnn_choose(cuda.dnn, LK_BF16, &small, &taken, text), LK_OK);
    ck_assert_int_eq(fake_cudnn.plans, 2);
    step(&small, &b);
    alive = fake_cudnn.alive;
    step(&small, &b);
    ck_assert_int_eq(fake_cudnn.plans, 2);
    ck_assert_int_eq(fake_cudnn.runs, 4);
    ck_assert_int_eq(fake_cudnn.alive, alive);
    free_buffers(&b);
}
END_TEST

/* Streams run at once, so each has a workspace of its own. */
START_TEST(each_stream_has_a_workspace)
{
    struct buffers b = make_buffers(&small);
    int alive;

    step(&small, &b);
    ck_assert_ptr_eq(fake_cudnn.stream, (cudaStream_t)&streams[0]);
    alive = fake_cudnn.alive;
    cuda.stream = &streams[1];
    step(&small, &b);
    ck_assert_ptr_eq(fake_cudnn.stream, (cudaStream_t)&streams[1]);
    ck_assert_int_gt(fake_cudnn.alive, alive);
    alive = fake_cudnn.alive;
    cuda.stream = &streams[0];
    step(&small, &b);
    ck_assert_int_eq(fake_cudnn.alive, alive);
    free_buffers(&b);
}
END_TEST

START_TEST(the_next_engine_is_taken)
{
    struct buffers b = make_buffers(&small);

    fake_cudnn.engines_that_fail = 1;
    step(&small, &b);
    ck_assert_int_eq(fake_cudnn.engine, 2);
    free_buffers(&b);
}
END_TEST

START_TEST(no_memory_is_an_error)
{
    struct buffers b = make_buffers(&small);
    struct lk_attention_forward_args args = forward_args(&small, &b, false);
    bool taken;

    fake_cudnn.no_memory = true;
    ck_assert_int_eq(lk_cuda_dnn_forward(&cuda, &args, &taken), LK_ENOMEM);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "bytes: workspace of cuDNN's attention"));
    free_buffers(&b);
}
END_TEST

START_TEST(addresses_are_checked)
{
    struct buffers b = make_buffers(&small);
    struct lk_attention_forward_args args = forward_args(&small, &b, false);
    bool taken;

    args.out = b.out.real + 1;
    ck_assert_int_eq(lk_cuda_dnn_forward(&cuda, &args, &taken), LK_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "not aligned to 16 bytes"));
    free_buffers(&b);
}
END_TEST

/* Whatever call fails: an error with its text, unless the next engine made the plan, and nothing is
 * left behind (teardown). */
START_TEST(each_call_may_fail)
{
    struct buffers b = make_buffers(&small);
    struct lk_attention_backward_args args = backward_args(&small, &b, false);
    int n = 0, by_the_next = 0;

    lk_cuda_dnn_close(cuda.dnn);
    do {
        enum lk_status st;
        bool taken;

        fake_cudnn_reset();
        fake_cudnn.fail_at = ++n;
        fake_cudnn.fail_with = n % 2 ? CUDNN_STATUS_INTERNAL_ERROR : CUDNN_STATUS_ALLOC_FAILED;
        ck_assert_int_eq(open_fake(LK_ATTENTION_CUDNN, false, 9), LK_OK);
        memset(b.log_sum, 0, small.samples * small.heads * small.context * sizeof *b.log_sum);
        memset(b.out.real, 0, b.out.n * sizeof *b.out.real);
        st = lk_cuda_dnn_backward(&cuda, &args, &taken);
        if (st != LK_OK) {
            char want[40];

            ck_assert_int_eq(st, n == 1 ? LK_EUNSUPPORTED : n % 2 ? LK_EINTERNAL : LK_ENOMEM);
            (void)snprintf(want, sizeof want, "call %d was to fail", n);
            ck_assert_msg(strstr(lk_error_text(), want) != NULL, "%s", lk_error_text());
        }
        by_the_next += st == LK_OK && fake_cudnn.why[0];
        if (fake_cudnn.calls >= n)
            lk_cuda_dnn_close(cuda.dnn);
        ck_assert(fake_cudnn.calls < n || fake_cudnn.alive == 0);
    } while (fake_cudnn.calls >= n);
    ck_assert_int_gt(n, 300);
    /* Of each plan: its descriptor, two attributes, its finish, the size of its workspace. */
    ck_assert_int_eq(by_the_next, 2 * 5);
    free_buffers(&b);
}
END_TEST

SUITE(dnn_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, the_shape_decides_who_runs_it, 0, LK_COUNT(choices));
    tcase_add_test(tc, without_an_engine_it_is_our_own);
    tcase_add_test(tc, asking_makes_no_plan);
    tcase_add_loop_test(tc, a_plan_that_fails_is_found_before_the_run, 0, LK_COUNT(failing_plans));
    tcase_add_test(tc, nothing_to_do_asks_nobody);
    tcase_add_loop_test(tc, cudnn_is_given_the_definition, 0, 4);
    tcase_add_test(tc, plans_are_made_once);
    tcase_add_test(tc, each_stream_has_a_workspace);
    tcase_add_test(tc, the_next_engine_is_taken);
    tcase_add_test(tc, no_memory_is_an_error);
    tcase_add_test(tc, addresses_are_checked);
    tcase_add_test(tc, each_call_may_fail);
}

#endif
