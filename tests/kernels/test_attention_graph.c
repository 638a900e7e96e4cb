/* The graphs of attention, interpreted, against the definition (kernels/reference.c). */
#include "base/array.h"
#include "base/rng.h"
#include "kernels/attention_graph.h"
#include "kernels/ops.h"
#include "tests/rigs/graph_run.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Heads of 16 and 64 channels: their scale, 1/4 and 1/8, is exact in float. */
static const struct lk_attention_shape shapes[] = {
    {1, 1, 16, 1}, {2, 7, 48, 3}, {1, 16, 64, 1}, {3, 5, 128, 2}};

struct buffers {
    double *qkv, *out, *probs, *log_sum, *dout, *dqkv, *scratch, *delta, *dq_sum;
    size_t rows, channels;
};

static double *numbers(struct lk_rng *g, size_t n)
{
    double *p = NULL;

    ck_assert_int_eq(lk_alloc(&p, n, sizeof *p), LK_OK);
    for (size_t i = 0; g && i < n; i++)
        p[i] = 2 * lk_rng_uniform(g) - 1;
    return p;
}

static struct buffers make_buffers(const struct lk_attention_shape *s)
{
    struct lk_rng g = lk_rng_init(5, s->context);
    size_t rows = s->samples * s->context, lines = rows * s->heads;

    return (struct buffers){.qkv = numbers(&g, rows * 3 * s->channels),
                            .out = numbers(NULL, rows * s->channels),
                            .probs = numbers(NULL, lines * s->context),
                            .log_sum = numbers(NULL, lines),
                            .dout = numbers(&g, rows * s->channels),
                            .dqkv = numbers(&g, rows * 3 * s->channels),
                            .scratch = numbers(NULL, s->context * s->context),
                            .delta = numbers(NULL, lines),
                            .dq_sum = numbers(NULL, rows * s->channels),
                            .rows = rows,
                            .channels = s->channels};
}

static void free_buffers(struct buffers *b)
{
    free(b->qkv);
    free(b->out);
    free(b->probs);
    free(b->log_sum);
    free(b->dout);
    free(b->dqkv);
    free(b->scratch);
    free(b->delta);
    free(b->dq_sum);
}

static void run_graph(const struct lk_attention_graph *g, const struct buffers *b)
{
    void *const of[LK_AT_PLACES] = {
        [LK_AT_Q] = b->qkv,
        [LK_AT_K] = b->qkv + b->channels,
        [LK_AT_V] = b->qkv + 2 * b->channels,
        [LK_AT_OUT] = b->out,
        [LK_AT_LOG_SUM] = b->log_sum,
        [LK_AT_DOUT] = b->dout,
        [LK_AT_DQ] = b->dqkv,
        [LK_AT_DK] = b->dqkv + b->channels,
        [LK_AT_DV] = b->dqkv + 2 * b->channels,
        [LK_AT_DELTA] = b->delta,
        [LK_AT_DQ_SUM] = b->dq_sum,
    };
    void *at[LK_ATTENTION_TENSORS_MAX];

    graph_places(g, of, at);
    graph_run(g, GRAPH_EXACT, at);
}

static void reference_forward(const struct lk_attention_shape *s, const struct buffers *b)
{
    const struct lk_attention_forward_args args = {.out = b->out,
                                                   .probs = b->probs,
                                                   .qkv = b->qkv,
                                                   .samples = s->samples,
                                                   .context = s->context,
                                                   .channels = s->channels,
                                                   .heads = s->heads};

    lk_op_attention_forward.ref(&args);
}

static void reference_backward(const struct lk_attention_shape *s, const struct buffers *b)
{
    const struct lk_attention_backward_args args = {.dqkv = b->dqkv,
                                                    .scratch = b->scratch,
                                                    .dout = b->dout,
                                                    .qkv = b->qkv,
                                                    .out = b->out,
                                                    .probs = b->probs,
                                                    .samples = s->samples,
                                                    .context = s->context,
                                                    .channels = s->channels,
                                                    .heads = s->heads};

    lk_op_attention_backward.ref(&args);
}

static void assert_near(const double *got, const double *want, size_t n)
{
    double worst = 0;

    for (size_t i = 0; i < n; i++)
        worst = fabs(got[i] - want[i]) <= worst ? worst : fabs(got[i] - want[i]);
    ck_assert_double_le(worst, 1e-12);
}

/* A row's log_sum is that of its products with the keys up to its own; key 0 is one of them, and
 * its probability is exp(product - log_sum). */
static void check_log_sums(const struct lk_attention_shape *s, const struct buffers *b)
{
    size_t width = s->channels / s->heads;

    for (size_t i = 0; i < b->rows * s->heads; i++) {
        size_t t = i % s->context, head = i / s->context % s->heads;
        const double *sample = b->qkv + i / s->context / s->heads * s->context * 3 * s->channels;
        const double *q = sample + t * 3 * s->channels + head * width;
        const double *k = sample + s->channels + head * width;
        double product = 0;

        for (size_t c = 0; c < width; c++)
            product += q[c] * k[c] / sqrt((double)width);
        ck_assert_double_eq_tol(b->log_sum[i], product - log(b->probs[i * s->context]), 1e-12);
    }
}

START_TEST(forward_is_the_definition)
{
    const struct lk_attention_shape *s = &shapes[_i];
    struct buffers got = make_buffers(s), want = make_buffers(s);
    struct lk_attention_graph g;

    lk_attention_graph_forward(s, &g);
    run_graph(&g, &got);
    reference_forward(s, &want);
    assert_near(got.out, want.out, got.rows * s->channels);
    memcpy(want.log_sum, got.log_sum, got.rows * s->heads * sizeof *got.log_sum);
    check_log_sums(s, &want);
    free_buffers(&got);
    free_buffers(&want);
}
END_TEST

/* Both ways of dq. */
START_TEST(backward_is_the_definition)
{
    const struct lk_attention_shape *s = &shapes[_i / 2];
    struct buffers got = make_buffers(s), want = make_buffers(s);
    struct lk_attention_graph g;

    lk_attention_graph_forward(s, &g);
    run_graph(&g, &got);
    lk_attention_graph_backward(s, _i % 2, &g);
    run_graph(&g, &got);
    reference_forward(s, &want);
    reference_backward(s, &want);
    assert_near(got.dqkv, want.dqkv, got.rows * 3 * s->channels);
    free_buffers(&got);
    free_buffers(&want);
}
END_TEST

SUITE(attention_graph, tc)
{
    tcase_add_loop_test(tc, forward_is_the_definition, 0, LK_COUNT(shapes));
    tcase_add_loop_test(tc, backward_is_the_definition, 0, 2 * LK_COUNT(shapes));
}
