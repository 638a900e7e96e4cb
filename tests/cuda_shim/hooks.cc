/*
 * The functions that a compiler calls for every access under -fsanitize=thread. ThreadSanitizer
 * is not linked; these functions check the bounds by AddressSanitizer's shadow of the heap and
 * record the access (shadow.cc).
 */
#include "shim_impl.h"

#include <sanitizer/asan_interface.h>

extern "C" {
void __asan_report_load_n(uintptr_t p, size_t bytes);
void __asan_report_store_n(uintptr_t p, size_t bytes);
}

static void access(void *at, size_t bytes, enum shim_access how)
{
    uintptr_t p = reinterpret_cast<uintptr_t>(at);

    if (p - shim_stack < SHIM_STACK_BYTES)
        return;
    if (__asan_region_is_poisoned(at, bytes)) {
        shim_check_copies(p);
        if (how == SHIM_READ)
            __asan_report_load_n(p, bytes);
        else
            __asan_report_store_n(p, bytes);
    }
    shim_shadow_access(p, bytes, how);
}

#define HOOK(name, bytes, how)                                                                     \
    extern "C" void name(void *p)                                                                  \
    {                                                                                              \
        access(p, bytes, how);                                                                     \
    }
#define HOOK_N(name, how)                                                                          \
    extern "C" void name(void *p, size_t bytes)                                                    \
    {                                                                                              \
        access(p, bytes, how);                                                                     \
    }
HOOK(__tsan_read1, 1, SHIM_READ)
HOOK(__tsan_read2, 2, SHIM_READ)
HOOK(__tsan_read4, 4, SHIM_READ)
HOOK(__tsan_read8, 8, SHIM_READ)
HOOK(__tsan_read16, 16, SHIM_READ)
HOOK(__tsan_unaligned_read2, 2, SHIM_READ)
HOOK(__tsan_unaligned_read4, 4, SHIM_READ)
HOOK(__tsan_unaligned_read8, 8, SHIM_READ)
HOOK(__tsan_unaligned_read16, 16, SHIM_READ)
HOOK_N(__tsan_read_range, SHIM_READ)
HOOK(__tsan_write1, 1, SHIM_WRITE)
HOOK(__tsan_write2, 2, SHIM_WRITE)
HOOK(__tsan_write4, 4, SHIM_WRITE)
HOOK(__tsan_write8, 8, SHIM_WRITE)
HOOK(__tsan_write16, 16, SHIM_WRITE)
HOOK(__tsan_unaligned_write2, 2, SHIM_WRITE)
HOOK(__tsan_unaligned_write4, 4, SHIM_WRITE)
HOOK(__tsan_unaligned_write8, 8, SHIM_WRITE)
HOOK(__tsan_unaligned_write16, 16, SHIM_WRITE)
HOOK_N(__tsan_write_range, SHIM_WRITE)

extern "C" void __tsan_init(void)
{
}

extern "C" void __tsan_func_entry(void *)
{
}

extern "C" void __tsan_func_exit(void)
{
}
