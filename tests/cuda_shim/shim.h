/*
 * Run CUDA kernels on the host, to find faults that a GPU hides: missing barriers, indices out of
 * bounds, results that depend on the order of threads.
 *
 * Blocks run one after another, in an order drawn from the seed. A block's threads are fibers with
 * stacks of their own; at every barrier and every operation of a warp the next one to run is drawn.
 * The kernels are compiled twice, since a compiler supports only one of the two checks at a time:
 *
 * cuda_shim_bounds, under AddressSanitizer
 *
 *   bounds      of buffers, shared arrays (heap allocations here) and a thread's own arrays; stacks
 *               have guard pages
 *
 * cuda_shim_races, with a call for every access (-fsanitize=thread without
 * ThreadSanitizer, hooks.cc)
 *
 *   races       two accesses of the same bytes, one of them a write, by threads with no barrier in
 *               between, or by threads of different blocks of a launch. Found in every order,
 *               because accesses are recorded: shadow.cc. Between threads of a warp a __syncwarp is
 *               needed, by CUDA's rules.
 *   bounds      of buffers and shared arrays
 *
 * and both
 *
 *   copies      bytes of an asynchronous copy that no thread has waited for
 *   barriers    all threads of a block must reach the same one; those of a warp's operation must
 *               all reach it with the same mask
 *   alignment   of packs that are loaded or stored (-fsanitize=alignment): a GPU stops there, the
 *               host would not
 *   not set     memory first holds bytes drawn from the seed: reading them changes results
 *   launches    limits of grids, blocks and shared memory
 *
 * Not found: bank conflicts, speed, and faults of the compiler for GPUs.
 *
 * Any finding ends the process with SHIM_EXIT_FOUND and a message on stderr.
 */
#ifndef LK_SHIM_H
#define LK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#else
#include <stdbool.h>
#endif

enum {
    SHIM_WARP = 32,
    SHIM_DEPOSIT = 32,   /* bytes a lane can hand to its warp */
    SHIM_EXIT_FOUND = 3, /* AddressSanitizer has its own, 4 here */
};

/* Seed the order of blocks and threads, and the contents of shared memory, from now on. */
void shim_seed(uint64_t seed);

/* Allocate "device memory" of exactly so many bytes; its contents are drawn from the seed. */
void *shim_alloc(size_t bytes, const char *name);
void shim_free(void *p);

/* Return the number of kernels started so far. */
uint64_t shim_launches(void);

/* From now on run no kernel and compute no product, and count the kernels that would be run. */
void shim_count_only(void);
bool shim_only_counts(void);
/* Return the number of different kernels, instances of templates each, since then. */
size_t shim_kernels(void);

#ifdef __cplusplus
} /* extern "C" */

/* The rest is for the headers that replace CUDA's. */

struct shim_index {
    unsigned x, y, z;
};

/* Indices of the running thread. */
extern shim_index threadIdx, blockIdx, blockDim, gridDim;

/* Begin a launch; false if it breaks a limit of the GPU: 1024 threads, 65535 blocks in y and z, 48
 * KiB of shared memory unless allowed more. */
bool shim_launch(const void *kernel, shim_index blocks, shim_index threads, size_t shared_bytes,
                 void (*run)(void *), void *arg);
void shim_allow_shared(const void *kernel, size_t bytes);

/* Return the block's array declared at file:line. */
void *shim_shared(const char *file, int line, size_t bytes);
void *shim_shared_of_launch(void);

/* Wait at a barrier; return true if any thread came with flag. */
int shim_barrier(int flag, const char *file, int line);
void shim_sync_warp(unsigned mask, const char *file, int line);
/* Exchange `bytes` of every lane of the mask; return 32 times SHIM_DEPOSIT bytes, by lane. They are
 * valid until the thread's next barrier or operation of its warp. */
const unsigned char *shim_exchange(unsigned mask, const void *mine, size_t bytes, const char *file,
                                   int line);
unsigned shim_lane(void);

/* Copy 16 bytes asynchronously, zeros but for the first `bytes`. The bytes arrive as late as
 * allowed: when the thread waits. Until then an access by any thread is a finding. */
void shim_copy_async(void *to, const void *from, size_t bytes, const char *file, int line);
void shim_wait_for_copies(void);

/* Record an atomic access: it races with plain ones, not with other atomic ones. */
void shim_note_atomic(const void *p, size_t bytes);

/* Advance a clock that all threads share. */
uint64_t shim_timer_ns(void);
#endif

#endif
