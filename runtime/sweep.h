/*
 * Measurements behind `calibrate`: collectives, co-location, overlap, copies and products.
 *
 * All functions but those of one device (the last ones) are collective: every rank calls them with
 * the same configuration, and every rank gets the same numbers. What is compared is interleaved
 * (repetition by repetition), so that drift of the machine cancels. Every sample is kept, in the
 * order in which it was taken; the first `warmup` of a row are warm-up. Times are seconds. Nothing
 * here writes files.
 *
 * Work runs on the calling thread, timed by its clock, or on streams, timed by their events.
 */
#ifndef LK_RUNTIME_SWEEP_H
#define LK_RUNTIME_SWEEP_H

#include "base/cluster.h"
#include "base/coll.h"
#include "base/dtype.h"
#include "base/status.h"
#include "runtime/comm.h"

#include <stddef.h>
#include <stdint.h>

/* A stretch of compute: one call does one short unit, the same work every time. */
struct lk_sweep_work {
    void (*unit)(void *ctx); /* NULL: the built-in one, about 100 us of multiply-adds in cache */
    void *ctx;
};

struct lk_sweep_collectives_config {
    const enum lk_coll *colls; /* borrowed */
    size_t n_colls;
    const enum lk_algo *algos; /* borrowed; those that do not exist for a collective are skipped */
    size_t n_algos;
    const uint64_t *bytes; /* borrowed; as in base/coll.h; rounded down to whole elements a rank */
    size_t n_bytes;
    const enum lk_dtype *dtypes; /* borrowed */
    size_t n_dtypes;
    bool out_of_place;        /* each of them also out of place */
    bool estimate;            /* ask the communicator what it expects */
    struct lk_stream *stream; /* calls are put on it; NULL: run on the calling thread */
    uint64_t timeout_ns;      /* for a row's calls on the stream */
    size_t repetitions;       /* samples kept beside the warm-up */
    size_t warmup;
    double budget_s; /* stop after a whole repetition when this has passed; 0: never */
    double burst_s;  /* length aimed at of a back-to-back burst, e.g. 0.005 */
};

/* One (collective, algorithm, timing, element type, place, size). */
struct lk_sweep_row {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_timing timing;
    enum lk_dtype dtype;
    bool out_of_place;
    uint64_t bytes; /* after rounding, as in base/coll.h */
    int ranks;
    double estimate_s; /* what the communicator expects; NaN: it does not say, or was not asked */
    size_t burst;      /* calls a sample is the mean of: 1 where timed alone */
    size_t warmup;     /* of the n samples, the first ones */
    bool on_stream;
    double *time_s; /* per call, from the rank's own arrival: the largest over ranks */
    double *wire_s; /* per call, from the last arrival (smallest over ranks): no skew in it */
    double *host_s; /* as time_s, by the host's clock to the end of its wait: on a stream more */
    size_t n;
    size_t n_late; /* samples on a stream whose calls the host put there too late: its pace */
};
struct lk_sweep_rows {
    struct lk_sweep_row *row; /* by collective, algorithm, element type, place, timing, bytes */
    size_t n;
};
void lk_sweep_rows_fini(struct lk_sweep_rows *r); /* zeroes it; safe on a zeroed one */

/*
 * Times each collective alone (after a barrier) and back to back (a burst of them). With one rank
 * there are no rows.
 */
enum lk_status lk_sweep_collectives(struct lk_comm *comm,
                                    const struct lk_sweep_collectives_config *config,
                                    struct lk_sweep_rows *out);

/* Samples that the two below take whatever the budget: fewer have no spread to speak of. */
enum { LK_SWEEP_SAMPLES_MIN = 3 };

struct lk_sweep_compute_config {
    struct lk_sweep_work work;
    double unit_target_s; /* length aimed at of one timed stretch, e.g. 0.02 */
    size_t repetitions, warmup;
    double budget_s; /* as above */
};

/* Time of the same stretch of compute, entry [repetition * ranks + rank]. */
struct lk_sweep_colocation {
    int ranks;
    size_t warmup, n;   /* n repetitions, the first ones warm-up */
    double *alone_s;    /* while the other ranks sleep */
    double *together_s; /* while all ranks compute; kappa = together / alone - 1 */
};
void lk_sweep_colocation_fini(struct lk_sweep_colocation *c);

/*
 * Runs a fixed stretch of compute on each rank alone, in turn, then on all at once, without
 * communication in the timed part. The spread of together_s over ranks and repetitions is what the
 * straggler law is fitted from.
 */
enum lk_status lk_sweep_colocation(struct lk_comm *comm,
                                   const struct lk_sweep_compute_config *config,
                                   struct lk_sweep_colocation *out);

/* One repetition an entry, the mean over ranks. */
struct lk_sweep_overlap {
    uint64_t bytes;
    size_t warmup, n;
    double *gamma_wait; /* compute slower by this while the comm thread waits for a late rank */
    double *gamma_wire; /* compute slower by this while all-reduces move bytes */
    double *delta;      /* an all-reduce takes longer by this while compute runs */
    double *call_s;     /* and takes this long alone, in a burst */
};
void lk_sweep_overlap_fini(struct lk_sweep_overlap *o);

/*
 * Measures how compute and all-reduces of `bytes` slow each other, compute on this thread and the
 * collective on another, as in a training step. All ranks compute in every phase, so co-location is
 * not counted as overlap. pre: at least two ranks.
 */
enum lk_status lk_sweep_overlap(struct lk_comm *comm, const struct lk_sweep_compute_config *config,
                                uint64_t bytes, struct lk_sweep_overlap *out);

/* Puts one piece of work on a stream. */
typedef enum lk_status (*lk_sweep_put)(void *ctx, struct lk_stream *s);

/* What runs beside compute on a stream of its own. */
struct lk_sweep_beside {
    uint64_t bytes; /* of a call; a multiple of 4 */
    size_t ctas;    /* thread blocks of a stand-in (kernels/ops.h); 0: real all-reduces */
    double Bps;     /* bytes that the stand-in copies a second; 0: as fast as it can */
};

struct lk_sweep_stream_config {
    struct lk_stream *compute, *net; /* of one device */
    lk_sweep_put unit; /* puts a unit of compute, about 1 ms, on a stream: the same every time */
    void *ctx;
    double unit_target_s; /* as above */
    size_t repetitions, warmup;
    double budget_s;
    uint64_t timeout_ns; /* for a stretch of work on the streams */
};

/*
 * The same on streams. While a collective waits, its kernels are resident and spin: they hold
 * multiprocessors. The late rank holds its own stream back. Without another rank stand-ins take the
 * collective's place: `hold` waits and `move` moves bytes within the GPU. A repetition in which one
 * did not last as long as the other is done again with longer margins; LK_EEVIDENCE when that does
 * not help. pre: two ranks, or beside->ctas > 0.
 */
enum lk_status lk_sweep_overlap_streams(struct lk_comm *comm,
                                        const struct lk_sweep_stream_config *config,
                                        const struct lk_sweep_beside *beside,
                                        struct lk_sweep_overlap *out);

#endif
