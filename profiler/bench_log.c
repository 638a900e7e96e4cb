/*
 * Points of measured collectives, and tables of nccl-tests: their collective, their machine, and
 * the consistency of their rows.
 */
#include "profiler/bench_impl.h"

#include "base/array.h"
#include "base/file.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lk_bench_fini(struct lk_bench *b)
{
    for (size_t i = 0; i < b->n_points; i++)
        lk_quantity_fini(&b->points[i].time_s);
    free(b->points);
    free(b->gpu);
    free(b->nccl_version);
    *b = (struct lk_bench){0};
}

/* nccl-tests' programs whose collectives cluster files lack: src/ of NVIDIA/nccl-tests 2.19. */
static const char *const others[] = {"alltoall", "alltoallv", "gather",   "hypercube",
                                     "reduce",   "scatter",   "sendrecv", "send_recv"};

static bool is_word(const char *word, const char *text, size_t len)
{
    return strlen(word) == len && !strncmp(word, text, len);
}

bool bench_coll(const char *name, size_t len, struct bench_program *out)
{
    for (int c = 0; c < LK_COLL_COUNT; c++)
        if (is_word(lk_coll_name((enum lk_coll)c), name, len)) {
            *out = (struct bench_program){.named = true, .known = true, .coll = (enum lk_coll)c};
            return true;
        }
    for (size_t i = 0; i < LK_COUNT(others); i++)
        if (is_word(others[i], name, len)) {
            *out = (struct bench_program){.named = true};
            return true;
        }
    return false;
}

enum lk_status bench_add(struct lk_bench *b, enum lk_coll coll, enum lk_algo algo, int ranks,
                         int nodes, uint64_t bytes, double seconds, const char *source, ...)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_point p = {coll,  algo,  LK_TIMING_BACK_TO_BACK, ranks,
                                 nodes, bytes, lk_quantity_none()};
    char *text = NULL;
    va_list ap;

    va_start(ap, source);
    st = lk_vasprintf(&text, source, ap);
    va_end(ap);
    if (st != LK_OK)
        return st;
    LK_TRY(lk_array_grow(&b->points, &b->capacity, b->n_points + 1, sizeof *b->points));
    LK_TRY(lk_quantity_set(&p.time_s, seconds, NAN, NAN, 1, "%s", text));
    b->points[b->n_points++] = p;
out:
    free(text);
    return st;
}

/* ---- A table of nccl-tests ---- */

/* A larger file is no benchmark's log. */
enum { LOG_BYTES_MAX = 256 << 20 };

/* Tolerances for printed rounding: rates have two decimals, wide times two digits ("%7.1e"). */
static const double ROUNDING_GBps = 0.0051;
static const double RATE_TOLERANCE = 0.06;
static const double FACTOR_TOLERANCE = 0.02;

static enum lk_status join(const struct bench_table *t, const char *what, int hint, int *out)
{
    if (hint && *out && hint != *out)
        return lk_fail(LK_EPARSE, "%s:%zu: the log has %d %s, --%s says %d", t->path,
                       t->header_line, *out, what, what, hint);
    if (hint)
        *out = hint;
    return LK_OK;
}

enum lk_status bench_table_begin(struct bench_table *t, const struct lk_bench_hints *hints)
{
    enum lk_status st = LK_OK;
    struct bench_program hint = {0};

    LK_TRY(join(t, "gpus", hints->ranks, &t->ranks));
    LK_TRY(join(t, "nodes", hints->nodes, &t->nodes));
    if (!hints->coll)
        return LK_OK;
    if (!bench_coll(hints->coll, strlen(hints->coll), &hint) || !hint.known)
        return lk_fail(LK_EUSAGE,
                       "--collective=%s: cluster files have all_reduce, "
                       "reduce_scatter, all_gather and broadcast",
                       hints->coll);
    if (t->program.named && (!t->program.known || t->program.coll != hint.coll))
        return lk_fail(LK_EPARSE, "%s:%zu: this names another program than --collective=%s",
                       t->path, t->program.line, hints->coll);
    t->program = hint;
    t->program.line = t->header_line;
out:
    return st;
}

/*
 * Guess the collective of a table whose program is unknown, by its row of the largest rate.
 * all_gather and alltoall look the same, and so do others: those have to be named.
 */
static bool guess(const struct bench_table *t, enum lk_coll *out)
{
    const struct bench_row *row = &t->rows[0];

    for (size_t i = 1; i < t->n_rows; i++)
        if (t->rows[i].algbw > row->algbw)
            row = &t->rows[i];
    if (row->algbw < 1 || t->ranks < 2 || !row->reduces || row->root >= 0)
        return false;
    for (int c = LK_ALL_REDUCE; c <= LK_REDUCE_SCATTER; c++)
        if (fabs(row->busbw / row->algbw - lk_coll_busbw_factor((enum lk_coll)c, t->ranks)) <
            FACTOR_TOLERANCE) {
            *out = (enum lk_coll)c;
            return true;
        }
    return false;
}

