/*
 * The dry run: lockstep's programs linked with the fake machine in CUDA's place.
 *
 * build/dry/lockstep, bench/machine_cuda and bench/kernels_cuda are the real programs: main,
 * commands, device, communicator, recorder, search for libraries. The fakes below them are
 *
 *     runtime_cuda.c    CUDA's run-time library: the machine of tests/fakes/fake_cuda.h
 *     ops_cuda.c        the launchers of kernels/, which put the CPU's definition on the machine
 *     libraries_cuda.c  libcublasLt, libcudnn, libnccl, libcupti and libnvidia-ml, a shared library
 *                       that the programs find and open as they do NVIDIA's
 *
 * The ranks of a run are processes, as always, each with a fake machine of its own; the fake
 * NCCL adds in memory that they share. A calibration uses a model of time
 * (tests/fakes/fake_time_cuda.h), everything else the host's time. In a calibration, in
 * kernels_cuda, and with DRY_IDLE in the environment, ops do not compute and memory is not filled:
 * large models then run, with meaningless losses. DRY_CUPTI_OLD makes CUPTI one that records all
 * calls or none, DRY_CUPTI_NO_IDS one that gives no ids for calls that were chosen.
 */
#ifndef LK_TESTS_DRY_MACHINE_H
#define LK_TESTS_DRY_MACHINE_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* Make CUPTI's record of a kernel or copy that is put on the stream now. */
void dry_record_kernel(const char *name, cudaStream_t stream);
void dry_record_copy(size_t bytes, cudaStream_t stream);

#endif
