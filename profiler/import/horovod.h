/*
 * Read Horovod's timelines (HOROVOD_TIMELINE), which rank 0 writes: a JSON array of Chrome events
 * that ends anywhere when the job was killed. The layout is that of horovod/common/timeline.cc:
 *
 *   a process is a tensor; its ranges lie in each other, and their ends have no names
 *   NEGOTIATE_ALLREDUCE   from the first rank's request for it to the last one's; a tick named "3"
 *                         in it is rank 3's request, unless all ranks had the tensor in their cache
 *   ALLREDUCE             the work; its end has type and shape; in it
 *     NCCL_ALLREDUCE        (or MPI_, GLOO_, CCL_) the transfer, and e.g. copies of a fusion buffer
 *
 * Tensors whose transfers overlap were fused: together they are one collective. It was asked for
 * when rank 0 had asked for its last tensor. A request is as old as the cycle in which the
 * coordinator sees it (HOROVOD_CYCLE_TIME). A request for an all-reduce is a gradient, too. Steps
 * are not marked: cycles are none.
 */
#ifndef LK_PROFILER_IMPORT_HOROVOD_H
#define LK_PROFILER_IMPORT_HOROVOD_H

#include "profiler/import/event.h"

/* Read a timeline. step_range has no meaning here. LK_EIO; LK_EPARSE: it is no array. Events that
 * make no sense are counted, and left out. lk_events_fini in any case. */
enum lk_status lk_horovod_read(const char *path, const char *step_range, struct lk_events *out);

#endif
