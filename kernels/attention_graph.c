/*
 * Describe attention as a graph.
 *
 * cuDNN runs a fused kernel where it recognises the pattern. These are the patterns that NVIDIA's
 * cudnn-frontend makes of its nodes SDPA and SDPA_backward with a causal mask and no dropout
 * (include/cudnn_frontend/node/scaled_dot_product_flash_attention.h, softmax.h and
 * diagonal_band_mask.h there), for versions of cuDNN without a node of their own for it. The order
 * of nodes counts, also of those that could stand elsewhere.
 */
#include "kernels/attention_graph.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Extents of tensors: B samples, H heads, T positions, D channels of a head. */
enum layout {
    OF_QKV,        /* (B, H, T, D) within qkv */
    OF_QKV_TURNED, /* (B, H, D, T), the same memory */
    OF_OUT,        /* (B, H, T, D) within out: heads side by side */
    DENSE,         /* (B, H, T, D) */
    SCORES,        /* (B, H, T, T) */
    SCORES_TURNED, /* the same, by columns */
    ROWS,          /* (B, H, T, 1) */
    ONE            /* (1, 1, 1, 1) */
};

enum { NONE = -1 };

struct builder {
    struct lk_attention_graph *g;
    int64_t samples, heads, context, width;
};

static struct builder begin(const struct lk_attention_shape *s, struct lk_attention_graph *g)
{
    memset(g, 0, sizeof *g);
    return (struct builder){.g = g,
                            .samples = (int64_t)s->samples,
                            .heads = (int64_t)s->heads,
                            .context = (int64_t)s->context,
                            .width = (int64_t)(s->channels / s->heads)};
}

static void lay(const struct builder *b, enum layout layout, struct lk_attention_tensor *t)
{
    int64_t h = b->heads, n = b->context, d = b->width;
    const struct {
        int64_t extent[4], stride[4];
    } layouts[] = {
        [OF_QKV] = {{b->samples, h, n, d}, {3 * h * d * n, d, 3 * h * d, 1}},
        [OF_QKV_TURNED] = {{b->samples, h, d, n}, {3 * h * d * n, d, 1, 3 * h * d}},
        [OF_OUT] = {{b->samples, h, n, d}, {h * d * n, d, h * d, 1}},
        [DENSE] = {{b->samples, h, n, d}, {h * n * d, n * d, d, 1}},
        [SCORES] = {{b->samples, h, n, n}, {h * n * n, n * n, n, 1}},
        [SCORES_TURNED] = {{b->samples, h, n, n}, {h * n * n, n * n, 1, n}},
        [ROWS] = {{b->samples, h, n, 1}, {h * n, n, 1, 1}},
        [ONE] = {{1, 1, 1, 1}, {1, 1, 1, 1}},
    };

    memcpy(t->extent, layouts[layout].extent, sizeof t->extent);
    memcpy(t->stride, layouts[layout].stride, sizeof t->stride);
}

static int tensor(struct builder *b, enum layout layout, enum lk_attention_type type,
                  enum lk_attention_place place)
{
    struct lk_attention_tensor *t = &b->g->tensors[b->g->n_tensors];

    assert(b->g->n_tensors < LK_ATTENTION_TENSORS_MAX);
    *t = (struct lk_attention_tensor){.type = type, .place = place};
    lay(b, layout, t);
    return (int)b->g->n_tensors++;
}

static int memory(struct builder *b, enum layout layout, enum lk_attention_place place)
{
    return tensor(b, layout, LK_TYPE_REAL, place);
}

static int scalar(struct builder *b, float value)
{
    int t = tensor(b, ONE, LK_TYPE_FLOAT, LK_AT_SCALAR);

    b->g->tensors[t].value = value;
    return t;
}

/* Add a node whose result is a tensor that is there. */
static void store(struct builder *b, enum lk_attention_kind kind, int x, int y, int out)
{
    assert(b->g->n_nodes < LK_ATTENTION_NODES_MAX);
    b->g->nodes[b->g->n_nodes++] = (struct lk_attention_node){kind, x, y, NONE, out};
}

/* Add a node with a result of its own, in float. */
static int node(struct builder *b, enum lk_attention_kind kind, enum layout layout, int x, int y)
{
    int out = tensor(b, layout, LK_TYPE_FLOAT, LK_AT_VIRTUAL);

    store(b, kind, x, y, out);
    return out;
}

static int typed(struct builder *b, enum lk_attention_kind kind, enum layout layout,
                 enum lk_attention_type type, int x, int y)
{
    int out = node(b, kind, layout, x, y);

    b->g->tensors[out].type = type;
    return out;
}

/* Add the causal mask: a query sees the keys up to its own position. */
static int masked(struct builder *b, int scores)
{
    int row = typed(b, LK_NODE_ROW, SCORES, LK_TYPE_INDEX, scores, NONE);
    int column = typed(b, LK_NODE_COLUMN, SCORES, LK_TYPE_INDEX, scores, NONE);
    int sees = typed(b, LK_NODE_GE, SCORES, LK_TYPE_TRUTH, row, column);
    int out = node(b, LK_NODE_SELECT, SCORES, scores, scalar(b, -INFINITY));

    b->g->nodes[b->g->n_nodes - 1].c = sees;
    return out;
}

