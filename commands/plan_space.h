/*
 * The configurations that `plan` searches: the axes that the user gave, and for the others the
 * values that a user would try. So many counts of GPUs are among them that the grid is within its
 * limit.
 */
#ifndef LK_COMMANDS_PLAN_SPACE_H
#define LK_COMMANDS_PLAN_SPACE_H

#include "base/status.h"
#include "commands/axis_lists.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>

/*
 * Read the lists of the axes, texts NULL where not given. Those that are not: GPUs, a part of a
 * node and whole nodes, up to the cluster's or 128, ever farther apart; the local batches that were
 * measured; 1 to 8 micro-batches, unless a global batch sets them; caps of 1 to 100 MiB; plain DDP
 * and ZeRO-1 to 3. The current value of each is there, too. Beside a table of throughputs, where
 * each configuration takes a fit, counts double, and caps and sharding are the current ones. *out
 * is zero; call axis_lists_fini after a failure, too.
 */
enum lk_status plan_space_read(const struct lk_evidence_source *e, bool has_global_batch,
                               const char *const texts[LK_AXIS_COUNT], struct axis_lists *out);

#endif
