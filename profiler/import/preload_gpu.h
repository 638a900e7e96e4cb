/*
 * Private to profiler/import/preload.c: collectives on GPUs, as NCCL's profiler plugin records them
 * (preload/nccl_events.h), on the host's clock.
 *
 * The GPU's clock gives their length and order, not the host's time. A collective starts after its
 * call and ends before the host sees its end. In each second the calls and ends of a communicator
 * so leave an interval for the distance of the clocks; its middle is taken, and half of its width
 * is the error. Without calls (graphs) the shortest way from an end to the host is taken as none.
 */
#ifndef LK_PROFILER_IMPORT_PRELOAD_GPU_H
#define LK_PROFILER_IMPORT_PRELOAD_GPU_H

#include "base/status.h"
#include "facts/foreign_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A collective, by its link. */
struct lk_preload_time {
    uint64_t link;
    int64_t called_ns;          /* its call; 0: there is none */
    int64_t gpu_ns, gpu_end_ns; /* by the GPU's clock */
    int64_t seen_ns;            /* the host saw the end; 0: no work on a GPU was recorded */
    int64_t start_ns, end_ns;   /* on the host's clock */
    uint64_t stamp;             /* of the record that has all of the work */
    uint32_t group, detail;     /* detail: the reader's */
};

struct lk_preload_times {
    struct lk_preload_time *at; /* by link */
    size_t n, capacity;
    int64_t error_ns; /* the largest of a second; -1: of some it is not known */
};

/* Add a record; others than calls with a link and work on a GPU that was seen by the host are
 * ignored. pre: not placed. */
enum lk_status lk_preload_times_add(struct lk_preload_times *t, const struct lk_foreign_record *p);
/* Join the records of each collective, and place them on the host's clock. */
void lk_preload_times_place(struct lk_preload_times *t);
/* Return what is known of a link, or NULL. pre: placed. */
struct lk_preload_time *lk_preload_times_of(const struct lk_preload_times *t, uint64_t link);
void lk_preload_times_fini(struct lk_preload_times *t); /* safe on a zeroed one */

#endif
