/* Tell what else the processors of a run's hosts did while its steps ran, from what the ranks
 * recorded (facts/host_load.h). */
#ifndef LK_PROFILER_ANALYSIS_HOST_LOAD_H
#define LK_PROFILER_ANALYSIS_HOST_LOAD_H

#include "base/status.h"
#include "facts/host_load.h"
#include "profiler/analysis/run_set.h"

/* A host of a run: ranks with one host name. */
struct lk_run_host {
    const char *name;       /* the run's, as all texts */
    const char *machine;    /* containers of one machine have the same */
    size_t rank;            /* index of its first rank */
    size_t n;               /* of its ranks that are here */
    struct lk_host_use use; /* of the machine it is on; n_ranks 0: not known, as not all of the
                               run's ranks recorded it */
};

/* List the hosts of a run, by first rank. The caller frees *out. */
enum lk_status lk_run_hosts(const struct lk_run *run, struct lk_run_host **out, size_t *n);

#endif
