/* The end of a run: what is made from all its parts. */
#ifndef LK_COMMANDS_RUN_FINISH_H
#define LK_COMMANDS_RUN_FINISH_H

#include "base/status.h"
#include "commands/run_options.h"
#include "commands/run_sweep.h"

/*
 * Writes OUT/job.json from the traces of all parts, and prints the summary. A run of too few steps
 * is still a run: the summary says that it makes no job. pre: all parts are done.
 */
enum lk_status run_finish(const struct run_sweep *s, const struct run_options *o, const char *out);

/* The same for one run whose traces and result.json lie in OUT itself: under a foreign launcher. */
enum lk_status run_finish_single(const struct run_options *o, int ranks, const char *out);

#endif
