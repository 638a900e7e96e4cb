/*
 * Read what nccl-tests measured. Divisions: points, a table (its collective, its machine and the
 * consistency of its rows), JSON, text or JSON. bench_text.c reads text, bench_csv.c CSV.
 */
#include "profiler/import/bench_impl.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "facts/bounds.h"

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
    lk_quantity_fini(&b->link_Bps);
    free(b->gpu);
    free(b->nccl_version);
    *b = (struct lk_bench){0};
}

bool bench_coll(const char *name, size_t len, struct bench_program *out)
{
    static const char other[] = "hypercube"; /* nccl-tests has it, NCCL does not */
    enum lk_coll coll;

    if (lk_coll_find(name, len, &coll)) {
        *out =
            (struct bench_program){.named = true, .known = coll < LK_COLL_MODELLED, .coll = coll};
        return true;
    }
    if (len != sizeof other - 1 || memcmp(name, other, len) != 0)
        return false;
    *out = (struct bench_program){.named = true};
    return true;
}

/* A row is the mean of so many calls: nccl-tests' default, and that of its like. */
enum { CALLS_OF_A_ROW = 20 };

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
    LK_TRY(lk_quantity_set(&p.time_s, seconds, NAN, NAN, CALLS_OF_A_ROW, "%s", text));
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
    struct bench_program hint = {0};

    LK_PASS(join(t, "gpus", hints->ranks, &t->ranks));
    LK_PASS(join(t, "nodes", hints->nodes, &t->nodes));
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
    return LK_OK;
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

void bench_table_hosts(struct bench_table *t, const char *const *names, size_t n)
{
    enum { NAMED = 4 };
    size_t len = 0, named = n <= NAMED ? n : NAMED - 1;

    t->hosts[0] = '\0';
    for (size_t i = 0; i < named && len < sizeof t->hosts; i++)
        len += (size_t)snprintf(t->hosts + len, sizeof t->hosts - len, "%s%s", i ? ", " : ", on ",
                                names[i]);
    if (n > named && len < sizeof t->hosts)
        snprintf(t->hosts + len, sizeof t->hosts - len, " and %zu more", n - named);
}

enum lk_status bench_table_row(struct bench_table *t, const struct bench_row *row)
{
    if (!(row->seconds >= 0) || !(row->algbw >= 0) || !(row->busbw >= 0))
        return lk_fail(LK_EPARSE, "%s:%zu: a negative time or rate", t->path, row->line);
    LK_PASS(lk_array_grow(&t->rows, &t->rows_capacity, t->n_rows + 1, sizeof *t->rows));
    t->rows[t->n_rows++] = *row;
    return LK_OK;
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
                         row->seconds, "%s:%zu%s", t->path, row->line, t->hosts));
    }
out:
    free(t->rows);
    t->rows = NULL;
    t->n_rows = t->rows_capacity = 0;
    return st;
}

/* ---- JSON ---- */

/*
 * nccl-tests' JSON (-J, since 2.17.3; src/util.cu of NVIDIA/nccl-tests): args, nccl_version,
 * config with the devices, results. Of a process with several GPUs only the first is in the
 * devices, so that the ranks are devices times threads times GPUs a thread. The environment in the
 * file is ignored.
 */

/* Find the collective by the program's path: "build/all_reduce_perf". */
static enum lk_status read_program(struct lk_json *root, struct bench_table *t)
{
    struct lk_json *args, *first;
    const char *path, *name;
    size_t len;

    LK_PASS(lk_json_array(root, "args", &args));
    first = lk_json_item(args, 0);
    if (!first)
        return LK_OK;
    LK_PASS(lk_json_as_text(first, &path));
    name = strrchr(path, '/');
    name = name ? name + 1 : path;
    len = strcspn(name, ".");
    if (len > 5 && !strncmp(name + len - 5, "_perf", 5))
        (void)bench_coll(name, len - 5, &t->program);
    t->program.line = (size_t)lk_json_line(first);
    return LK_OK;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Set the nodes of the run and their names. */
static enum lk_status note_hosts(struct lk_json *devices, struct bench_table *t)
{
    enum lk_status st = LK_OK;
    size_t n = lk_json_count(devices), hosts = 0;
    const char **names = NULL;

    LK_TRY(lk_alloc(&names, n, sizeof *names));
    for (size_t i = 0; i < n; i++)
        LK_TRY(lk_json_text(lk_json_item(devices, i), "hostname", &names[i]));
    qsort(names, n, sizeof *names, compare_texts);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(names[i], names[hosts - 1]) != 0)
            names[hosts++] = names[i];
    t->nodes = (int)hosts;
    bench_table_hosts(t, names, hosts);
out:
    free(names);
    return st;
}

static enum lk_status read_devices(struct lk_json *root, struct bench_table *t, struct lk_bench *b)
{
    struct lk_json *config, *devices;
    const char *gpu;
    int threads, gpus;
    int64_t group, ranks;

