/*
 * PyTorch's execution traces (ExecutionTraceObserver, ExecutionGraphObserver), schemas 1.0.1
 * to 1.1.0: they have no times, but the sizes of all-reduces and gradients, which torch.profiler's
 * traces lack without record_shapes. Chakra's JSON form is another format.
 */
#ifndef LK_PROFILER_IMPORT_TORCH_ET_H
#define LK_PROFILER_IMPORT_TORCH_ET_H

#include "profiler/import/event.h"

/* Read the all-reduces and the gradients (LK_GRADIENT_SIZE) of a file, in order, into
 * out->details; there are no events. As lk_kineto_read otherwise. */
enum lk_status lk_torch_et_read(const char *path, const char *step_range, struct lk_events *out);

#endif
