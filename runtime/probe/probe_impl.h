/* Functions that the probes share. Private to runtime/probe and its tests. */
#ifndef LK_RUNTIME_PROBE_IMPL_H
#define LK_RUNTIME_PROBE_IMPL_H

#include "runtime/comm/comm.h"
#include "runtime/probe/probe.h"

#include <stdbool.h>
#include <stddef.h>

/* Return true if a probe is over after n repetitions, warm-up included, that took elapsed_s: there
 * are enough, or the budget is spent and there are `least` without the warm-up. */
bool lk_probe_over(const struct lk_probe_effort *e, size_t n, size_t least, double elapsed_s);

/* Reduce the ranks' numbers to the smallest or the largest, on all ranks. */
enum lk_status lk_probe_extreme(struct lk_comm *comm, bool largest, double mine, double *out);

/* ---- The time of n calls ---- */

/*
 * A clock times calls that are enqueued on a stream between two events, or made on the calling
 * thread (stream NULL: the call gets NULL and returns when it is done).
 *
 * The clock first delays the stream for as long as the host is expected to need to enqueue all
 * calls. They then follow each other at the device's rate, as in training, where the host is ahead.
 */
struct lk_probe_clock {
    struct lk_stream *stream;
    struct lk_event *begin, *end;
    uint64_t timeout_ns;
    double put_s; /* time that the host needed to enqueue a call, at the last measurement */
};

struct lk_probe_time {
    double s;       /* by the stream's events; without a stream the same as host_s */
    double host_s;  /* by the host's clock: from the begin until the host knew of the end */
    bool host_late; /* calls were still being enqueued when the first of them began */
};

enum lk_status lk_probe_clock_init(struct lk_probe_clock *c, struct lk_stream *stream,
                                   uint64_t timeout_ns);
void lk_probe_clock_fini(struct lk_probe_clock *c); /* safe on a zeroed one */
/* Time n calls, made one after the other, as a whole. */
enum lk_status lk_probe_clock_time(struct lk_probe_clock *c, lk_probe_put call, void *ctx, size_t n,
                                   struct lk_probe_time *out);

/* Return how long a stream is delayed before n calls: see above. */
double lk_probe_hold_s(const struct lk_probe_clock *c, size_t n);

/* Return the seconds between two points that were passed. */
double lk_probe_between_s(struct lk_event *from, struct lk_event *to);

/* ---- Overlap ---- */

/*
 * A way to run compute beside collectives: threads of the host, or streams. Every function is
 * called on all ranks, and begins with a barrier. A time is NaN when one side ended before the
 * other: then all ranks call `lengthen` and repeat the repetition.
 */
struct lk_overlap_ops {
    enum lk_status (*quiet)(void *ctx, double *out_s); /* compute alone */
    /* Run compute while a collective waits for rank `late`. */
    enum lk_status (*wait)(void *ctx, int late, double *out_s);
    enum lk_status (*traffic)(void *ctx, size_t calls, double *out_s); /* collectives alone */
    /* Run both: return the time of the calls, and that of the compute of `quiet` at the rate that
     * compute had meanwhile. */
    enum lk_status (*both)(void *ctx, size_t calls, double *out_traffic_s, double *out_compute_s);
    void (*lengthen)(void *ctx); /* NULL: every repetition counts */
};

struct lk_overlap_plan {
    struct lk_probe_effort effort;
    double target_s; /* desired length of a stretch of calls */
    uint64_t bytes;
};

enum lk_status lk_overlap_measure(struct lk_comm *comm, const struct lk_overlap_ops *ops, void *ctx,
                                  const struct lk_overlap_plan *plan, struct lk_probe_overlap *out);

/* Index of a rank's times of a repetition. */
enum lk_overlap_phase {
    LK_OVERLAP_QUIET,
    LK_OVERLAP_WAIT,
    LK_OVERLAP_TRAFFIC,
    LK_OVERLAP_BOTH,         /* time of the calls */
    LK_OVERLAP_BOTH_COMPUTE, /* time of compute */
    LK_OVERLAP_ELAPSED,      /* time since the start */
    LK_OVERLAP_PHASES
};

/*
 * Add a sample from the times of all ranks, `world` rows of LK_OVERLAP_PHASES: the three slowdowns,
 * means over ranks of time / undisturbed time - 1 (gamma_wait leaves out rank `late`, which never
 * waited; SIZE_MAX: all did), and the time of one of the `calls` alone. Return false, and add
 * nothing, if a time is NaN.
 */
bool lk_overlap_keep(struct lk_probe_overlap *s, const double *all, size_t world, size_t late,
                     size_t calls);

/*
 * Return the mean time of those units, between n_points points of a stream, that lie entirely
 * between from_ns and to_ns; NaN when there is none, or the points end before to_ns.
 */
double lk_overlap_unit_s(const uint64_t *points_ns, size_t n_points, uint64_t from_ns,
                         uint64_t to_ns);

#endif
