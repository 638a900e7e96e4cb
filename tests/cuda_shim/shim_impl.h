/* Private to the shim: declarations shared by the scheduler (shim.cc) and the
 * record of accesses (shadow.cc). */
#ifndef LK_SHIM_IMPL_H
#define LK_SHIM_IMPL_H

#include "shim.h"

/* End the process with SHIM_EXIT_FOUND, after printing the text and the caller's stack. */
[[noreturn]] void shim_found(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The thread that makes an access. Accesses of one block with different epochs have a barrier
 * between them; those of one warp with different warp epochs have a __syncwarp. */
struct shim_actor {
    uint32_t launch, block, epoch;
    uint32_t thread, warp_epoch;
};
/* The running thread; outside of kernels its launch is 0. */
extern shim_actor shim_now;
/* Size of a fiber's stack; accesses to it are not recorded. */
constexpr size_t SHIM_STACK_BYTES = 256 << 10;
extern uintptr_t shim_stack;

uint64_t shim_random(void);

/* Return true if kernels are counted, not run. */
bool shim_is_counted(const void *kernel);

/* End the process if an asynchronous copy to p has not ended. */
void shim_check_copies(uintptr_t p);

/* Record accesses to [p, p + bytes) from now on; `what` is copied. */
void shim_shadow_add(const void *p, size_t bytes, const char *what);
void shim_shadow_remove(const void *p);

enum shim_access { SHIM_READ, SHIM_WRITE, SHIM_ATOMIC };
void shim_shadow_access(uintptr_t p, size_t bytes, enum shim_access how);

#endif
