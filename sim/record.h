/*
 * A simulated run as traces in the measured schema: the same analysis and timeline read both.
 * One trace a rank with the tracks of a real one: host, compute stream, communication stream.
 */
#ifndef LK_SIM_RECORD_H
#define LK_SIM_RECORD_H

#include "base/coll.h"
#include "base/span.h"
#include "base/status.h"
#include "base/trace.h"

#include <stddef.h>
#include <stdint.h>

/* A gradient tensor gets final when this share of a backward is done. */
struct lk_sim_mark {
    double ready;
    int32_t tensor; /* in registration order */
};

struct lk_sim_record {
    struct lk_trace *traces; /* one a rank */
    size_t *capacity;        /* of each one's spans */
    size_t n;
    struct lk_sim_mark *marks; /* by share: the GRADIENT instants of every backward */
    size_t n_marks;
    enum lk_status status; /* the first failure; recording stops there */
};

/* info: what the run was; copied to every rank, with its rank number. */
enum lk_status lk_sim_record_init(struct lk_sim_record *r, const struct lk_run_info *info);
void lk_sim_record_fini(struct lk_sim_record *r); /* zeroes it; safe on a zeroed record */

/* Has the instants of n tensors recorded; ready[i] is tensor i's share. Call before the run. */
enum lk_status lk_sim_record_marks(struct lk_sim_record *r, const double *ready, size_t n);

/* Appends a span to a rank's track. r NULL: nothing. A failure sticks in r->status. */
void lk_sim_record_span(struct lk_sim_record *r, int rank, enum lk_track_kind track,
                        const struct lk_span *s);

/* The name of a collective's spans. */
uint16_t lk_sim_record_name(enum lk_coll coll);

/* Sorts the spans and writes DIR/rankNNNNN.trace.json.gz; the directory is made. */
enum lk_status lk_sim_record_write(struct lk_sim_record *r, const char *dir);

#endif
