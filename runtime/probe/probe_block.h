/*
 * The compute of a training step on one device: the backward pass of a GPT-2 block, by the kernels
 * that runtime/model/model_gpt.c calls: four linear layers, attention, gelu, two layer norms. Its
 * numbers are random and the same every time; nothing is learnt.
 */
#ifndef LK_RUNTIME_PROBE_BLOCK_H
#define LK_RUNTIME_PROBE_BLOCK_H

#include "base/status.h"
#include "runtime/device/device.h"

#include <stddef.h>
#include <stdint.h>

struct lk_block_size {
    size_t samples, context, channels, heads; /* heads divides channels */
};

struct lk_block;

/* Allocate the block on the stream's device, fill it, and wait. LK_ENOMEM when it does not fit. */
enum lk_status lk_block_create(struct lk_stream *s, const struct lk_block_size *size,
                               uint64_t timeout_ns, struct lk_block **out);
/* Destroy. pre: none of its work is in flight. NULL is legal. */
void lk_block_destroy(struct lk_block *b);
/* Enqueue a backward pass on a stream of the same device (an lk_probe_put). block: a struct
 * lk_block. */
enum lk_status lk_block_backward(void *block, struct lk_stream *s);

/*
 * Fill device memory with n elements of the device's real type, uniform in [-0.5, 0.5) and the same
 * every time, by copies on the stream; wait for them. A GPU would run products of zeros faster,
 * because they draw less power.
 */
enum lk_status lk_block_fill(struct lk_stream *s, void *to, size_t n, uint64_t timeout_ns);

#endif
