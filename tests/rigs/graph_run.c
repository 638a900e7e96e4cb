#include "tests/rigs/graph_run.h"

#include "base/array.h"
#include "facts/dtype.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const struct lk_attention_graph *g;
    enum graph_numbers numbers;
    double *values[LK_ATTENTION_TENSORS_MAX]; /* dense, the last extent fastest; NULL: none yet */
};

static size_t count(const struct lk_attention_tensor *t)
{
    return (size_t)(t->extent[0] * t->extent[1] * t->extent[2] * t->extent[3]);
}

/* Return the place of a dense element in memory. */
static size_t place(const struct lk_attention_tensor *t, size_t i)
{
    int64_t at = 0;

    for (int axis = 3; axis >= 0; axis--) {
        at += (int64_t)(i % (size_t)t->extent[axis]) * t->stride[axis];
        i /= (size_t)t->extent[axis];
    }
    return (size_t)at;
}

/* Return the place of the element of t that stands for element i of `whole`: extents of 1 stand for
 * all. */
static size_t same_place(const struct lk_attention_tensor *whole,
                         const struct lk_attention_tensor *t, size_t i)
{
    size_t at = 0, step = 1;

    for (int axis = 3; axis >= 0; axis--) {
        size_t index = i % (size_t)whole->extent[axis];

        /* An assertion that holds costs a system call. */
        if (t->extent[axis] != whole->extent[axis] && t->extent[axis] != 1)
            ck_abort_msg("extents do not fit");
        at += (t->extent[axis] == 1 ? 0 : index) * step;
        step *= (size_t)t->extent[axis];
        i /= (size_t)whole->extent[axis];
    }
    return at;
}

static double rounded(const struct run *r, enum lk_attention_type type, double x)
{
    if (r->numbers == GRAPH_EXACT)
        return x;
    switch (type) {
    case LK_TYPE_REAL:
        return (double)lk_f32_from_bf16(lk_bf16_from_f32((float)x));
    case LK_TYPE_FLOAT:
        return (double)(float)x;
    default:
        return x;
    }
}

static double load(const struct run *r, const struct lk_attention_tensor *t, const void *at,
                   size_t i)
{
    if (r->numbers == GRAPH_EXACT)
        return ((const double *)at)[i];
    return t->type == LK_TYPE_REAL ? (double)lk_f32_from_bf16(((const uint16_t *)at)[i])
                                   : (double)((const float *)at)[i];
}

static void store(const struct run *r, const struct lk_attention_tensor *t, void *at, size_t i,
                  double x)
{
    if (r->numbers == GRAPH_EXACT)
        ((double *)at)[i] = x;
    else if (t->type == LK_TYPE_REAL)
        ((uint16_t *)at)[i] = lk_bf16_from_f32((float)x);
    else
        ((float *)at)[i] = (float)x;
}

/* ---- Nodes ---- */

static const struct lk_attention_tensor *tensor(const struct run *r, int number)
{
    if (number < 0 || (size_t)number >= r->g->n_tensors)
        ck_abort_msg("tensor %d of %zu", number, r->g->n_tensors);
    return &r->g->tensors[number];
}

/* Return the values of an input, which must have been computed. */
static const double *input(const struct run *r, int number)
{
    if (!tensor(r, number) || !r->values[number])
        ck_abort_msg("tensor %d is read before it is written", number);
    return r->values[number];
}

static void matmul(struct run *r, const struct lk_attention_node *n, double *out)
{
    const struct lk_attention_tensor *a = tensor(r, n->a), *b = tensor(r, n->b);
    const struct lk_attention_tensor *d = tensor(r, n->out);
    const double *x = input(r, n->a), *y = input(r, n->b);
    size_t rows = (size_t)d->extent[2], columns = (size_t)d->extent[3];
    size_t inner = (size_t)a->extent[3];

    ck_assert(a->extent[2] == d->extent[2] && b->extent[3] == d->extent[3] &&
              a->extent[3] == b->extent[2]);
    for (int axis = 0; axis < 2; axis++)
        ck_assert(a->extent[axis] == d->extent[axis] && b->extent[axis] == d->extent[axis]);
    for (size_t i = 0; i < count(d); i++) {
        size_t of = i / columns / rows, row = i / columns % rows, column = i % columns;

        out[i] = 0;
        for (size_t k = 0; k < inner; k++)
            out[i] += x[(of * rows + row) * inner + k] * y[(of * inner + k) * columns + column];
    }
}

static void reduce(struct run *r, const struct lk_attention_node *n, double *out)
{
    const struct lk_attention_tensor *a = tensor(r, n->a), *d = tensor(r, n->out);
    const double *x = input(r, n->a);
    size_t columns = (size_t)a->extent[3];

    ck_assert_int_eq(d->extent[3], 1);
    ck_assert_uint_eq(count(d) * columns, count(a));
    for (size_t i = 0; i < count(d); i++) {
        out[i] = n->kind == LK_NODE_MAX ? -INFINITY : 0;
        for (size_t k = 0; k < columns; k++)
            out[i] = n->kind == LK_NODE_MAX ? fmax(out[i], x[i * columns + k])
                                            : out[i] + x[i * columns + k];
    }
}

