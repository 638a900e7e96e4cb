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
    const struct lk_event *event;
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
 * last. */
struct pass {
    enum lk_span_kind phase;
    size_t step, pass;
    int64_t start_ns, end_ns;
};

struct passes {
    struct pass *at;
    size_t n, capacity;
};

struct maker {
    struct lk_events *e;
    const struct lk_rank_options *o;
    bool *communication; /* by name */
    int64_t end_ns;      /* of the steps that are taken: INT64_MAX, or the start of one left out */
    int64_t begin_ns;    /* of the first step, on the GPU: lk_rank_find_work_ */
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
    struct lk_event_collective *buckets; /* of gradients, in order */
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

/* Tracks of the trace; those of streams are in m->tracks. */
enum { LK_RANK_HOST, LK_RANK_COMPUTE, LK_RANK_COMM, LK_RANK_FIXED };

/* ---- rank_steps.c ---- */

/* Find the steps and the host's passes. LK_EEVIDENCE: there are no steps. */
enum lk_status lk_rank_find_ranges_(struct maker *m);
enum lk_status lk_rank_add_range_(struct ranges *r, int64_t start, int64_t end, uint32_t number);

/* ---- rank_period.c ---- */

/* Make a step of each period of the collectives, if they have one; of the kernels, if there are no
 * collectives. Sets m->period, and m->end_ns to the end of the last step. */
enum lk_status lk_rank_steps_of_period_(struct maker *m);

/* ---- rank_work.c ---- */

/* Return true if no collective of the GPU m->device is among the events: the host's ranges tell
 * them. Gloo's run on the host, and NCCL's of one rank have no kernel. */
bool lk_rank_by_host_(const struct maker *m);
/* Find what ran on the GPU m->device, by its step and pass, and when the first step began there.
 * pre: the ranges are found. */
enum lk_status lk_rank_find_work_(struct maker *m);
/* Return the GPU with most events, -1: none. */
int64_t lk_rank_busiest_(const struct lk_events *e);
/* Return how many of the ranges, by start, start at or before a time. */
size_t lk_rank_begun_(const struct ranges *r, int64_t at);
/* Return the index of the step that a time is in, or of the last one before; SIZE_MAX: none. */
size_t lk_rank_step_at_(const struct maker *m, int64_t at);
bool lk_rank_on_gpu_(const struct lk_event *x);
/* Return true for an event of the host that is of the rank's process. */
bool lk_rank_of_host_(const struct maker *m, const struct lk_event *x);
/* Return the process that uses a GPU, or -1. */
int64_t lk_rank_owner_(const struct lk_events *e, int64_t device);

/* Tell the phase of work that the host launched, or did, at a time. */
enum lk_span_kind lk_rank_phase_at_(const struct maker *m, size_t step, int64_t at, size_t *pass);
/* Return when the compute work launched before a time had ended; 0: none was. */
int64_t lk_rank_done_before_(const struct maker *m, int64_t launched);

/* ---- rank_passes.c ---- */

/* Emit the passes, cut where they overlap: work of two streams may. Sets m->accumulation. pre: the
 * tracks are there. */
enum lk_status lk_rank_add_passes_(struct maker *m);

/* ---- rank_collectives.c ---- */

/* The host's ranges of collectives that have a detail, by start; `at` is freed by free. */
struct hosts {
    const struct lk_event **at;
    size_t n;
};
enum lk_status lk_rank_find_hosts_(const struct maker *m, struct hosts *out);
/* Return what is known of a collective: its own detail, else that of the host's range around its
 * launch (NULL: not known); the function at least by the kernel's name. */
struct lk_event_collective lk_rank_about_(const struct maker *m, const struct hosts *hosts,
                                          const struct lk_event *x, const struct lk_launch *launch);

/* List, in order, what the rank's other file says of a function; *out is freed by free. */
enum lk_status lk_rank_sizes_of_(const struct maker *m, const char *function,
                                 const struct lk_event_collective ***out, size_t *n);

/* Emit the collectives and their kernels; find the buckets, and when they were ready. */
enum lk_status lk_rank_add_collectives_(struct maker *m);

/* ---- rank_gradients.c ---- */

/* Describe what is reduced, the limits of its buckets, and mark when it was ready. */
enum lk_status lk_rank_add_gradients_(struct maker *m);

/* ---- rank.c ---- */

enum lk_status lk_rank_add_span_(struct maker *m, uint32_t track, struct lk_span span,
                                 int64_t start, int64_t end);
/* Find or make a span's id of a name of the events; 0: it has none, or there are too many. */
enum lk_status lk_rank_name_id_(struct maker *m, uint32_t name, uint16_t *out);
/* Set when a kernel was launched, which is before it starts, by whatever clock. */
void lk_rank_set_launch_(struct lk_span *span, const struct work *w);

#endif
