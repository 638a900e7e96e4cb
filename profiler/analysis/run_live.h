/*
 * A run that goes on: the last steps of its ranks, from the span files that they write, as a run
 * like any other.
 *
 *     LK_TRY(lk_run_live_folder("out", &dir));        out/k2-b4-a1-r0
 *     st = lk_run_live_read(dir, 20, &run, &goes_on); LK_EEVIDENCE: no step yet
 */
#ifndef LK_PROFILER_ANALYSIS_RUN_LIVE_H
#define LK_PROFILER_ANALYSIS_RUN_LIVE_H

#include "base/status.h"
#include "facts/trace.h"
#include "profiler/analysis/run_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Find the folder, `folder` itself or one just below it, with the newest span file. *out NULL:
 * there is none; the caller frees it. LK_EIO. */
enum lk_status lk_run_live_folder(const char *folder, char **out);

/*
 * Read the last `steps` steps that every rank has ended. goes_on: some rank's writer is there. What
 * a writer is about to finish is left out, and no error. LK_EEVIDENCE: a rank has not begun, or no
 * step behind the warm-up has ended.
 */
enum lk_status lk_run_live_read(const char *dir, uint32_t steps, struct lk_run *out, bool *goes_on);

/* Cut traces to the last `steps` steps that all have ended; what was cut off is not lost. */
void lk_traces_keep_last(struct lk_trace *traces, size_t n, uint32_t steps);

#endif