static void transpose(struct run *r, const struct lk_attention_node *n, double *out)
{
    const struct lk_attention_tensor *a = tensor(r, n->a), *d = tensor(r, n->out);
    const double *x = input(r, n->a);
    size_t rows = (size_t)d->extent[2], columns = (size_t)d->extent[3];

    ck_assert(a->extent[2] == d->extent[3] && a->extent[3] == d->extent[2]);
    ck_assert_uint_eq(count(a), count(d));
    for (size_t i = 0; i < count(d); i++) {
        size_t of = i / columns / rows, row = i / columns % rows, column = i % columns;

        out[i] = x[(of * columns + column) * rows + row];
    }
}

static double pointwise(const struct run *r, const struct lk_attention_node *n, size_t i)
{
    const struct lk_attention_tensor *d = tensor(r, n->out);
    double a = input(r, n->a)[same_place(d, tensor(r, n->a), i)];
    double b = n->b < 0 ? NAN : input(r, n->b)[same_place(d, tensor(r, n->b), i)];

    switch (n->kind) {
    case LK_NODE_ADD:
        return a + b;
    case LK_NODE_SUB:
        return a - b;
    case LK_NODE_MUL:
        return a * b;
    case LK_NODE_DIV:
        return a / b;
    case LK_NODE_EXP:
        return exp(a);
    case LK_NODE_LOG:
        return log(a);
    case LK_NODE_COPY:
        return a;
    case LK_NODE_ROW:
        return (double)(i / (size_t)d->extent[3] % (size_t)d->extent[2]);
    case LK_NODE_COLUMN:
        return (double)(i % (size_t)d->extent[3]);
    case LK_NODE_GE:
        return a >= b;
    case LK_NODE_SELECT:
        return input(r, n->c)[same_place(d, tensor(r, n->c), i)] != 0 ? a : b;
    default:
        ck_abort_msg("node of kind %d", (int)n->kind);
    }
}

static void run_node(struct run *r, const struct lk_attention_node *n, double *out)
{
    const struct lk_attention_tensor *d = tensor(r, n->out);

    switch (n->kind) {
    case LK_NODE_MATMUL:
        matmul(r, n, out);
        break;
    case LK_NODE_MAX:
    case LK_NODE_SUM:
        reduce(r, n, out);
        break;
    case LK_NODE_TRANSPOSE:
        transpose(r, n, out);
        break;
    default:
        for (size_t i = 0; i < count(d); i++)
            out[i] = pointwise(r, n, i);
    }
    for (size_t i = 0; i < count(d); i++)
        out[i] = rounded(r, d->type, out[i]);
}

/* ---- The graph ---- */

static double *room(const struct lk_attention_tensor *t)
{
    double *p = NULL;

    ck_assert_int_eq(lk_alloc(&p, count(t), sizeof *p), LK_OK);
    return p;
}

void graph_run(const struct lk_attention_graph *g, enum graph_numbers numbers,
               void *const at[LK_ATTENTION_TENSORS_MAX])
{
    struct run r = {.g = g, .numbers = numbers};
    bool written[LK_ATTENTION_TENSORS_MAX] = {false};

    for (size_t n = 0; n < g->n_nodes; n++)
        written[g->nodes[n].out] = true;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct lk_attention_tensor *t = &g->tensors[i];

        if (written[i])
            continue;
        ck_assert_msg(t->place != LK_AT_VIRTUAL, "tensor %zu is read before it is written", i);
        r.values[i] = room(t);
        for (size_t e = 0; e < count(t); e++)
            r.values[i][e] =
                t->place == LK_AT_SCALAR ? (double)t->value : load(&r, t, at[i], place(t, e));
    }
    for (size_t n = 0; n < g->n_nodes; n++) {
        int to = g->nodes[n].out;
        const struct lk_attention_tensor *t = tensor(&r, to);
        double *out = room(t);

        ck_assert_ptr_null(r.values[to]);
        run_node(&r, &g->nodes[n], out);
        r.values[to] = out;
        for (size_t e = 0; t->place != LK_AT_VIRTUAL && e < count(t); e++)
            store(&r, t, at[to], place(t, e), out[e]);
    }
    for (size_t i = 0; i < g->n_tensors; i++)
        free(r.values[i]);
}

void graph_places(const struct lk_attention_graph *g, void *const of[LK_AT_PLACES],
                  void *at[LK_ATTENTION_TENSORS_MAX])
{
    memset(at, 0, LK_ATTENTION_TENSORS_MAX * sizeof *at);
    for (size_t i = 0; i < g->n_tensors; i++)
        at[i] = of[g->tensors[i].place];
}
