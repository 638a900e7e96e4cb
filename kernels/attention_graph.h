/*
 * Causal attention as a graph of elementary operations, in the order that cuDNN's fused kernels
 * recognise. Private to kernels/ and its tests.
 *
 * One description, two consumers: kernels/dnn_cuda.c hands it to cuDNN, and the tests interpret it
 * node by node and compare the result with the definition (kernels/reference.c).
 */
#ifndef LK_KERNELS_ATTENTION_GRAPH_H
#define LK_KERNELS_ATTENTION_GRAPH_H

#include "kernels/ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a tensor lies. VIRTUAL: nowhere, cuDNN keeps it in registers. SCALAR: in the graph itself.
 * The rest is memory, which an execution names. */
enum lk_attention_place {
    LK_AT_VIRTUAL,
    LK_AT_SCALAR,
    LK_AT_Q,
    LK_AT_K,
    LK_AT_V,
    LK_AT_OUT,
    LK_AT_LOG_SUM,
    LK_AT_DOUT,
    LK_AT_DQ,
    LK_AT_DK,
    LK_AT_DV,
    LK_AT_DELTA,  /* workspace: sums over a row of dout * out */
    LK_AT_DQ_SUM, /* workspace: dq in float, to which blocks add in any order */
    LK_AT_PLACES
};

/* REAL: bfloat16. */
enum lk_attention_type { LK_TYPE_REAL, LK_TYPE_FLOAT, LK_TYPE_INDEX, LK_TYPE_TRUTH };

struct lk_attention_tensor {
    enum lk_attention_type type;
    enum lk_attention_place place;
    float value;                  /* of a scalar */
    int64_t extent[4], stride[4]; /* elements; the first is the sample, the second the head */
};

/* What a node computes from its inputs a, b and c. An extent of 1 of b stands for all. */
enum lk_attention_kind {
    LK_NODE_MATMUL, /* a * b, of the last two extents */
    LK_NODE_ADD,    /* a + b, and so on */
    LK_NODE_SUB,
    LK_NODE_MUL,
    LK_NODE_DIV,
    LK_NODE_EXP, /* of a */
    LK_NODE_LOG,
    LK_NODE_COPY,
    LK_NODE_ROW, /* the number of each of a's rows; COLUMN likewise */
    LK_NODE_COLUMN,
    LK_NODE_GE,     /* a >= b */
    LK_NODE_SELECT, /* c ? a : b */
    LK_NODE_MAX,    /* of each of a's rows */
    LK_NODE_SUM,
    LK_NODE_TRANSPOSE, /* a with its last two extents exchanged */
    LK_NODE_KINDS
};

enum { LK_ATTENTION_TENSORS_MAX = 40, LK_ATTENTION_NODES_MAX = 24 };

/* Numbers of tensors; -1: the node has no such input. */
struct lk_attention_node {
    enum lk_attention_kind kind;
    int a, b, c, out;
};

struct lk_attention_graph {
    struct lk_attention_tensor tensors[LK_ATTENTION_TENSORS_MAX];
    struct lk_attention_node nodes[LK_ATTENTION_NODES_MAX];
    size_t n_tensors, n_nodes;
};

/*
 * Describe attention on buffers that lie as those of kernels/ops.h. Forward keeps log_sum; backward
 * reads it. `deterministic`: of backward: dq is summed in one order, so that equal inputs give
 * equal bits; cuDNN then keeps the scores of all heads in its workspace.
 */
void lk_attention_graph_forward(const struct lk_attention_shape *shape,
                                struct lk_attention_graph *out);
void lk_attention_graph_backward(const struct lk_attention_shape *shape, bool deterministic,
                                 struct lk_attention_graph *out);

/* Return the bytes of a tensor without gaps. */
size_t lk_attention_tensor_bytes(const struct lk_attention_tensor *t);

#endif