static float scale_of(const struct builder *b)
{
    return 1 / sqrtf((float)b->width);
}

void lk_attention_graph_forward(const struct lk_attention_shape *shape,
                                struct lk_attention_graph *out)
{
    struct builder of = begin(shape, out), *b = &of;
    int q = memory(b, OF_QKV, LK_AT_Q), k = memory(b, OF_QKV_TURNED, LK_AT_K);
    int v = memory(b, OF_QKV, LK_AT_V), to = memory(b, OF_OUT, LK_AT_OUT);
    int log_sum = tensor(b, ROWS, LK_TYPE_FLOAT, LK_AT_LOG_SUM);
    int products = node(b, LK_NODE_MATMUL, SCORES, q, k);
    int scaled = node(b, LK_NODE_MUL, SCORES, products, scalar(b, scale_of(b)));
    int scores = masked(b, scaled);
    int largest = node(b, LK_NODE_MAX, ROWS, scores, NONE);
    int shifted = node(b, LK_NODE_SUB, SCORES, scores, largest);
    int powers = node(b, LK_NODE_EXP, SCORES, shifted, NONE);
    int sum = node(b, LK_NODE_SUM, ROWS, powers, NONE);
    int logarithm = node(b, LK_NODE_LOG, ROWS, sum, NONE);
    int probs;

    store(b, LK_NODE_ADD, largest, logarithm, log_sum);
    probs = typed(b, LK_NODE_DIV, SCORES, LK_TYPE_REAL, powers, sum);
    store(b, LK_NODE_MATMUL, probs, v, to);
}

/* Add delta, the sums over a row of dout * out. The factor 1 is that of dropout. */
static int row_sums(struct builder *b, int dout, int from)
{
    int products = node(b, LK_NODE_MUL, DENSE, dout, from);
    int sums = node(b, LK_NODE_SUM, ROWS, products, NONE);
    int delta = tensor(b, ROWS, LK_TYPE_FLOAT, LK_AT_DELTA);

    store(b, LK_NODE_MUL, sums, scalar(b, 1), delta);
    return delta;
}

void lk_attention_graph_backward(const struct lk_attention_shape *shape, bool deterministic,
                                 struct lk_attention_graph *out)
{
    struct builder of = begin(shape, out), *b = &of;
    int q = memory(b, OF_QKV, LK_AT_Q), k = memory(b, OF_QKV_TURNED, LK_AT_K);
    int v = memory(b, OF_QKV_TURNED, LK_AT_V), from = memory(b, OF_OUT, LK_AT_OUT);
    int dout = memory(b, OF_OUT, LK_AT_DOUT), dq = memory(b, OF_QKV, LK_AT_DQ);
    int dk = memory(b, OF_QKV, LK_AT_DK), dv = memory(b, OF_QKV, LK_AT_DV);
    int log_sum = tensor(b, ROWS, LK_TYPE_FLOAT, LK_AT_LOG_SUM);
    int scale = scalar(b, scale_of(b)), delta = row_sums(b, dout, from);
    int products = node(b, LK_NODE_MATMUL, SCORES, q, k);
    int scaled = node(b, LK_NODE_MUL, SCORES, products, scale);
    int shifted = masked(b, node(b, LK_NODE_SUB, SCORES, scaled, log_sum));
    int probs = node(b, LK_NODE_EXP, SCORES, shifted, NONE);
    int turned = typed(b, LK_NODE_TRANSPOSE, SCORES_TURNED, LK_TYPE_REAL, probs, NONE);
    int dprobs, ds, keys;

    store(b, LK_NODE_MATMUL, turned, dout, dv);
    dprobs = node(b, LK_NODE_MATMUL, SCORES, dout, v);
    dprobs = node(b, LK_NODE_SUB, SCORES, dprobs, delta);
    dprobs = node(b, LK_NODE_MUL, SCORES, dprobs, probs);
    ds = typed(b, LK_NODE_MUL, SCORES, LK_TYPE_REAL, dprobs, scale);
    turned = typed(b, LK_NODE_TRANSPOSE, SCORES_TURNED, LK_TYPE_REAL, ds, NONE);
    store(b, LK_NODE_MATMUL, turned, q, dk);
    keys = typed(b, LK_NODE_TRANSPOSE, OF_QKV, LK_TYPE_REAL, k, NONE);
    if (deterministic) {
        store(b, LK_NODE_MATMUL, ds, keys, dq);
    } else {
        int dq_sum = tensor(b, DENSE, LK_TYPE_FLOAT, LK_AT_DQ_SUM);

        store(b, LK_NODE_MATMUL, ds, keys, dq_sum);
        store(b, LK_NODE_COPY, dq_sum, NONE, dq);
    }
}

size_t lk_attention_tensor_bytes(const struct lk_attention_tensor *t)
{
    static const size_t bytes[] = {
        [LK_TYPE_REAL] = 2, [LK_TYPE_FLOAT] = 4, [LK_TYPE_INDEX] = 4, [LK_TYPE_TRUTH] = 1};

    return (size_t)(t->extent[0] * t->extent[1] * t->extent[2] * t->extent[3]) * bytes[t->type];
}
