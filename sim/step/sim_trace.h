/*
 * A simulated run is written as traces in the measured schema, so that the same analysis and
 * timeline read both. Each rank has a trace with the tracks of a real one: host, compute stream,
 * communication stream.
 */
#ifndef LK_SIM_SIM_TRACE_H
#define LK_SIM_SIM_TRACE_H

#include "base/status.h"
#include "facts/coll.h"
#include "facts/job.h"
#include "facts/span.h"
#include "facts/trace.h"

#include <stddef.h>
#include <stdint.h>

/* A gradient tensor is final when this share of a backward is done. */
struct lk_sim_mark {
    double ready;
    int32_t tensor; /* in registration order */
};

struct lk_sim_trace {
    struct lk_trace *traces; /* one a rank */
    size_t *capacity;        /* of each one's spans */
    size_t n;
    struct lk_sim_mark *marks; /* by share: the GRADIENT instants of every backward */
    size_t n_marks;
    enum lk_status status; /* the first failure; recording stops there */
};

/*
 * Begin the traces; every rank gets a copy of info with its rank number. With `job` the instants at
 * which its gradients are final in a backward are recorded, too.
 */
enum lk_status lk_sim_trace_init(struct lk_sim_trace *r, const struct lk_run_info *info,
                                 const struct lk_job *job);
void lk_sim_trace_fini(struct lk_sim_trace *r); /* zeroes it; safe on a zeroed one */

/* Append a span to a rank's track; r NULL does nothing. A failure stays in r->status. */
void lk_sim_trace_span(struct lk_sim_trace *r, int rank, enum lk_track_kind track,
                       const struct lk_span *s);

/* Return the name id of a collective's spans. */
uint16_t lk_sim_trace_name(enum lk_coll coll);

/* Sort the spans and write DIR/rankNNNNN.trace.json.gz; the directory is made. */
enum lk_status lk_sim_trace_write(struct lk_sim_trace *r, const char *dir);

#endif
