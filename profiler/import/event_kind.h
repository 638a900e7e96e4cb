/* Tell what calls of CUDA and HIP, ranges of the host, and NCCL's kernels are, by their names,
 * whatever the format. */
#ifndef LK_PROFILER_IMPORT_EVENT_KIND_H
#define LK_PROFILER_IMPORT_EVENT_KIND_H

#include "profiler/import/event.h"

/* Find the kind of a call, "cudaLaunchKernel_v7000", or of a range, "ProfilerStep#3", or one
 * that e->step_range says. False: it is of no interest. */
bool lk_event_kind_of_call(const char *name, size_t n, enum lk_event_kind *out);
bool lk_event_kind_of_range(const struct lk_events *e, const char *name, size_t n,
                            enum lk_event_kind *out);
/* Return the step in "ProfilerStep#12" or "ProfilerStep*#12". */
uint32_t lk_event_step_number(const char *name, size_t n);
/* Return the collective in a name of NCCL's, as a kernel or a function has it, "all_reduce"; "": it
 * is told by none. */
const char *lk_event_function_of_nccl(const char *name);
/* Find the type of the elements that a kernel of NCCL's moves. False: its name does not say. */
bool lk_event_dtype_of_kernel(const char *name, enum lk_dtype *out);

#endif
