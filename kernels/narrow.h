/*
 * The cpu ops on buffers of float16 and bfloat16. The ops compute in float32: lk_narrow_run widens
 * what an op reads to a scratch of floats, runs it there, and rounds what it writes to nearest
 * even. So every value is rounded once, where an op ends; sums and products within it are
 * float32's. That is what the kernels for GPUs do, whose sums are float32, too. It costs a pass
 * over each buffer, which fast processors would spend on loads of half the bytes: narrow types on a
 * CPU show what training does in them, and save no time.
 */
#ifndef LK_KERNELS_NARROW_H
#define LK_KERNELS_NARROW_H

#include "kernels/ops.h"

enum { LK_OPERANDS_MAX = 8 };

/* A buffer of lk_real among an op's arguments. */
struct lk_operand {
    size_t at;    /* where its pointer is in the arguments */
    size_t elems; /* that the op may touch, gaps between rows included */
    bool in, out; /* neither: the op's own scratch */
};

/* The buffers of lk_real of an op, as its lk_op.operands lists them. Two with the same pointer are
 * one buffer. */
struct lk_operands {
    struct lk_operand list[LK_OPERANDS_MAX];
    size_t n;
    bool optimizer; /* its buffers are those of a table of struct lk_optim_tensor instead */
};

/* Memory of a thread for it; zeroed at first. */
struct lk_narrow {
    float *at;
    size_t elems;
};
void lk_narrow_fini(struct lk_narrow *n);

/* Run the op's cpu implementation on buffers whose elements are float16 or bfloat16. LK_ENOMEM: no
 * memory for its operands; nothing has run. */
enum lk_status lk_narrow_run(struct lk_narrow *n, const struct lk_op *op, const void *args,
                             enum lk_dtype real);

#endif
