/* Ops on narrow buffers; see the header. */
#include "kernels/narrow.h"

#include "base/array.h"
#include "kernels/impl.h"

#include <stdlib.h>
#include <string.h>

/* Operands begin on a cache line of their own. */
enum { ALIGN = 16 };

void lk_narrow_fini(struct lk_narrow *n)
{
    free(n->at);
    *n = (struct lk_narrow){0};
}

static enum lk_status reserve(struct lk_narrow *n, size_t elems)
{
    float *at = NULL;

    if (elems <= n->elems)
        return LK_OK;
    LK_PASS(lk_alloc(&at, elems, sizeof *at));
    free(n->at);
    *n = (struct lk_narrow){at, elems};
    return LK_OK;
}

static size_t aligned(size_t elems)
{
    return (elems + ALIGN - 1) / ALIGN * ALIGN;
}

static void widen(enum lk_dtype real, float *out, const lk_real *in, size_t n)
{
    lk_cast_from_wire_cpu(
        &(struct lk_cast_from_wire_args){.out = out, .in = in, .n = n, .dtype = real});
}

static void narrow(enum lk_dtype real, lk_real *out, const float *in, size_t n)
{
    lk_cast_to_wire_cpu(
        &(struct lk_cast_to_wire_args){.out = out, .in = in, .n = n, .dtype = real});
}

/* ---- Ops whose buffers are arguments ---- */

/* A buffer of an op: its narrow memory, and where it is in the scratch. */
struct buffer {
    lk_real *narrow;
    size_t at, elems;
    bool in, out;
};

static void *pointer_at(const unsigned char *args, size_t at)
{
    void *p;

    memcpy(&p, args + at, sizeof p);
    return p;
}

/* Find the buffer of a pointer among n, or make it the next one. */
static struct buffer *buffer_of(struct buffer *buffers, size_t *n, lk_real *pointer)
{
    for (size_t i = 0; i < *n; i++)
        if (buffers[i].narrow == pointer)
            return &buffers[i];
    buffers[*n] = (struct buffer){.narrow = pointer};
    return &buffers[(*n)++];
}

static enum lk_status run_wide(struct lk_narrow *scratch, const struct lk_op *op,
                               unsigned char *args, enum lk_dtype real,
                               const struct lk_operands *operands)
{
    struct buffer buffers[LK_OPERANDS_MAX], *of[LK_OPERANDS_MAX] = {NULL};
    size_t n = 0, elems = 0;

    for (size_t i = 0; i < operands->n; i++) {
        const struct lk_operand *o = &operands->list[i];
        lk_real *pointer = pointer_at(args, o->at);

        if (!pointer)
            continue;
        of[i] = buffer_of(buffers, &n, pointer);
        of[i]->in |= o->in;
        of[i]->out |= o->out;
        if (of[i]->elems < o->elems)
            of[i]->elems = o->elems;
    }
    for (size_t i = 0; i < n; i++) {
        buffers[i].at = elems;
        elems += aligned(buffers[i].elems);
    }
    LK_PASS(reserve(scratch, elems));
    for (size_t i = 0; i < operands->n; i++)
        if (of[i]) {
            float *wide = scratch->at + of[i]->at;

            memcpy(args + operands->list[i].at, &wide, sizeof wide);
        }
    for (size_t i = 0; i < n; i++)
        if (buffers[i].in)
            widen(real, scratch->at + buffers[i].at, buffers[i].narrow, buffers[i].elems);
    op->cpu(args);
    for (size_t i = 0; i < n; i++)
        if (buffers[i].out)
            narrow(real, buffers[i].narrow, scratch->at + buffers[i].at, buffers[i].elems);
    return LK_OK;
}

/* ---- Optimizers ---- */

/* The arguments of all optimizers begin with these members. */
struct table {
    const struct lk_optim_tensor *tensors;
    size_t n_tensors;
};
#define SAME(op)                                                                                   \
    static_assert(offsetof(struct lk_##op##_args, tensors) == offsetof(struct table, tensors) &&   \
                      offsetof(struct lk_##op##_args, n_tensors) ==                                \
                          offsetof(struct table, n_tensors),                                       \
                  #op)
SAME(sgd);
SAME(adamw);
SAME(lars);
SAME(lamb);

/* Update tensor by tensor the exact weights, and round them; where there are none, the weights. */
static enum lk_status run_optimizer(struct lk_narrow *scratch, const struct lk_op *op,
                                    unsigned char *args, enum lk_dtype real)
{
    struct table all;

    memcpy(&all, args, sizeof all);
    for (size_t i = 0; i < all.n_tensors; i++) {
        const struct lk_optim_tensor *narrow_one = &all.tensors[i];
        struct lk_optim_tensor wide = *narrow_one;
        const struct table one = {&wide, 1};

        LK_PASS(reserve(scratch, 2 * aligned(wide.n)));
        wide.grad = scratch->at;
        wide.param = wide.master ? wide.master : scratch->at + aligned(wide.n);
        widen(real, scratch->at, narrow_one->grad, wide.n);
        if (!wide.master)
            widen(real, wide.param, narrow_one->param, wide.n);
        memcpy(args, &one, sizeof one);
        op->cpu(args);
        narrow(real, narrow_one->param, wide.param, wide.n);
    }
    return LK_OK;
}

enum lk_status lk_narrow_run(struct lk_narrow *n, const struct lk_op *op, const void *args,
                             enum lk_dtype real)
{
    _Alignas(max_align_t) unsigned char copy[LK_OP_ARGS_MAX];
    struct lk_operands operands = {.n = 0};

    if (!op->operands)
        return lk_fail(LK_EUNSUPPORTED,
                       "op %s does not say which buffers it has: it runs in "
                       "float32 only",
                       op->name);
    memcpy(copy, args, op->args_bytes);
    op->operands(args, &operands);
    return operands.optimizer ? run_optimizer(n, op, copy, real)
                              : run_wide(n, op, copy, real, &operands);
}
