/*
 * Data bases that Nsight Systems exports (nsys export --type sqlite, or profile --export=sqlite),
 * of every schema: tables and columns come and go, so each is asked for. Read by libsqlite3, which
 * is opened at run time.
 */
#ifndef LK_PROFILER_IMPORT_NSYS_H
#define LK_PROFILER_IMPORT_NSYS_H

#include "profiler/import/event.h"

/* Read a data base, plain or gzipped, as lk_kineto_read reads a trace. It may be of several
 * processes and GPUs. LK_EUNSUPPORTED: libsqlite3 is missing. LK_EPARSE: it is no such data base.
 */
enum lk_status lk_nsys_read(const char *path, const char *step_range, struct lk_events *out);

#endif
