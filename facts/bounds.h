/* Upper limits that readers of files enforce: a larger value is a typing error or damage. */
#ifndef LK_FACTS_BOUNDS_H
#define LK_FACTS_BOUNDS_H

enum {
    LK_RANKS_MAX = 1 << 24,         /* ranks, GPUs, nodes: two orders above the largest machine */
    LK_FORECAST_GPUS_MAX = 1 << 20, /* GPUs in one forecast */
    LK_BATCH_MAX = 1 << 30,         /* samples a micro-batch */
    LK_ACCUMULATION_MAX = 100000,   /* micro-batches a step: a forecast looks at each */
    LK_POWERSGD_RANK_MAX = 1 << 20, /* of the factors */
    LK_STALENESS_MAX = 64,          /* steps; each takes memory of all gradients */
    LK_NICS_MAX = 1024,             /* network links a node */
    LK_CHANNELS_MAX = 1 << 24,      /* channels of a normalisation layer */
    LK_SHAPE_MAX = 1 << 30          /* layers, widths, heads, tokens of a transformer */
};
/* Elements of one tensor. Times the largest element size and 2^12 tensors it still fits 64 bits. */
#define LK_TENSOR_ELEMS_MAX (1ULL << 48)
#define LK_PARAMETERS_MAX   1e13 /* parameters of a model */

#endif
