/*
 * Work as of a training step on one device: backward of a block of GPT-2's, by the real kernels, as
 * runtime/model_gpt.c calls them: four linear layers, attention, gelu, two layer norms. On made-up
 * numbers, the same every time: nothing is learnt.
 */
#ifndef LK_RUNTIME_SWEEP_BLOCK_H
#define LK_RUNTIME_SWEEP_BLOCK_H

#include "base/status.h"
#include "runtime/device.h"

#include <stddef.h>
#include <stdint.h>

struct lk_block_size {
    size_t samples, context, channels, heads; /* heads divides channels */
};

struct lk_block;

/* Allocates on the stream's device and fills; waits for it. LK_ENOMEM where it does not fit. */
enum lk_status lk_block_create(struct lk_stream *s, const struct lk_block_size *size,
                               uint64_t timeout_ns, struct lk_block **out);
/* pre: nothing of it is in flight. NULL is legal. */
void lk_block_destroy(struct lk_block *b);
/* Puts a backward pass on a stream of the same device (an lk_sweep_put). block is a struct
 * lk_block. */
enum lk_status lk_block_backward(void *block, struct lk_stream *s);
/* Operations of a backward pass by the ops' costs (kernels/op.h). */
double lk_block_flops(const struct lk_block *b);

/*
 * Fills device memory with n elements of the device's real type, uniform in [-0.5, 0.5) and the
 * same numbers every time, by copies on the stream; waits for them. Products of zeros draw less
 * power, so that a GPU runs them faster.
 */
enum lk_status lk_block_fill(struct lk_stream *s, void *to, size_t n, uint64_t timeout_ns);

#endif
