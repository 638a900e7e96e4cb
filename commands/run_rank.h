/* One rank of a run: the work of a process that a launcher started. */
#ifndef LK_COMMANDS_RUN_RANK_H
#define LK_COMMANDS_RUN_RANK_H

#include "base/status.h"
#include "commands/run_options.h"
#include "runtime/rendezvous/launch.h"

/*
 * Environment variable that our own launcher sets to the directory that a rank writes to. Under
 * another launcher a rank uses --out, which then must be one directory on all hosts, and rank 0
 * makes the traces.
 */
#define RUN_DIR_ENV "LOCKSTEP_RUN_DIR"

/*
 * Run the rank to its end. Files: DIR/rank%d.spans, and by rank 0 DIR/result.json (run_result.h).
 * LK_EREPORTED: our launcher has the text, and tells it once for all ranks.
 */
enum lk_status run_rank(const struct run_options *o, const struct lk_rank_env *env);

#endif
