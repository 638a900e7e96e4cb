/* Inside the readers of nccl-tests: a table of one run, whether it came as text or as JSON. */
#ifndef LK_PROFILER_BENCH_IMPL_H
#define LK_PROFILER_BENCH_IMPL_H

#include "profiler/bench_log.h"

#include <stdint.h>

struct bench_row {
    size_t line;
    uint64_t bytes;
    double seconds, algbw, busbw; /* GB/s, as printed */
    bool reduces;                 /* a reduction operation is named */
    int root;                     /* -1: none */
    double wrong;                 /* wrong elements that it found */
};

struct bench_table {
    const char *path;
    size_t header_line;                                         /* 0: JSON, which has none */
    size_t size, redop, root, time, algbw, busbw, wrong, width; /* columns; SIZE_MAX: absent */
    double time_unit;                                           /* seconds */
    int ranks, nodes;                                           /* 0: not said */
    bool has_coll, coll_known;
    enum lk_coll coll;
    size_t coll_line;
    struct bench_row *rows; /* until bench_table_end */
    size_t n_rows, rows_capacity;
};

/* Joins what the log says with the hints. LK_EPARSE where they differ. */
enum lk_status bench_table_begin(struct bench_table *t, const struct lk_bench_hints *hints);
enum lk_status bench_table_row(struct bench_table *t, const struct bench_row *row);
/* Checks the rows, appends their points and forgets the rows, also when it fails. */
enum lk_status bench_table_end(struct bench_table *t, struct lk_bench *out);

enum lk_status bench_read_text(const char *path, const char *text, size_t size,
                               const struct lk_bench_hints *hints, struct lk_bench *out);
enum lk_status bench_read_json(const char *path, const char *text, size_t size,
                               const struct lk_bench_hints *hints, struct lk_bench *out);

#endif
