/*
 * Names of GPU kernels as people know them. CUPTI gives a kernel's linker name; what a reader of a
 * timeline wants is the function: "_Z16gelu_forward_gpuIfEvPT_PKS0_m" is gelu_forward_gpu. Not a
 * demangler: scopes and the name, without template arguments and parameters.
 */
#ifndef LK_PROFILER_KERNEL_NAME_H
#define LK_PROFILER_KERNEL_NAME_H

#include <stddef.h>

/*
 * Writes the short name, cut to size: of an Itanium-mangled name its identifiers up to the first
 * template arguments, joined by "::", without unnamed and internal scopes; of a demangled one what
 * stands before its arguments, without the return type; anything else as it is.
 */
void lk_kernel_name(const char *symbol, char *out, size_t size);

#endif
