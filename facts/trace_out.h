/*
 * What the writers of a trace file share: times, ranks, events (facts/trace_write.c) and launches
 * (facts/trace_launch.c). Private to these.
 */
#ifndef LK_FACTS_TRACE_OUT_H
#define LK_FACTS_TRACE_OUT_H

#include "base/json.h"
#include "facts/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_trace_work;

/* A step's range on the host, in file time. */
struct step_range {
    uint32_t step;
    int64_t start_ns, end_ns;
    uint32_t track;
};

/* One rank while it is written. */
struct rank_out {
    const struct lk_trace *t;
    bool on_reference; /* apply the clock fit: times become rank 0's */
    uint64_t base_epoch_ns, base_local_ns;
    struct step_range *steps; /* by step */
    size_t n_steps;
    struct lk_trace_work *work;
    uint32_t launch_track;
};

struct trace_out {
    struct lk_json_out *o;
    uint64_t base_ns;
    uint64_t correlation;
    struct rank_out *ranks;
    size_t n_ranks;
};

/* Convert a rank's local time to file time: ns since base_ns; may be negative. */
int64_t lk_trace_file_ns(const struct trace_out *f, const struct rank_out *r, uint64_t local_ns);
/* Write ns as microseconds with three decimals. */
void lk_trace_put_us(struct lk_json_out *o, const char *key, int64_t ns);
/* Begin an event; the caller closes it. track: 0 for the rank's first row. */
void lk_trace_begin_event(struct lk_json_out *o, const char *ph, const char *cat, const char *name,
                          const struct rank_out *r, uint32_t track, int64_t ts_ns);
void lk_trace_write_metadata(struct lk_json_out *o, const char *name, int pid, size_t tid,
                             const char *arg, const char *text, int64_t number);

/* Write the call that launched a span's work, as f->correlation: as recorded, or else assumed. */
void lk_trace_write_launch(const struct trace_out *f, const struct rank_out *r,
                           const struct lk_trace_span *s);
/* Name the rows of recorded calls: below all tracks. */
enum lk_status lk_trace_write_launch_rows(struct lk_json_out *o, const struct lk_trace *t);

#endif
