/*
 * Tell which spans of a rank's trace are work of its device, for viewers and tools that add it up:
 * nothing may count twice, and nothing may be left out.
 *
 * Work is recorded as ranges (forward, a collective), as kernels, or as both. A CPU's kernels lie
 * on the ranges' own track; a GPU's records lie on a track beside it, of the same stream, may be
 * there for some steps only, and are of norms, too. So it is decided for each range:
 *
 *   forward, backward, optimizer   work where no kernel of the stream is known in the step
 *   collective                     work where no track beside its own has a kernel of its bucket
 *                                  in the step, nor one of NCCL's whose bucket is not known
 *   kernel, copy, memset           always
 */
#ifndef LK_FACTS_TRACE_WORK_H
#define LK_FACTS_TRACE_WORK_H

#include "facts/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_trace_work {
    const struct lk_trace *t;
    struct lk_trace_at {
        uint32_t track, step;
        int32_t index; /* bucket; -1: of NCCL's, not known; -2: no collective's */
    } * kernels;       /* where kernels are known, sorted, each once */
    size_t n_kernels;
    const struct lk_trace_span **collectives; /* by step and index */
    size_t n_collectives;
};

enum lk_status lk_trace_work_init(struct lk_trace_work *w, const struct lk_trace *t);
void lk_trace_work_fini(struct lk_trace_work *w); /* safe on a zeroed one */

/* Return the Kineto category of a span that is device work, or NULL. */
const char *lk_trace_work_category(const struct lk_trace_work *w, const struct lk_trace_span *s);
/* Return the collective that a span is, or whose kernel it is; NULL: of none. */
const struct lk_span *lk_trace_work_collective(const struct lk_trace_work *w,
                                               const struct lk_trace_span *s);

#endif
