/*
 * Make a rank's trace; private to profiler/import/rank*.c: steps (rank_steps.c, rank_period.c), the
 * GPU's work (rank_work.c), passes, collectives, gradients, spans and the description (rank.c).
 */
#ifndef LK_PROFILER_IMPORT_RANK_IMPL_H
#define LK_PROFILER_IMPORT_RANK_IMPL_H

#include "profiler/import/rank.h"

struct range {
    int64_t start_ns, end_ns;
    uint32_t number; /* of a step */
};

struct ranges {
    struct range *at;
    size_t n, capacity;
};

/* A piece of work on the GPU, or a collective of the host's. */
struct work {
    const struct lk_import_event *event;
    const struct lk_launch *launch; /* NULL: not in the trace */
    size_t step;                    /* index; SIZE_MAX: before the first */
    size_t pass;                    /* index of the backward it is of, or before */
    enum lk_span_kind phase;        /* FORWARD, BACKWARD, OPTIMIZER; COLLECTIVE */
    int64_t enqueued_ns;            /* when the host asked for what it runs itself; 0: not known */
    bool in_backward;               /* a collective was launched by a backward */
};

/* Compute work by the time of its launch, with the last end of all up to it. */
struct done {
    int64_t launched_ns, end_ns;
};

/* When a bucket, or a gradient, of a backward was ready. */
struct ready {
    size_t step, pass; /* as of struct work */
    size_t index;      /* of the bucket; of the gradient, in the order in which they are ready */
    int64_t at_ns;
};

/* The passes of a step on the GPU, or of the host: by phase and pass, from the first work to the
 * last, with the last launch: a step may reset gradients long before it updates. */
struct pass {
    enum lk_span_kind phase;
    size_t step, pass;
    int64_t start_ns, end_ns, launched_ns;
};

struct passes {
    struct pass *at;
    size_t n, capacity;
};

struct trace_builder {
    struct lk_events *e;
    const struct lk_import_rank_options *o;
    bool *communication; /* by name */
    int64_t end_ns;      /* of the steps that are taken: INT64_MAX, or the start of one left out */
    int64_t begin_ns;    /* of the first step, on the GPU: lk_import_find_work_ */
    struct ranges steps, backwards, forwards, optimizers;
    size_t period; /* collectives, or kernels, of a step that is found by them alone: its passes are
                      not known; 0: steps are marked */
    bool of_kernels;
    bool by_host; /* collectives are told by the host's ranges: none has a kernel */
    struct work *work;
    size_t n_work;
    struct done *done; /* by launch */
    size_t n_done;
    int64_t device; /* the GPU; -1: none */
    int64_t owner;  /* the process that uses it; -1: not known: all are the rank's */
    struct passes passes;
    struct lk_event_detail *buckets; /* of gradients, in order */
    size_t n_buckets, buckets_capacity;
    int world_size;
    bool grouped;        /* some collectives are of groups smaller than the job */
    struct ready *ready; /* of the buckets */
    size_t n_ready, ready_capacity;
    int accumulation;
    uint32_t *tracks; /* of the lanes: index plus one; 0: none */
    uint16_t *ids;    /* of the events' names in the trace; 0: none yet */
    size_t n_ids, ids_capacity, names_capacity;
    struct lk_trace t;
    size_t spans_capacity, tracks_capacity;
};

/* Tracks of the trace; those of streams are in tb->tracks. */
enum { LK_IMPORT_HOST, LK_IMPORT_COMPUTE, LK_IMPORT_COMM, LK_IMPORT_FIXED };

/* ---- rank_steps.c ---- */

/* Find the steps and the host's passes. LK_EEVIDENCE: there are no steps. */
enum lk_status lk_import_find_ranges_(struct trace_builder *tb);
enum lk_status lk_import_add_range_(struct ranges *r, int64_t start, int64_t end, uint32_t number);

/* ---- rank_period.c ---- */

/* Make a step of each period of the collectives, if they have one; of the kernels, if there are no
 * collectives. Sets tb->period, and tb->end_ns to the end of the last step. */
enum lk_status lk_import_steps_of_period_(struct trace_builder *tb);

/* ---- rank_work.c ---- */

/* Return true if no collective of the GPU tb->device is among the events: the host's ranges tell
 * them. Gloo's run on the host, and NCCL's of one rank have no kernel. */
bool lk_import_by_host_(const struct trace_builder *tb);
/* Find what ran on the GPU tb->device, by its step and pass, and when the first step began there.
 * pre: the ranges are found. */
enum lk_status lk_import_find_work_(struct trace_builder *tb);
/* Return the GPU with most events, -1: none. */
int64_t lk_import_busiest_(const struct lk_events *e);
/* Return how many of the ranges, by start, start at or before a time. */
size_t lk_import_begun_(const struct ranges *r, int64_t at);
/* Return the index of the step that a time is in, or of the last one before; SIZE_MAX: none. */
size_t lk_import_step_at_(const struct trace_builder *tb, int64_t at);
bool lk_import_on_gpu_(const struct lk_import_event *x);
/* Return true for an event of the host that is of the rank's process. */
bool lk_import_of_host_(const struct trace_builder *tb, const struct lk_import_event *x);
/* Return the process that uses a GPU, or -1. */
int64_t lk_import_owner_(const struct lk_events *e, int64_t device);

/* Tell the phase of work that the host launched, or did, at a time. */
enum lk_span_kind lk_import_phase_at_(const struct trace_builder *tb, size_t step, int64_t at,
                                      size_t *pass);
/* Return when the compute work launched before a time had ended; 0: none was. */
int64_t lk_import_done_before_(const struct trace_builder *tb, int64_t launched);

/* ---- rank_passes.c ---- */

/* Emit the passes in the order of their last launches. One whose work on another stream starts
 * while the pass before it runs begins where that ends; no end is moved. Sets tb->accumulation.
 * pre: the tracks are there. */
enum lk_status lk_import_add_passes_(struct trace_builder *tb);

/* ---- rank_collectives.c ---- */

/* The host's ranges of collectives that have a detail, by start; `at` is freed by free. */
struct hosts {
    const struct lk_import_event **at;
    size_t n;
};
enum lk_status lk_import_find_hosts_(const struct trace_builder *tb, struct hosts *out);
/* Return what is known of a collective: its own detail, else that of the host's range around its
 * launch (NULL: not known); the function at least by the kernel's name. */
struct lk_event_detail lk_import_about_(const struct trace_builder *tb, const struct hosts *hosts,
                                        const struct lk_import_event *x,
                                        const struct lk_launch *launch);

/* List, in order, what the rank's other file says of a function; *out is freed by free. */
enum lk_status lk_import_sizes_of_(const struct trace_builder *tb, const char *function,
                                   const struct lk_event_detail ***out, size_t *n);

/* Emit the collectives and their kernels; find the buckets, and when they were ready. */
enum lk_status lk_import_add_collectives_(struct trace_builder *tb);

/* ---- rank_gradients.c ---- */

/* Describe what is reduced, the limits of its buckets, and mark when it was ready. */
enum lk_status lk_import_add_gradients_(struct trace_builder *tb);

/* ---- rank.c ---- */

enum lk_status lk_import_add_span_(struct trace_builder *tb, uint32_t track, struct lk_span span,
                                   int64_t start, int64_t end);
/* Find or make a span's id of a name of the events; 0: it has none, or there are too many. */
enum lk_status lk_import_name_id_(struct trace_builder *tb, uint32_t name, uint16_t *out);
/* Set when a kernel was launched, which is before it starts, by whatever clock. */
void lk_import_set_launch_(struct lk_span *span, const struct work *w);

#endif
