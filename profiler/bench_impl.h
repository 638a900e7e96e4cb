/* Private to the readers of bench_log.h: their points, and a table of nccl-tests from text or JSON.
 */
#ifndef LK_PROFILER_BENCH_IMPL_H
#define LK_PROFILER_BENCH_IMPL_H

#include "profiler/bench_log.h"

#include <stdint.h>

/* The program that a log names, and where. */
struct bench_program {
    bool named, known; /* known: cluster files have its collective, coll */
    enum lk_coll coll;
    size_t line;
};

/* Find an nccl-tests program or table by the name of its collective: "all_reduce". Return false for
 * an unknown word; *out is written, without its line, on success only. */
bool bench_coll(const char *name, size_t len, struct bench_program *out);
/* Append a point; source in printf style. */
enum lk_status bench_add(struct lk_bench *b, enum lk_coll coll, enum lk_algo algo, int ranks,
                         int nodes, uint64_t bytes, double seconds, const char *source, ...)
    __attribute__((format(printf, 8, 9)));

/* ---- nccl-tests ---- */

struct bench_row {
    size_t line;
    uint64_t bytes;
    double seconds, algbw, busbw; /* GB/s, as printed */
    bool reduces;                 /* a reduction operation is named */
    int root;                     /* -1: none */
    double wrong;                 /* wrong elements that nccl-tests found */
};

struct bench_table {
    const char *path;
    size_t header_line;                                         /* 0: JSON, which has none */
    size_t size, redop, root, time, algbw, busbw, wrong, width; /* columns; SIZE_MAX: absent */
    double time_unit;                                           /* seconds */
    int ranks, nodes;                                           /* 0: unknown */
    struct bench_program program;
    struct bench_row *rows; /* until bench_table_end */
    size_t n_rows, rows_capacity;
};

/* Combine the log's description with the hints. LK_EPARSE where they differ. */
enum lk_status bench_table_begin(struct bench_table *t, const struct lk_bench_hints *hints);
enum lk_status bench_table_row(struct bench_table *t, const struct bench_row *row);
/* Check the rows, append their points and clear the rows, also on failure. */
enum lk_status bench_table_end(struct bench_table *t, struct lk_bench *out);

enum lk_status bench_read_text(const char *path, const char *text, size_t size,
                               const struct lk_bench_hints *hints, struct lk_bench *out);

#endif
