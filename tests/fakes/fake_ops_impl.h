/* Private to tests/fakes/fake_ops*.c: one run of an op, and its buffers. */
#ifndef LK_TESTS_FAKE_OPS_IMPL_H
#define LK_TESTS_FAKE_OPS_IMPL_H

#include "tests/fakes/fake_ops.h"

enum fake_ops_kind { REAL, WIDE, TOKENS, BYTES };

/* The tensor cores are given this part of a product's float factor: cuBLASLt lets them cut bits
 * off, our own kernels round. */
enum fake_ops_factor { NO_FACTOR, CUT, ROUNDED };

/* A pointer among the arguments. */
struct fake_ops_buffer {
    void **at;
    enum fake_ops_kind kind;
    size_t n;     /* elements; BYTES: bytes */
    bool written; /* else only read */
    enum fake_ops_factor factor;
};

/* One run of an op; `copy` holds its changed arguments. */
struct fake_ops_run {
    const struct fake_ops_config *config;
    _Alignas(max_align_t) unsigned char copy[LK_OP_ARGS_MAX];
    struct fake_ops_buffer buffers[16];
    size_t n_buffers;
    struct held {
        void *device;
        float *host;
        const struct fake_ops_buffer *buffer;
        bool written;
    } held[16];
    size_t n_held;
    float *scratch[2]; /* for attention, whose kernels keep less than its definition */
};

/* List the buffers among the run's arguments; false: the op has no row. */
bool fake_ops_list(struct fake_ops_run *r, const struct lk_op *op);

#endif
