/*
 * Sum up which ranks others waited for, as a rank says that hears of all (struct lk_lateness):
 * Horovod's coordinator notes when each rank asked for a tensor. The rank that asked last made the
 * others wait for it alone, from the time at which the one before it had asked.
 */
#ifndef LK_PROFILER_IMPORT_LATENESS_H
#define LK_PROFILER_IMPORT_LATENESS_H

#include "base/status.h"
#include "base/table.h"
#include "profiler/import/event.h"

/* Count a request of which the order is known, and its last rank. */
enum lk_status lk_lateness_add(struct lk_lateness *l, const struct lk_late *x);
/* Make a table: how often, and how long in all, a rank was waited for alone. Time in which several
 * requests wait counts once. *out NULL: there were no requests. Sorts the list. */
enum lk_status lk_lateness_table(struct lk_lateness *l, struct lk_table **out);
void lk_lateness_fini(struct lk_lateness *l); /* zeroes it; safe on a zeroed one */

#endif
