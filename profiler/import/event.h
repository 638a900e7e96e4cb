/*
 * Events on lanes are what an importer reads of one rank, whatever the format. Importers add them
 * through the functions below, in any order; profiler/import/rank.h makes a trace of them.
 *
 * Times are ns on the rank's clock, from 1970 where the source says so. What a source cannot know
 * stays unknown: a collective's fields are 0, a link is 0.
 */
#ifndef LK_PROFILER_IMPORT_EVENT_H
#define LK_PROFILER_IMPORT_EVENT_H

#include "base/status.h"
#include "facts/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk_event_kind {
    LK_EVENT_KERNEL, /* these three ran on a GPU */
    LK_EVENT_COPY,
    LK_EVENT_MEMSET,
    LK_EVENT_LAUNCH, /* a call that puts work on a GPU, told by its link; not among the events */
    LK_EVENT_SYNC,   /* a call that waits for a GPU */
    LK_EVENT_STEP,   /* a range of the host: one step; detail is its number */
    LK_EVENT_INPUT,  /* waiting for a batch */
    LK_EVENT_FORWARD,
    LK_EVENT_BACKWARD,
    LK_EVENT_OPTIMIZER,
    LK_EVENT_ENQUEUE,  /* the host asks for a collective, which another thread or a GPU then runs */
    LK_EVENT_GRADIENT, /* autograd has a parameter's gradient */
    LK_EVENT_COLLECTIVE /* a collective as the host sees it: enqueued on a GPU, or run by the host
                         */
};

struct lk_import_event {
    int64_t start_ns, end_ns;
    uint64_t link;   /* the same for a launch and the work that it put on a GPU; 0: none */
    uint64_t bytes;  /* of copies and memsets */
    uint32_t name;   /* index of a name */
    uint32_t lane;   /* index of a lane */
    uint32_t detail; /* of kernels, collectives, enqueues, gradients: index of a detail plus one;
                        0: none */
    uint8_t kind;
};

/* A call that puts work on a GPU. A trace has as many as kernels, so they are kept small. */
struct lk_launch {
    uint64_t link;
    int64_t start_ns;
    uint32_t length_ns; /* at most 4 s */
    uint32_t lane;
};

/* A thread of a process, or a stream of a GPU. */
struct lk_lane {
    int64_t process, thread; /* of a GPU: device and stream; of one that several processes use,
                                LK_SHARED_DEVICE times 0, 1, ... are added for each */
    int64_t owner;           /* of a GPU: the process that uses it; -1: not known */
    bool gpu;
    bool autograd; /* a thread that runs backwards */
};

#define LK_SHARED_DEVICE (INT64_C(1) << 32)

/* How far a collective had come when its rank wrote the file. */
enum lk_collective_state {
    LK_COLLECTIVE_STATE_UNKNOWN,
    LK_COLLECTIVE_SCHEDULED,
    LK_COLLECTIVE_STARTED,
    LK_COLLECTIVE_COMPLETED
};

/* A detail says what is known of a collective; of a gradient, elements and dtype. A gradient's
 * function, where it has one, is LK_GRADIENT_SIZE. */
#define LK_GRADIENT_SIZE "gradient"

struct lk_event_detail {
    uint32_t function; /* name, as NCCL's: all_reduce */
    uint32_t group;    /* name of the process group; 0: not known */
    uint32_t ranks;    /* of the group; 0: not known */
    uint64_t elements; /* sent by a rank; 0: not known */
    uint64_t sequence; /* its number in the group, the same on all ranks; 0: not known */
    enum lk_dtype dtype;
    bool dtype_known;
    uint8_t state; /* enum lk_collective_state */
};

/* Bytes that the rank sent to another over a network; busy: a message was on its way. */
struct lk_event_sent {
    int64_t start_ns, end_ns;
    int to; /* rank */
    uint64_t bytes, busy_ns;
};

/* A process group whose ranks are known. */
struct lk_event_group {
    uint32_t name;
    size_t first, n; /* of the ranks of struct lk_events, ascending */
};

/* A source of events says this of itself. What it does not say stays as lk_events_init leaves it:
 * 0, NULL, or as noted. */
