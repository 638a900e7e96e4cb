/* The clocks of an import's ranks, and what they tell. */
#ifndef LK_PROFILER_IMPORT_CLOCKS_H
#define LK_PROFILER_IMPORT_CLOCKS_H

#include "facts/trace.h"
#include "profiler/import/event.h"

#include <stdbool.h>

/* Align n ranks with the first one, by where collectives end; those that share a clock take what
 * the first of them has. numbered: collectives number the steps; else those of one clock are
 * numbered by time before (step_match.h). sources: of each rank's file. */
enum lk_status lk_import_place(struct lk_trace *traces, const struct lk_source *const *sources,
                               size_t n, bool numbered);

#endif