    LK_PASS(lk_json_object(root, "config", &config));
    LK_PASS(lk_json_int32(config, "nthreads", 1, LK_RANKS_MAX, &threads));
    LK_PASS(lk_json_int32(config, "ngpus", 1, LK_RANKS_MAX, &gpus));
    LK_PASS(lk_json_array(config, "devices", &devices));
    LK_PASS(note_hosts(devices, t));
    for (size_t i = 0; i < lk_json_count(devices); i++) {
        struct lk_json *d = lk_json_item(devices, i);

        LK_PASS(lk_json_int(d, "group", 0, LK_RANKS_MAX, &group));
        if (group)
            return lk_json_error(d, "several groups (NCCL_TESTS_SPLIT) are not told apart here: "
                                    "use the text output");
        if (!b->gpu) {
            LK_PASS(lk_json_text(d, "device_info", &gpu));
            LK_PASS(lk_strdup(&b->gpu, gpu));
        }
    }
    ranks = (int64_t)threads * gpus;
    if (ranks > LK_RANKS_MAX || ranks * (int64_t)lk_json_count(devices) > LK_RANKS_MAX)
        return lk_json_error(config, "too many GPUs");
    t->ranks = (int)(ranks * (int64_t)lk_json_count(devices));
    return LK_OK;
}

/* Decode NCCL's version: 22809 is 2.28.9, major times 10000, minor times 100. */
static enum lk_status read_version(struct lk_json *root, struct lk_bench *b)
{
    int64_t v;

    LK_PASS(lk_json_int(root, "nccl_version", 0, 99999999, &v));
    if (!b->nccl_version)
        LK_PASS(lk_asprintf(&b->nccl_version, "%lld.%lld.%lld", (long long)v / 10000,
                            (long long)v / 100 % 100, (long long)v % 100));
    return LK_OK;
}

static enum lk_status read_not_negative(struct lk_json *obj, const char *key, double *out)
{
    enum lk_status st = lk_json_number(obj, key, out);

    return st != LK_OK || *out >= 0
               ? st
               : lk_json_error(lk_json_optional(obj, key), "must not be negative");
}

static enum lk_status read_result(struct lk_json *v, const char *place, struct bench_table *t)
{
    struct bench_row row = {.line = (size_t)lk_json_line(v), .root = -1};
    struct lk_json *body = lk_json_optional(v, place);
    struct lk_json *wrong;
    const char *text;

    if (!body)
        return LK_OK;
    LK_PASS(lk_json_uint(v, "size", UINT64_MAX / 2, &row.bytes));
    LK_PASS(lk_json_text(v, "redop", &text));
    row.reduces = strcmp(text, "none") != 0;
    LK_PASS(lk_json_text(v, "root", &text));
    row.root = strchr(text, '-') ? -1 : 0;
    if (lk_json_optional(body, "cpu_time"))
        return lk_json_error(body, "CPU times (-C): they do not say how long the collectives took");
    LK_PASS(read_not_negative(body, "time", &row.seconds));
    row.seconds *= 1e-6;
    LK_PASS(read_not_negative(body, "alg_bw", &row.algbw));
    LK_PASS(read_not_negative(body, "bus_bw", &row.busbw));
    wrong = lk_json_optional(body, "nwrong");
    if (wrong)
        LK_PASS(lk_json_as_number(wrong, &row.wrong));
    return bench_table_row(t, &row);
}

static enum lk_status read_json(const char *path, const char *text, size_t size,
                                const struct lk_bench_hints *hints, struct lk_bench *out)
{
    static const char *const places[] = {
        [LK_BENCH_IN_PLACE] = "in_place",
        [LK_BENCH_OUT_OF_PLACE] = "out_of_place",
    };
    enum lk_status st = LK_OK;
    struct bench_table t = {.path = path};
    struct lk_json_doc *doc = NULL;
    struct lk_json *root, *results;

    LK_TRY(lk_json_parse(path, text, size, &doc));
    root = lk_json_root(doc);
    if (bench_is_iperf(root)) {
        st = bench_read_iperf(path, root, out);
        goto out;
    }
    LK_TRY(read_program(root, &t));
    LK_TRY(read_devices(root, &t, out));
    LK_TRY(read_version(root, out));
    LK_TRY(lk_json_array(root, "results", &results));
    t.header_line = (size_t)lk_json_line(results);
    LK_TRY(bench_table_begin(&t, hints));
    for (size_t i = 0; i < lk_json_count(results); i++)
        LK_TRY(read_result(lk_json_item(results, i), places[hints->place], &t));
    if (!t.n_rows)
        LK_TRY(lk_json_error(results, "no result %s", places[hints->place]));
    LK_TRY(bench_table_end(&t, out));
out:
    free(t.rows);
    lk_json_free(doc);
    return st;
}

/* ---- Text or JSON ---- */

enum lk_status lk_bench_read_log(const char *path, const struct lk_bench_hints *hints,
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
        LK_TRY(read_json(path, text, size, hints, out));
    else if (bench_is_osu(text, size))
        LK_TRY(bench_read_osu(path, text, size, hints, out));
    else
        LK_TRY(bench_read_text(path, text, size, hints, out));
out:
    free(text);
    return st;
}
