/*
 * How a step's gradients are exchanged: who keeps what (sharding), what goes over the wire
 * (gradient dtype, compression). Words of the command line and of forecast files. Zero is PyTorch's
 * plain DDP everywhere.
 */
#ifndef LK_BASE_SCHEME_H
#define LK_BASE_SCHEME_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/*
 * X(scheme, name, help). Volumes and collectives of each: sim/volume.h.
 */
#define LK_SHARDING_LIST(X)                                                                        \
    X(LK_SHARDING_DDP, "ddp", "every rank keeps all; gradients are all-reduced")                   \
    X(LK_SHARDING_ZERO1, "zero1", "optimizer states are sharded")                                  \
    X(LK_SHARDING_ZERO2, "zero2", "optimizer states and gradients are sharded")                    \
    X(LK_SHARDING_ZERO3, "zero3", "parameters too; FSDP's FULL_SHARD")                             \
    X(LK_SHARDING_GRAD_OP, "shard-grad-op", "FSDP: parameters are kept through backward")          \
    X(LK_SHARDING_HSDP, "hsdp", "full sharding in groups, all-reduce between them")                \
    X(LK_SHARDING_LOCAL_SGD, "local-sgd", "parameters are averaged every period of steps")         \
    X(LK_SHARDING_DILOCO, "diloco", "an outer optimizer every period of steps")                    \
    X(LK_SHARDING_ASYNC, "async", "asynchronous updates, no barrier between ranks")

enum lk_sharding {
#define LK_SHARDING_ENUM_(scheme, name, help) scheme,
    LK_SHARDING_LIST(LK_SHARDING_ENUM_)
#undef LK_SHARDING_ENUM_
        LK_SHARDING_COUNT
};

/* X(compression, name, help): a communication hook. Buckets are cut before it. */
#define LK_COMPRESSION_LIST(X)                                                                     \
    X(LK_COMPRESSION_NONE, "none", "gradients as they are")                                        \
    X(LK_COMPRESSION_FP16, "fp16", "cast to float16 and back")                                     \
    X(LK_COMPRESSION_BF16, "bf16", "cast to bfloat16 and back")                                    \
    X(LK_COMPRESSION_POWERSGD, "powersgd", "low-rank factors of each matrix")

enum lk_compression {
#define LK_COMPRESSION_ENUM_(compression, name, help) compression,
    LK_COMPRESSION_LIST(LK_COMPRESSION_ENUM_)
#undef LK_COMPRESSION_ENUM_
        LK_COMPRESSION_COUNT
};

/*
 * X(dtype, name, bytes an element): the dtype that gradients are produced in. Buckets are cut in
 * its bytes. Integer tensors keep their own.
 */
#define LK_GRAD_DTYPE_LIST(X)                                                                      \
    X(LK_GRAD_OWN, "own", 0)                                                                       \
    X(LK_GRAD_F32, "float32", 4)                                                                   \
    X(LK_GRAD_F16, "float16", 2)                                                                   \
    X(LK_GRAD_BF16, "bfloat16", 2)                                                                 \
    X(LK_GRAD_F8, "float8", 1)

enum lk_grad_dtype {
#define LK_GRAD_DTYPE_ENUM_(dtype, name, bytes) dtype,
    LK_GRAD_DTYPE_LIST(LK_GRAD_DTYPE_ENUM_)
#undef LK_GRAD_DTYPE_ENUM_
        LK_GRAD_DTYPE_COUNT
};

const char *lk_sharding_name(enum lk_sharding s);
const char *lk_compression_name(enum lk_compression c);
const char *lk_grad_dtype_name(enum lk_grad_dtype d);
uint64_t lk_grad_dtype_bytes(enum lk_grad_dtype d); /* 0: the tensor's own */

/* LK_EUSAGE lists the known words. */
enum lk_status lk_sharding_from_name(const char *name, enum lk_sharding *out);
enum lk_status lk_compression_from_name(const char *name, enum lk_compression *out);
enum lk_status lk_grad_dtype_from_name(const char *name, enum lk_grad_dtype *out);

#endif
