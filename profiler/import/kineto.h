/*
 * Traces of torch.profiler (Kineto) and other Chrome traces of PyTorch, of every age: an object
 * with traceEvents, or their array alone; header keys before or behind it. ../../docs/import.md has
 * what is read of an event.
 */
#ifndef LK_PROFILER_IMPORT_KINETO_H
#define LK_PROFILER_IMPORT_KINETO_H

#include "profiler/import/event.h"

/*
 * Read a file, plain or gzipped, into *out (step_range: lk_events_init), which is initialised here
 * and the caller's, also after a failure. LK_EIO; a file that is cut off is read up to there,
 * events that make no sense are skipped and counted.
 */
enum lk_status lk_kineto_read(const char *path, const char *step_range, struct lk_events *out);

#endif
