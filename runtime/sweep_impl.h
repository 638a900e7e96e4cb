/* What the sweeps share. Private to runtime/sweep*.c and their tests. */
#ifndef LK_RUNTIME_SWEEP_IMPL_H
#define LK_RUNTIME_SWEEP_IMPL_H

#include "runtime/comm.h"
#include "runtime/sweep.h"

#include <stdbool.h>
#include <stddef.h>

/* Every rank's n numbers in `all`, rank by rank. */
enum lk_status lk_sweep_gather(struct lk_comm *comm, const double *mine, size_t n, double *all);
enum lk_status lk_sweep_barrier(struct lk_comm *comm);

/* The smallest or the largest of the ranks' numbers, on all of them. */
enum lk_status lk_sweep_extreme(struct lk_comm *comm, bool largest, double mine, double *out);

/* ---- A stretch of compute on the calling thread ---- */

struct lk_sweep_compute {
    struct lk_sweep_work work;
    float *own;   /* of the built-in unit */
    size_t units; /* of a timed stretch: the same on all ranks, from the fastest */
};
enum lk_status lk_sweep_compute_init(struct lk_sweep_compute *c, struct lk_comm *comm,
                                     const struct lk_sweep_compute_config *config);
void lk_sweep_compute_fini(struct lk_sweep_compute *c);
uint64_t lk_sweep_compute_ns(const struct lk_sweep_compute *c, size_t units);

/* ---- n calls, and their time ---- */

/*
 * How calls are made and timed: put on a stream between two events, or made on the calling thread
 * (stream NULL: the call gets NULL and returns when it is done).
 *
 * A stream is held first, for as long as the host is expected to need for putting all calls there.
 * They then follow each other at the device's pace, as they do in training, where the host is
 * ahead.
 */
struct lk_sweep_clock {
    struct lk_stream *stream;
    struct lk_event *begin, *end;
    uint64_t timeout_ns;
    double put_s; /* the host needed for a call, at the last measurement */
};

struct lk_sweep_time {
    double s;       /* by the stream's events; without a stream the same as host_s */
    double host_s;  /* by the host's clock: from the begin to when the host knew of the end */
    bool host_late; /* calls were still being put there when the first of them began */
};

enum lk_status lk_sweep_clock_init(struct lk_sweep_clock *c, struct lk_stream *stream,
                                   uint64_t timeout_ns);
void lk_sweep_clock_fini(struct lk_sweep_clock *c); /* safe on a zeroed one */
/* n calls, one after the other, all together. */
enum lk_status lk_sweep_clock_time(struct lk_sweep_clock *c, lk_sweep_put call, void *ctx, size_t n,
                                   struct lk_sweep_time *out);

/* How long a stream is held for n calls: see above. */
double lk_sweep_hold_s(const struct lk_sweep_clock *c, size_t n);

/* Seconds between two points that were passed. */
double lk_sweep_between_s(struct lk_event *from, struct lk_event *to);

/* ---- Overlap ---- */

/*
 * Compute beside collectives, by threads of the host or by streams. Every function is called on all
 * ranks, and begins with a barrier. A time that is NaN says that one did not last as long as the
 * other: all ranks call `lengthen` and do the repetition again.
 */
struct lk_overlap_way {
    enum lk_status (*quiet)(void *ctx, double *out_s); /* compute alone */
    /* Compute while a collective waits for rank `late`. */
    enum lk_status (*wait)(void *ctx, int late, double *out_s);
    enum lk_status (*traffic)(void *ctx, size_t calls, double *out_s); /* collectives alone */
    /* Both: time of the calls, and of compute as long as in `quiet` at the rate it had meanwhile.
     */
    enum lk_status (*both)(void *ctx, size_t calls, double *out_traffic_s, double *out_compute_s);
    void (*lengthen)(void *ctx); /* NULL where every repetition counts */
};

struct lk_overlap_plan {
    size_t repetitions, warmup;
    double target_s; /* of a stretch of calls */
    double budget_s;
    uint64_t bytes;
};

enum lk_status lk_overlap_measure(struct lk_comm *comm, const struct lk_overlap_way *way, void *ctx,
                                  const struct lk_overlap_plan *plan, struct lk_sweep_overlap *out);

/* One rank's times of a repetition. */
enum lk_overlap_phase {
    LK_OVERLAP_QUIET,
    LK_OVERLAP_WAIT,
    LK_OVERLAP_TRAFFIC,
    LK_OVERLAP_BOTH,         /* of the calls */
    LK_OVERLAP_BOTH_COMPUTE, /* of compute */
    LK_OVERLAP_ELAPSED,      /* since the start */
    LK_OVERLAP_PHASES
};

/*
 * From the times of all ranks, `world` rows of LK_OVERLAP_PHASES, to a sample of the three: means
 * over ranks of time / undisturbed time - 1; gamma_wait without rank `late`, which never waited
 * (SIZE_MAX: all did); and the time of one of the `calls` alone. False, and nothing kept, where a
 * time is NaN.
 */
bool lk_overlap_keep(struct lk_sweep_overlap *s, const double *all, size_t world, size_t late,
                     size_t calls);

/*
 * Mean time of the units between n_points points of a stream that lie between from_ns and to_ns,
 * whole; NaN when there is none, or the points end before to_ns.
 */
double lk_overlap_unit_s(const uint64_t *points_ns, size_t n_points, uint64_t from_ns,
                         uint64_t to_ns);

#endif
