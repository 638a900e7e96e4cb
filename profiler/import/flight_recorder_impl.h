/*
 * Make events of a dump's entries, whatever the file is; private to
 * profiler/import/flight_recorder*.c: entries and groups (flight_recorder.c), the files
 * (flight_recorder_pickle.c, flight_recorder_json.c).
 */
#ifndef LK_PROFILER_IMPORT_FLIGHT_RECORDER_IMPL_H
#define LK_PROFILER_IMPORT_FLIGHT_RECORDER_IMPL_H

#include "profiler/import/event.h"
#include "profiler/import/flight_recorder.h"

/* X(key of an entry that is read) */
#define LK_FLIGHT_KEYS(X)                                                                          \
    X(record_id)                                                                                   \
    X(process_group)                                                                               \
    X(collective_seq_id)                                                                           \
    X(profiling_name)                                                                              \
    X(time_created_ns)                                                                             \
    X(duration_ms)                                                                                 \
    X(input_sizes)                                                                                 \
    X(input_dtypes)                                                                                \
    X(output_sizes)                                                                                \
    X(output_dtypes)                                                                               \
    X(state)                                                                                       \
    X(is_p2p)

enum { LK_FLIGHT_MS_PLACES = 6 /* from ms to ns */ };

/* A text of the file, or NULL. */
struct flight_text {
    const char *at;
    size_t n;
};

/* An entry. Numbers are -1 where it has none. */
struct flight_entry {
    int64_t record, sequence, created_ns, duration_ns;
    struct flight_text group, description; /* name and description of the process group */
    struct flight_text name;               /* "nccl:all_reduce", "nccl:send 0->1" */
    struct flight_text state, dtype;
    uint64_t in_elements, out_elements;
    bool wrong; /* a value makes no sense */
    bool p2p;
};

struct flight {
    struct lk_events *out;
    uint32_t lane;
    uint32_t *labels; /* by name: the name that it gets at the end; 0: it stays */
    size_t n_labels, labels_capacity;
    int64_t last_record; /* -1: none */
};

#define LK_FLIGHT_ENTRY                                                                            \
    ((struct flight_entry){.record = -1, .sequence = -1, .created_ns = -1, .duration_ns = -1})

/* Start; f borrows out, which this initialises. lk_flight_fini_ in any case. */
enum lk_status lk_flight_init_(struct flight *f, struct lk_events *out);
void lk_flight_fini_(struct flight *f);
/* Take an entry, or count it as skipped. */
enum lk_status lk_flight_entry_(struct flight *f, const struct flight_entry *x);
/* Take a group of pg_config; ranks: "[0, 1]". */
enum lk_status lk_flight_group_(struct flight *f, struct flight_text name,
                                struct flight_text description, struct flight_text ranks);
/* Give the groups their final names, when all is read. */
void lk_flight_finish_(struct flight *f);

#endif
