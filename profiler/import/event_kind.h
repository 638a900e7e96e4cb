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
/* Return the collective of a kernel of NCCL's, "all_reduce"; "": it is told by none. */
const char *lk_event_function_of_kernel(const char *name);

#endif
