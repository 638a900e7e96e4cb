/*
 * Watch a run while it goes on: its step, what of it is waiting, the rank or host that the rules of
 * blame name (profiler/analysis/findings.h) from its last steps alone, and what watching costs.
 * Each look is an analysis of these steps like any other.
 */
#ifndef LK_COMMANDS_WATCH_H
#define LK_COMMANDS_WATCH_H

#include "base/page.h"
#include "base/status.h"
#include "profiler/analysis/run_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATCH_STEPS = 30 /* the last ones, that are looked at */ };

struct watch {
    double every_s;    /* between looks; more where they would take more than a fiftieth of that */
    size_t columns;    /* of the terminal that the line is written over on; 0: lines of their own */
    uint64_t began_ns; /* lk_monotonic_ns */
    double cpu_began_s;  /* processor time of this process */
    uint64_t next_ns;    /* of the next look */
    double look_began_s; /* processor time */
    char *line;          /* the last one; NULL: there was none */
};

void watch_begin(struct watch *w, double every_s);
/* Leave the last line, where it was written over, and what watching took; frees what the watch
 * holds.
 */
void watch_end(struct watch *w);
/* Return true if it is time for a look, which then begins. */
bool watch_due(struct watch *w);
/* Return the seconds until the next look. */
double watch_left_s(const struct watch *w);
/* End a look. run: what was seen, NULL: nothing, for the reason `why`. */
enum lk_status watch_show(struct watch *w, const struct lk_run *run, const char *why);

/* Watch the run that ranks write to a folder until it ends, or for deadline_s (0: for ever);
 * *ended: it has. */
enum lk_status watch_folder(const char *folder, double every_s, double deadline_s, bool *ended,
                            struct lk_page *page);

#endif
