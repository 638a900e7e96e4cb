/* Kernels with one fault each, which the shim must find (tests/kernels/test_shim_races.c). */
#ifndef LK_SHIM_PLANTED_H
#define LK_SHIM_PLANTED_H

#include "kernels/cuda.h"

/* X(fault, part of the message of cuda_shim_races, and of cuda_shim_bounds;
 * "" if it finds nothing) */
#define PLANTED_LIST(X)                                                                            \
    X(none, "", "")                                                                                \
    X(missing_barrier, "no barrier in between", "")                                                \
    X(missing_warp_barrier, "no barrier in between", "")                                           \
    X(race_of_blocks, "no barrier in between", "")                                                 \
    X(shared_store_out_of_bounds, "heap-buffer-overflow", "heap-buffer-overflow")                  \
    X(global_store_out_of_bounds, "heap-buffer-overflow", "heap-buffer-overflow")                  \
    X(global_load_out_of_bounds, "heap-buffer-overflow", "heap-buffer-overflow")                   \
    X(misaligned_load, "misaligned address", "misaligned address")                                 \
    X(local_store_out_of_bounds, "", "stack-buffer-overflow")                                      \
    X(missing_copy_wait, "no wait, or no barrier in between", "use-after-poison")                  \
    X(missing_copy_barrier, "no barrier in between", "")                                           \
    X(copy_over_reads, "no barrier in between", "")                                                \
    X(exit_before_copy_wait, "exits without a wait", "exits without a wait")                       \
    X(exit_before_barrier, "has exited", "has exited")                                             \
    X(two_barriers, "divergence", "divergence")                                                    \
    X(missing_lane, "divergence", "divergence")                                                    \
    X(sums_in_any_order, "gives other bits", "gives other bits")                                   \
    X(memory_not_set, "gives other bits", "gives other bits")                                      \
    X(too_many_threads, "launch refused", "launch refused")                                        \
    X(too_much_shared, "launch refused", "launch refused")

/* n floats, of which the kernels sum 64 a block into out (n / 64). */
#define PLANTED_DECLARE(fault, races, bounds)                                                      \
    enum lk_status planted_##fault(const struct lk_cuda *c, float *out, const float *in, size_t n);
PLANTED_LIST(PLANTED_DECLARE)
#undef PLANTED_DECLARE

#endif
