/*
 * The dry run: lockstep's programs linked with the fake machine in CUDA's place.
 *
 * build/dry/lockstep, test_gpu, bench/machine_cuda and bench/kernels_cuda are the real programs:
 * main, commands, device, communicator, recorder, search for libraries. The fakes below them are
 *
 *     runtime_cuda.c    CUDA's run-time library: the machine of tests/fakes/fake_cuda.h
 *     launches_cuda.c   the part of it that nvcc's objects call to start kernels, which it counts
 *     ops_cuda.c        the launchers of kernels/ with the CPU's definition on the machine behind
 * them libraries_cuda.c  libcublasLt, libcudnn, libnccl, libcupti and libnvidia-ml, a shared
 * library that the programs find and open as they do NVIDIA's
 *
 * The ranks of a run are processes, as always, each with a fake machine of its own; the fake
 * NCCL adds in memory that they share. Work takes the time that the host needs for it, except in a
 * calibration (also test_gpu's), which uses a model of time (tests/fakes/fake_time_cuda.h), and in
 * test_gpu's other suites, where the same model runs by the host's clock. In a calibration, in
 * kernels_cuda, and with DRY_IDLE in the environment, ops do not compute and memory is not filled:
 * large models then run, with meaningless losses. DRY_START_S is the seconds that a process's first
 * call of CUDA takes, DRY_LIBRARY_S those of each library that it opens, both 0 unless set.
 * DRY_BLAS_ALIGNMENT: cuBLASLt has no algorithm for addresses and strides of fewer bytes.
 * DRY_CUPTI_OLD makes CUPTI one that records all calls or none, DRY_CUPTI_NO_IDS one that gives no
 * ids for calls that were chosen.
 */
#ifndef LK_TESTS_DRY_MACHINE_H
#define LK_TESTS_DRY_MACHINE_H

#include <stddef.h>

/* Sleep for the seconds that the variable of the environment says, if it is set. */
void dry_sleep(const char *variable);

/* The number of kernels that a GPU would have of the op that this thread launches. */
extern _Thread_local size_t dry_kernels;

#endif
