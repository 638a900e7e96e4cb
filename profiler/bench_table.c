/* A table of nccl-tests: which collective, on what, and whether its rows agree with that. */
#include "profiler/bench_impl.h"

#include "base/array.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More is no log of a benchmark. */
enum { LOG_BYTES_MAX = 256 << 20 };

/* Rates are printed with two decimals, wide times with two digits ("%7.1e"): what rounding
 * explains. */
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
    enum lk_coll coll;
    bool known;

    LK_TRY(join(t, "gpus", hints->ranks, &t->ranks));
    LK_TRY(join(t, "nodes", hints->nodes, &t->nodes));
    if (!hints->coll)
        return LK_OK;
    if (!lk_bench_coll(hints->coll, strlen(hints->coll), &coll, &known) || !known)
        return lk_fail(LK_EUSAGE,
                       "--collective=%s: cluster files have all_reduce, "
                       "reduce_scatter, all_gather and broadcast",
                       hints->coll);
    if (t->has_coll && (!t->coll_known || t->coll != coll))
        return lk_fail(LK_EPARSE, "%s:%zu: this names another program than --collective=%s",
                       t->path, t->coll_line, hints->coll);
    t->has_coll = t->coll_known = true;
    t->coll = coll;
    t->coll_line = t->header_line;
out:
    return st;
}

/*
 * The collective of a table whose program nobody named, by its row of the largest rate.
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

/* What neither log nor hints said, or what cannot be. pre: the table has rows. */
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
    if (!t->has_coll && !guess(t, &t->coll))
        return lk_fail(LK_EUSAGE,
                       "%s:%zu: which collective? No line names the program and the rates do not "
                       "tell; say --collective",
                       t->path, line);
    return LK_OK;
}

/* busbw over algbw is the collective's factor, within what the printing rounds. */
static enum lk_status check_factor(const struct bench_table *t, const struct bench_row *row)
{
    double factor = lk_coll_busbw_factor(t->coll, t->ranks);
    double slack = FACTOR_TOLERANCE * factor * row->algbw + (1 + factor) * ROUNDING_GBps;

    if (fabs(row->busbw - factor * row->algbw) <= slack)
        return LK_OK;
    return lk_fail(LK_EPARSE,
                   "%s:%zu: busbw over algbw is %.3g, but of %s on %d GPUs it is %.3g: another "
                   "collective or another count of GPUs",
                   t->path, row->line, row->busbw / row->algbw, lk_coll_name(t->coll), t->ranks,
                   factor);
}

/* algbw is bytes over time. */
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

    if (t->n_rows && t->has_coll && !t->coll_known) {
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
        LK_TRY(lk_bench_add(out, t->coll, LK_ALGO_AUTO, t->ranks, t->nodes, row->bytes,
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
