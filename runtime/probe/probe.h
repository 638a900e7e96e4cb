/*
 * Measurements behind `calibrate`: collectives, co-location, overlap, copies and products.
 *
 * All functions but those of rates are collective: every rank calls them with the same
 * configuration, and every rank gets the same numbers. Quantities that are compared are measured in
 * turn, repetition by repetition, so that drift of the machine cancels. Every sample is kept, in
 * the order in which it was taken; the first `warmup` of a row are warm-up. Times are seconds.
 * Nothing here writes files.
 *
 * Work runs on the calling thread, timed by its clock, or on streams, timed by their events.
 */
#ifndef LK_RUNTIME_PROBE_H
#define LK_RUNTIME_PROBE_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/coll.h"
#include "facts/dtype.h"
#include "facts/samples.h"
#include "runtime/comm/comm.h"

#include <stddef.h>
#include <stdint.h>

/* How long a probe repeats its measurement. */
struct lk_probe_effort {
    size_t repetitions; /* samples kept, without the warm-up; at least 1 */
    size_t warmup;
    double budget_s; /* stop after the repetition in which this has passed; 0: never. Of
                        collectives, rows that it does not hold get fewer samples,
                        LK_PROBE_SAMPLES_MIN at least of those that were asked for */
};

/* A piece of compute: each call does one short unit, the same work every time. */
struct lk_probe_work {
    void (*unit)(void *ctx); /* NULL: a built-in one, about 100 us of multiply-adds in cache */
    void *ctx;
};

struct lk_probe_collectives_config {
    const enum lk_coll *colls; /* borrowed */
    size_t n_colls;
    const enum lk_algo *algos; /* borrowed; skipped for collectives that do not have them */
    size_t n_algos;
    const uint64_t *bytes; /* borrowed; sizes as in facts/coll.h, rounded down to whole elements.
                              AUTO has those, too, between which the communicator says that it takes
                              another algorithm (lk_comm_choice) */
    size_t n_bytes;
    const enum lk_dtype *dtypes; /* borrowed */
    size_t n_dtypes;
    int inside; /* ranks of a node, which are neighbours: collectives among them are measured, too,
                   on all nodes at once; 0 or all ranks: no more */
    bool out_of_place;        /* measure each of them out of place, too */
    bool estimate;            /* ask for the communicator's own estimates */
    struct lk_stream *stream; /* calls are enqueued on it; NULL: they run on the calling thread */
    uint64_t timeout_ns;      /* limit of a row's calls on the stream */
    struct lk_probe_effort effort;
    double burst_s; /* desired length of a back-to-back burst, e.g. 0.005 */
};

/*
 * Time each collective alone (after a barrier) and back to back (a burst of them). One rank gives
 * no rows.
 */
enum lk_status lk_probe_collectives(struct lk_comm *comm,
                                    const struct lk_probe_collectives_config *config,
                                    struct lk_probe_rows *out);

struct lk_probe_pairs_config {
    const int *members; /* ranks, ascending, at least 2; borrowed. The others only wait */
    size_t n_members;
    uint64_t bytes; /* of a transfer, from 1 */
    struct lk_probe_effort effort;
};

struct lk_probe_pairs {
    size_t n_members;
    size_t n, warmup; /* repetitions, and how many of them are warm-up */
    double *Bps;      /* [(repetition * n_members + from) * n_members + to]; from == to: 0 */
    size_t capacity;
};

/*
 * Move bytes between all pairs of members, in both directions, disjoint pairs at once. A rate is
 * that of the receiver, from the first byte to the last. LK_EUNSUPPORTED: the communicator has no
 * transfers. lk_probe_pairs_fini frees *out.
 */
enum lk_status lk_probe_pairs(struct lk_comm *comm, const struct lk_probe_pairs_config *config,
                              struct lk_probe_pairs *out);
void lk_probe_pairs_fini(struct lk_probe_pairs *p);

struct lk_probe_compute_config {
    struct lk_probe_work work;
    double unit_target_s; /* desired length of one timed stretch, e.g. 0.02 */
    struct lk_probe_effort effort;
};

/*
 * Run a fixed stretch of compute on each rank alone, in turn, then on all at once, without
 * communication in the timed part. The straggler law is fitted to the spread of together_s over
 * ranks and repetitions.
 */
enum lk_status lk_probe_colocation(struct lk_comm *comm,
                                   const struct lk_probe_compute_config *config,
                                   struct lk_probe_colocation *out);

/*
 * Measure how much compute and all-reduces of `bytes` slow each other down: compute runs on this
 * thread and the collective on another, as in a training step. All ranks compute in every phase, so
 * the slowdown of co-location is not counted as that of overlap. pre: at least two ranks.
 */
enum lk_status lk_probe_overlap(struct lk_comm *comm, const struct lk_probe_compute_config *config,
                                uint64_t bytes, struct lk_probe_overlap *out);

/* Enqueue one piece of work on a stream. */
typedef enum lk_status (*lk_probe_put)(void *ctx, struct lk_stream *s);

/* The work that runs beside compute, on a stream of its own. */
struct lk_probe_beside {
    uint64_t bytes; /* message size of a call; a multiple of 4 */
    size_t ctas;    /* thread blocks of a surrogate (kernels/ops.h); 0: real all-reduces */
    double Bps;     /* rate at which the surrogate copies; 0: as fast as it can */
};

struct lk_probe_stream_config {
    struct lk_stream *compute, *net; /* streams of one device */
    lk_probe_put unit; /* enqueues a unit of compute, about 1 ms, the same every time */
    void *ctx;
    double unit_target_s; /* as above */
    struct lk_probe_effort effort;
    uint64_t timeout_ns; /* limit of a stretch of work on the streams */
};

/*
 * Measure the same on streams. While a collective waits, its kernels are resident and spin: they
 * occupy multiprocessors. The late rank delays its own stream. On one rank, surrogates replace the
 * collective: the op `hold` waits, and `move` moves bytes within the GPU. A repetition in which one
 * side ended before the other is repeated with longer margins; LK_EEVIDENCE when that does not
 * help. pre: two ranks, or beside->ctas > 0.
 */
enum lk_status lk_probe_overlap_streams(struct lk_comm *comm,
                                        const struct lk_probe_stream_config *config,
                                        const struct lk_probe_beside *beside,
                                        struct lk_probe_overlap *out);

/*
 * ---- Rates of one device, timed by its streams' events: copies by size, products by shape ----
 *
 * These functions are not collective: ranks that do not measure wait at a barrier of the caller's.
 * Copies of all sizes are interleaved; products are measured shape by shape.
 */

struct lk_rates_config {
    struct lk_stream *stream;
    struct lk_probe_effort effort; /* at least three repetitions are taken */
    double burst_s;                /* desired length of a timed burst */
    uint64_t timeout_ns;
};

/* Measure copies of n sizes in all three directions. */
enum lk_status lk_probe_copies(const struct lk_rates_config *config, const uint64_t *bytes,
                               size_t n, struct lk_rate_rows *out);
/* Measure products of n shapes in the device's own element type. */
enum lk_status lk_probe_products(const struct lk_rates_config *config,
                                 const struct lk_product_shape *shapes, size_t n,
                                 struct lk_rate_rows *out);

#endif