/* Fail if a fact is in neither log nor hints, or is impossible. pre: the table has rows. */
static enum lk_status complete(struct bench_table *t)
{
    size_t line = t->rows[0].line;

    if (!t->ranks)
        return lk_fail(LK_EUSAGE,
                       "%s:%zu: how many GPUs? The log has no lines of ranks; say --gpus", t->path,
                       line);
    if (!t->nodes)
        return lk_fail(LK_EUSAGE, "%s:%zu: on how many nodes? The log does not say; say --nodes",
                       t->path, line);
    if (t->ranks < t->nodes || t->ranks % t->nodes)
        return lk_fail(LK_EPARSE, "%s:%zu: %d GPUs do not divide over %d nodes", t->path, line,
                       t->ranks, t->nodes);
    if (!t->program.named && !guess(t, &t->program.coll))
        return lk_fail(LK_EUSAGE,
                       "%s:%zu: which collective? No line names the program and the rates do not "
                       "tell; say --collective",
                       t->path, line);
    return LK_OK;
}

/* Check that busbw over algbw is the collective's factor, within printed rounding. */
static enum lk_status check_factor(const struct bench_table *t, const struct bench_row *row)
{
    double factor = lk_coll_busbw_factor(t->program.coll, t->ranks);
    double slack = FACTOR_TOLERANCE * factor * row->algbw + (1 + factor) * ROUNDING_GBps;

    if (fabs(row->busbw - factor * row->algbw) <= slack)
        return LK_OK;
    return lk_fail(LK_EPARSE,
                   "%s:%zu: busbw over algbw is %.3g, but of %s on %d GPUs it is %.3g: another "
                   "collective or another count of GPUs",
                   t->path, row->line, row->busbw / row->algbw, lk_coll_name(t->program.coll),
                   t->ranks, factor);
}

/* Check that algbw is bytes over time. */
static enum lk_status check_rate(const struct bench_table *t, const struct bench_row *row)
{
    double rate = (double)row->bytes / row->seconds * 1e-9;

    if (fabs(rate - row->algbw) <= RATE_TOLERANCE * fmax(rate, row->algbw) + ROUNDING_GBps)
        return LK_OK;
    return lk_fail(LK_EPARSE, "%s:%zu: algbw is %g GB/s, but size and time give %.3g", t->path,
                   row->line, row->algbw, rate);
}

enum lk_status bench_table_row(struct bench_table *t, const struct bench_row *row)
{
    enum lk_status st = LK_OK;

    if (!(row->seconds >= 0) || !(row->algbw >= 0) || !(row->busbw >= 0))
        return lk_fail(LK_EPARSE, "%s:%zu: a negative time or rate", t->path, row->line);
    LK_TRY(lk_array_grow(&t->rows, &t->rows_capacity, t->n_rows + 1, sizeof *t->rows));
    t->rows[t->n_rows++] = *row;
out:
    return st;
}

enum lk_status bench_table_end(struct bench_table *t, struct lk_bench *out)
{
    enum lk_status st = LK_OK;

    if (t->n_rows && t->program.named && !t->program.known) {
        out->n_other += t->n_rows;
        goto out;
    }
    if (t->n_rows)
        LK_TRY(complete(t));
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct bench_row *row = &t->rows[i];

        if (!row->bytes || row->seconds == 0) /* sizes too small for the ranks are printed as 0 */
            continue;
        LK_TRY(check_rate(t, row));
        LK_TRY(check_factor(t, row));
        if (row->wrong > 0) {
            out->n_wrong++;
            continue;
        }
        LK_TRY(bench_add(out, t->program.coll, LK_ALGO_AUTO, t->ranks, t->nodes, row->bytes,
                         row->seconds, "%s:%zu", t->path, row->line));
    }
out:
    free(t->rows);
    t->rows = NULL;
    t->n_rows = t->rows_capacity = 0;
    return st;
}

enum lk_status lk_bench_read_nccl_tests(const char *path, const struct lk_bench_hints *hints,
                                        struct lk_bench *out)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    size_t size = 0, at = 0;

    LK_TRY(lk_file_read_max(path, LOG_BYTES_MAX, &text, &size));
    if (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) /* a UTF-8 byte order mark */
        at = 3;
    while (at < size && strchr(" \t\r\n", text[at]))
        at++;
    if (at < size && text[at] == '{')
        LK_TRY(bench_read_json(path, text, size, hints, out));
    else
        LK_TRY(bench_read_text(path, text, size, hints, out));
out:
    free(text);
    return st;
}
