/*
 * How a step's gradients are exchanged: sharding (which rank keeps what), gradient dtype and
 * compression (what is sent). The names are the words of the command line and of forecast files.
 * Value 0 of each enum is PyTorch's plain DDP.
 */
#ifndef LK_BASE_EXCHANGE_H
#define LK_BASE_EXCHANGE_H

#include "base/status.h"
#include "base/words.h"

#include <stddef.h>
#include <stdint.h>

/* X(scheme, name, help): sim/step/volume.h has the volumes and collectives of each. */
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

enum lk_sharding { LK_SHARDING_LIST(LK_WORD_VALUE) LK_SHARDING_COUNT };

/* X(compression, name, help): a DDP communication hook. It does not change the bucket limits. */
#define LK_COMPRESSION_LIST(X)                                                                     \
    X(LK_COMPRESSION_NONE, "none", "gradients as they are")                                        \
    X(LK_COMPRESSION_FP16, "fp16", "cast to float16 and back")                                     \
    X(LK_COMPRESSION_BF16, "bf16", "cast to bfloat16 and back")                                    \
    X(LK_COMPRESSION_POWERSGD, "powersgd", "low-rank factors of each matrix")

enum lk_compression { LK_COMPRESSION_LIST(LK_WORD_VALUE) LK_COMPRESSION_COUNT };

/*
 * X(dtype, name, bytes an element): the dtype that gradients are produced in. Bucket limits count
 * its bytes. Integer tensors keep their own.
 */
#define LK_GRAD_DTYPE_LIST(X)                                                                      \
    X(LK_GRAD_OWN, "own", 0)                                                                       \
    X(LK_GRAD_F32, "float32", 4)                                                                   \
    X(LK_GRAD_F16, "float16", 2)                                                                   \
    X(LK_GRAD_BF16, "bfloat16", 2)                                                                 \
    X(LK_GRAD_F8, "float8", 1)

enum lk_grad_dtype { LK_GRAD_DTYPE_LIST(LK_WORD_VALUE) LK_GRAD_DTYPE_COUNT };

LK_WORDS_DECLARE(lk_sharding, enum lk_sharding);
LK_WORDS_DECLARE(lk_compression, enum lk_compression);
LK_WORDS_DECLARE(lk_grad_dtype, enum lk_grad_dtype);
uint64_t lk_grad_dtype_bytes(enum lk_grad_dtype d); /* 0: the tensor's own */

#endif
