/*
 * One rank's imported events become its trace, as if lockstep had run it: steps, passes, and
 * collectives from what the launches of its kernels tell.
 *
 * Work on a GPU belongs to the step, and to the pass, in which the host launched it. A pass is one
 * of a micro-batch: autograd's functions are its backward; what is launched before is its forward;
 * behind the last backward, the optimizer. The range of a pass on the GPU goes from its first
 * kernel's start to its last one's end. Without a GPU the host's own ranges are the passes.
 *
 * A collective is ready when the compute work that was launched before it has ended: that is what
 * NCCL's stream waits for.
 */
#ifndef LK_PROFILER_IMPORT_RANK_H
#define LK_PROFILER_IMPORT_RANK_H

#include "facts/trace.h"
#include "profiler/import/event.h"

/* Tells all ranks where steps that nobody marked begin: behind the collectives of a group whose
 * number is `at`, modulo the `every` that a step has of them. */
struct lk_step_phase {
    char *group; /* NULL: not known yet; freed by free */
    uint64_t every, at;
};

struct lk_import_rank_options {
    const char *patterns; /* of communication kernels: profiler/import/breakdown.h */
    const char *source;   /* file, for the trace and for messages; borrowed */
    int nodes;            /* of the job; 0: not known, taken as 1 */
    int rank, world_size; /* for a source that does not say */
    int local_batch;      /* samples of a micro-batch; 0: not known */
    const struct lk_events
        *sizes; /* of a step: of all-reduces and gradients, where the trace has none; or NULL */
    bool steps_by_gpu; /* see struct lk_import_options, both */
    bool drop_last;
    struct lk_step_phase *phase; /* what ranks tell each other, one after the other; or NULL */
    int64_t device; /* the rank's GPU, of a source with several; -1: the one with most events */
};

/* Make a trace of sorted events. LK_EEVIDENCE: the events have no step. */
enum lk_status lk_import_trace(struct lk_events *e, const struct lk_import_rank_options *o,
                               struct lk_trace *out);

#endif
