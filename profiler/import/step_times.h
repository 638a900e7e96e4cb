/*
 * Tables of how long each rank worked in each step, as a program's own timers write them: CSV,
 * plain or gzipped, a row for a rank and a step, in any order.
 *
 *     rank,host,step,own_ms
 *     0,node1,5,104.2
 *
 * own_s, own_ms or own_us is what the rank does by itself (compute, input, gaps) without waiting in
 * collectives. host may be left out; other columns are the program's own and are ignored. A trace
 * of ten thousand ranks has hundreds of events for each of these rows, so the reader is one of its
 * own: base/csv.h keeps every field, and this one only the time.
 */
#ifndef LK_PROFILER_IMPORT_STEP_TIMES_H
#define LK_PROFILER_IMPORT_STEP_TIMES_H

#include "facts/step_times.h"

#include <stdbool.h>

/* Return true if the first line of the file names columns rank, step and a time of these. */
bool lk_step_times_is(const char *path);
/* Read a table. LK_EPARSE names file, line and column: a value is none, a rank has a step twice or
 * two hosts; there are less than two ranks. *out is freed by lk_step_times_fini. */
enum lk_status lk_step_times_read(const char *path, struct lk_step_times *out);

#endif