struct lk_source {
    const char *format;   /* "Kineto"; a literal */
    int rank, world_size; /* -1, 0: not known */
    char *host;
    char *device;  /* name of the GPU */
    char *backend; /* of collectives */
    struct {
        char *name;       /* sources with the same name share a clock; NULL: they do not */
        int64_t epoch_ns; /* what is added to times to make them those from 1970 */
        double drift_ppb; /* ns that the wall clock gains on the source's in a second; NaN: not
                             known */
    } clock;
    struct {
        int64_t spent_ns, recorded_ns; /* recording took so much of the process's threads, in so
                                          long; 0: not known */
        int64_t made_ns;               /* making the file took so long; 0: not known */
    } cost;
    uint64_t n_read, n_skipped; /* events in the file; those that could not be read */
    bool cut;                   /* the file ended too early */
    bool lost;                  /* its oldest collectives were overwritten, or left out */
    bool blocking; /* its collectives are calls in which the host waits until they are done */
    char **notes;  /* for the user: what the source has, and what it does not say */
    size_t n_notes, notes_capacity;
};
void lk_source_fini(struct lk_source *s); /* zeroes it; safe on a zeroed one */

struct lk_events {
    struct lk_import_event *events;
    size_t n_events, events_capacity;
    struct lk_launch *launches; /* by link once lk_events_sort was called */
    size_t n_launches, launches_capacity;
    struct lk_lane *lanes;
    size_t n_lanes, lanes_capacity;
    struct lk_event_detail *details;
    size_t n_details, details_capacity;
    struct lk_event_group *groups;
    size_t n_groups, groups_capacity;
    struct lk_event_sent *sent;
    size_t n_sent, sent_capacity;
    int *ranks; /* of the groups */
    size_t n_ranks, ranks_capacity;
    char *names; /* texts with their NULs, one after the other */
    size_t names_bytes, names_capacity;
    uint32_t *name_at; /* offset of each; name 0 is "" */
    size_t n_names, name_at_capacity;
    uint32_t *slots; /* hash table of names: index plus one */
    size_t n_slots;
    const char *step_range;
    int64_t window_start_ns, window_end_ns; /* only what lies between is whole; 0, 0: all is */
    struct lk_source source;
};

/* Make an empty list. step_range: ranges whose names start so are steps, beside those that are
 * known; NULL: none. Borrowed. */
enum lk_status lk_events_init(struct lk_events *e, const char *step_range);
void lk_events_fini(struct lk_events *e); /* zeroes it; safe on a zeroed one */
/* Intern the n bytes of a text. Texts beyond 16 MiB in all, and of a text the bytes beyond 1 KiB,
 * are left out. */
enum lk_status lk_events_name(struct lk_events *e, const char *text, size_t n, uint32_t *out);
/* As lk_events_name, of a collective: by its own name (facts/coll.h) where the text is one of a
 * collective's names, else as it is. */
enum lk_status lk_events_function(struct lk_events *e, const char *text, size_t n, uint32_t *out);
const char *lk_events_text(const struct lk_events *e, uint32_t name);
/* Find or make a lane. Beyond LK_LANES_MAX the last one stands for all others. */
enum { LK_LANES_MAX = 4096 };
enum lk_status lk_events_lane(struct lk_events *e, int64_t process, int64_t thread, bool gpu,
                              uint32_t *out);
/* Append a detail; *out is its index plus one. More elements than LK_TENSOR_ELEMS_MAX count as not
 * known. */
enum lk_status lk_events_detail(struct lk_events *e, const struct lk_event_detail *c,
                                uint32_t *out);
/* Append a group; its ranks are copied. */
enum lk_status lk_events_group(struct lk_events *e, uint32_t name, const int *ranks, size_t n);
enum lk_status lk_events_sent(struct lk_events *e, const struct lk_event_sent *s);
/* Append an event; a LAUNCH becomes a struct lk_launch if it has a link. */
enum lk_status lk_events_add(struct lk_events *e, const struct lk_import_event *event);
/* Append a note for the user, a sentence without the file's name. */
enum lk_status lk_events_note(struct lk_events *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Leave out the events that do not lie in the window, if there is one. */
void lk_events_keep_window(struct lk_events *e);
/* Sort events by start and launches by link, when all are there. */
void lk_events_sort(struct lk_events *e);
/* Return the launch of an event, or NULL: it is not in the trace. pre: sorted. */
const struct lk_launch *lk_events_launch(const struct lk_events *e,
                                         const struct lk_import_event *event);

#endif
