/* Signals that end a rank: its span file is cut to what was written before the process ends. */
#ifndef LK_COMMANDS_RUN_SIGNALS_H
#define LK_COMMANDS_RUN_SIGNALS_H

#include "base/status.h"
#include "profiler/record/span_file.h"

/*
 * From now on SIGTERM, SIGINT and SIGHUP, except those that are ignored, first write into the span
 * file which of them came, and cut it. The process then ends by the
 * signal, within RUN_SIGNALS_GRACE_S seconds. A second signal ends it at once. Main thread.
 */
enum lk_status run_signals_take(struct lk_span_file *f);
/* Let these signals end the process as before. Call it before the file is closed; safe without
 * run_signals_take. */
void run_signals_leave(void);

enum { RUN_SIGNALS_GRACE_S = 2 };

#endif
