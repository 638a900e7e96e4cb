/*
 * Samples of a calibration: times of collectives, of co-located compute, of overlap, of copies and
 * of matrix products. runtime/probe/probe.h takes them; sim/calibration.h makes numbers of a
 * cluster file from them. Times are seconds. Every sample is kept, in the order in which it was
 * taken; the first `warmup` of a row are warm-up. The arrays belong to the structs.
 */
#ifndef LK_FACTS_SAMPLES_H
#define LK_FACTS_SAMPLES_H

#include "base/words.h"
#include "facts/cluster.h"
#include "facts/coll.h"
#include "facts/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One (collective, algorithm, timing, element type, place, size). */
struct lk_probe_row {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_timing timing;
    enum lk_dtype dtype;
    bool out_of_place;
    uint64_t bytes; /* after rounding, as in facts/coll.h */
    int ranks;
    bool inside;       /* of one node: all nodes measured it at once */
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
struct lk_probe_rows {
    struct lk_probe_row
        *row; /* by collective, algorithm, ranks, element type, place, timing, bytes */
    size_t n;
};
void lk_probe_rows_fini(struct lk_probe_rows *r); /* zeroes it; safe on a zeroed one */

/* Samples that the probes of compute take whatever the budget: fewer have no spread. */
enum { LK_PROBE_SAMPLES_MIN = 3 };

/* Time of the same stretch of compute, entry [repetition * ranks + rank]. */
struct lk_probe_colocation {
    int ranks;
    size_t warmup, n;   /* n repetitions, the first ones warm-up */
    double *alone_s;    /* while the other ranks sleep */
    double *together_s; /* while all ranks compute; kappa = together / alone - 1 */
};
void lk_probe_colocation_fini(struct lk_probe_colocation *c);

/* One repetition an entry, the mean over ranks. */
struct lk_probe_overlap {
    uint64_t bytes;
    size_t warmup, n;
    double *gamma_wait; /* compute slower by this while the comm thread waits for a late rank */
    double *gamma_wire; /* compute slower by this while all-reduces move bytes */
    double *delta;      /* an all-reduce takes longer by this while compute runs */
    double *call_s;     /* and takes this long alone, in a burst */
};
void lk_probe_overlap_fini(struct lk_probe_overlap *o);

/* X(copy, name): from where to where. Host memory is page-locked. */
#define LK_RATE_LIST(X)                                                                            \
    X(LK_RATE_DEVICE_TO_DEVICE, "device to device")                                                \
    X(LK_RATE_HOST_TO_DEVICE, "host to device")                                                    \
    X(LK_RATE_DEVICE_TO_HOST, "device to host")                                                    \
    X(LK_RATE_PRODUCT, "matrix product")

enum lk_rate_kind { LK_RATE_LIST(LK_WORD_VALUE) LK_RATE_COUNT };
extern const struct lk_words lk_rate_words;

/* out = in * transposed(weight), as a linear layer: (rows, inner) by (inner, columns). */
struct lk_product_shape {
    const char *name; /* static storage */
    size_t rows, inner, columns;
};

struct lk_rate_row {
    enum lk_rate_kind kind;
    uint64_t bytes;                /* copied by a call; a copy within the device moves twice that */
    struct lk_product_shape shape; /* of a product */
    enum lk_dtype dtype;           /* of a product: the device's, float32 by tf32 */
    size_t burst, warmup, n;
    double *time_s; /* a call; n of them. n 0: not measured, its buffers do not fit */
};
struct lk_rate_rows {
    struct lk_rate_row *row;
    size_t n;
};
void lk_rate_rows_fini(struct lk_rate_rows *r);
/* Work of a call: bytes copied, or operations (a multiply and an add count as two). */
double lk_rate_work(const struct lk_rate_row *r);

#endif
