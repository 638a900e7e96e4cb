/*
 * A model of time for the machine without GPUs (tests/fake_cuda.h), as far as a calibration looks:
 * products and copies have rates, stand-ins last as long as they are told, and compute and
 * stand-ins slow each other.
 */
#ifndef LK_TESTS_FAKE_TIME_CUDA_H
#define LK_TESTS_FAKE_TIME_CUDA_H

struct fake_time {
    double flops, copy_Bps, host_Bps; /* copies within the GPU, and from and to the host */
    double compute_ms;                /* of any other op */
    /* How much longer compute takes beside a stand-in that waits or moves, and that one's bytes. */
    double wait_slowdown, wire_slowdown, delta;
    int moves, holds, products; /* that ran */
    double hold_until_ms, move_until_ms, compute_until_ms;
};
extern struct fake_time fake_time;

/* Nothing ran; the rates are the caller's to set. Events then have the model's times. pre: the
 * machine was reset. */
void fake_time_reset(void);

#endif
