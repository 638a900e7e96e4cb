/*
 * What the readers of profiler/import/bench_log.h share, private to profiler/bench_*.c: they append
 * points to struct lk_bench, and the text and JSON readers of nccl-tests fill one struct
 * bench_table.
 */
#ifndef LK_PROFILER_IMPORT_BENCH_IMPL_H
#define LK_PROFILER_IMPORT_BENCH_IMPL_H

#include "profiler/import/bench_log.h"

#include <stdbool.h>
#include <stdint.h>

/* The nccl-tests program that a log names, and the line that names it. */
struct bench_program {
    bool named, known; /* the log names one; cluster files have its collective, coll */
    enum lk_coll coll;
    size_t line;
};

/* Find a program by the name of its collective, e.g. "all_reduce", the first len bytes of name.
 * Return false for an unknown name. On success only, *out is set, with line 0. */
bool bench_coll(const char *name, size_t len, struct bench_program *out);
/* Append a point; its source, in printf style, is where it was read. */
enum lk_status bench_add(struct lk_bench *b, enum lk_coll coll, enum lk_algo algo, int ranks,
                         int nodes, uint64_t bytes, double seconds, const char *source, ...)
    __attribute__((format(printf, 8, 9)));

/* ---- nccl-tests ---- */

/* One row of a table: one size of one collective. */
struct bench_row {
    size_t line;
    uint64_t bytes;
    double seconds, algbw, busbw; /* in s; rates in GB/s, as printed */
    bool reduces;                 /* the row names a reduction operation, e.g. sum */
    int root;                     /* -1: none */
    double wrong;                 /* wrong elements that nccl-tests found */
};

struct bench_table {
    const char *path;
    size_t header_line; /* of the text table's header, or of JSON's "results" */
    size_t size, redop, root, time, algbw, busbw, wrong, width; /* text columns; SIZE_MAX: absent */
    double time_unit; /* of printed times, in s; text only */
    int ranks, nodes; /* 0: unknown */
    char hosts[160];  /* ", on host-a, host-b" for the sources of its points; "": unknown */
    struct bench_program program;
    struct bench_row *rows; /* until bench_table_end */
    size_t n_rows, rows_capacity;
};

/* Begin the rows: take what the hints say of the table, e.g. its ranks. LK_EPARSE where log and
 * hints differ; LK_EUSAGE for a hint's collective that cluster files lack. */
enum lk_status bench_table_begin(struct bench_table *t, const struct lk_bench_hints *hints);
/* Note the hosts of the run: all of a few, else the first ones and how many more. */
void bench_table_hosts(struct bench_table *t, const char *const *names, size_t n);
/* Append a copy of a row. */
enum lk_status bench_table_row(struct bench_table *t, const struct bench_row *row);
/* End the rows: check them and append their points to *out. The rows are freed, also on failure. */
enum lk_status bench_table_end(struct bench_table *t, struct lk_bench *out);

/* Append the points of a text log, read from path, to *out. */
enum lk_status bench_read_text(const char *path, const char *text, size_t size,
                               const struct lk_bench_hints *hints, struct lk_bench *out);

/* Return true if a text has a table of the OSU micro-benchmarks; append its points to *out. */
bool bench_is_osu(const char *text, size_t size);
enum lk_status bench_read_osu(const char *path, const char *text, size_t size,
                              const struct lk_bench_hints *hints, struct lk_bench *out);

/* Set the rate of a link by iperf3's JSON (--json). */
struct lk_json;
bool bench_is_iperf(struct lk_json *root);
enum lk_status bench_read_iperf(const char *path, struct lk_json *root, struct lk_bench *out);

#endif
