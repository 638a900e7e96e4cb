/*
 * A model of time for the fake machine (tests/fakes/fake_cuda.h), for calibrations: products and
 * copies have rates, the probe's surrogate kernels last as long as requested, and compute and
 * surrogates slow each other.
 */
#ifndef LK_TESTS_FAKE_TIME_CUDA_H
#define LK_TESTS_FAKE_TIME_CUDA_H

struct fake_time {
    double flops, copy_Bps, host_Bps; /* copies within the GPU; from and to the host */
    double compute_ms;                /* of any other op */
    /* Relative slowdown of compute beside a waiting or moving surrogate, and of the moving one. */
    double wait_slowdown, wire_slowdown, delta;
    /* A waiting surrogate's blocks add this to its slowdown: their part of these, and all work
     * waits where none are left. 0: nothing. */
    int multiprocessors;
    int moves, holds, products; /* numbers of ops that ran */
    double hold_until_ms, move_until_ms, compute_until_ms, hold_part;
};
extern struct fake_time fake_time;

/* Reset the counts; the caller sets the rates. Events then have the model's times. pre: the fake
 * machine was reset. */
void fake_time_reset(void);

#endif
