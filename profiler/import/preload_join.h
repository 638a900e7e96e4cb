/*
 * Private to profiler/import/preload.c: NCCL's kernels, as CUPTI records them, and the collectives
 * that NCCL's profiler plugin tells of, made one.
 *
 * A thread launches a kernel, then NCCL ends the calls whose work is in it (of a group several),
 * then the thread launches the next one. So the calls that end between two launches are those of
 * the first. The kernel has its own times and stream and gets what the calls say; the plugin's
 * record of the same work is left out. A non-blocking communicator launches on threads of its own:
 * there the plugin's work within a kernel's time is the kernel's. A kernel of a CUDA graph has no
 * call, and its size is not known.
 */
#ifndef LK_PROFILER_IMPORT_PRELOAD_JOIN_H
#define LK_PROFILER_IMPORT_PRELOAD_JOIN_H

#include "profiler/import/event.h"

/* Join those in the window, if CUPTI recorded a kernel of NCCL there; else nothing changes. Sorts
 * the events. */
enum lk_status lk_preload_join(struct lk_events *e);

#endif
