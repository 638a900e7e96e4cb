/* Converts the span files of a run. Reading one is in spans_read.c. */
#include "profiler/convert.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Wall clock minus monotonic clock is the time of boot: two ranks whose host has the same name and
 * was booted within this are on one host, and read one clock.
 */
#define SAME_BOOT_NS (100 * LK_NS_PER_MS)

struct run {
    const char *dir;
    struct lk_trace *traces;
    size_t n;
};

static enum lk_status path_of(const struct run *r, int rank, const char *suffix, char **out)
{
    return lk_asprintf(out, "%s/rank%d%s", r->dir, rank, suffix);
}

static int by_rank(const void *a, const void *b)
{
    const struct lk_trace *x = a, *y = b;

    return (x->info.rank > y->info.rank) - (x->info.rank < y->info.rank);
}

/* Reads DIR/name, which must be named after its rank, as the next trace of the run. */
static enum lk_status read_one(struct run *r, const char *name)
{
    enum lk_status st = LK_OK;
    struct lk_trace *t = &r->traces[r->n];
    char *path = NULL;
    char expected[32];

    LK_TRY(lk_path_join(&path, r->dir, name));
    LK_TRY(lk_spans_read(path, t));
    snprintf(expected, sizeof expected, "rank%d.spans", t->info.rank);
    if (strcmp(expected, name)) {
        st = lk_fail(LK_EPARSE, "%s: is of rank %d", path, t->info.rank);
        lk_trace_fini(t);
        goto out;
    }
    r->n++;
out:
    if (st != LK_OK)
        lk_log(LK_LOG_PROFILE, LK_ERROR, "%s", lk_error_text());
    free(path);
    return st;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Aligns the ranks that have no clock samples with rank 0, by host and wall clock. */
static void align_unknown(struct run *r)
{
    const struct lk_trace *zero = &r->traces[0];
    uint64_t zero_boot_ns = zero->base_epoch_ns - zero->base_local_ns;

    if (zero->info.rank != 0)
        return;
    for (size_t i = 1; i < r->n; i++) {
        struct lk_trace *t = &r->traces[i];
        uint64_t boot_ns = t->base_epoch_ns - t->base_local_ns;

        if (t->clock.uncertainty_ns != LK_CLOCK_UNKNOWN_NS)
            continue;
        if (!strcmp(t->info.host, zero->info.host) &&
            distance(boot_ns, zero_boot_ns) <= SAME_BOOT_NS)
            t->clock.uncertainty_ns = 0;
        else /* base_epoch of both: reference time = local + boot - rank 0's boot */
            t->clock.offset_ns = (int64_t)(boot_ns - zero_boot_ns);
    }
}

static enum lk_status write_one(const struct run *r, const struct lk_trace *t)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(path_of(r, t->info.rank, ".trace.json.gz", &path));
    LK_TRY(lk_trace_write(path, t));
out:
    free(path);
    return st;
}

static enum lk_status write_merged(const struct run *r)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_path_join(&path, r->dir, "merged.trace.json.gz"));
    LK_TRY(lk_trace_write_merged(path, r->traces, r->n));
out:
    free(path);
    return st;
}

static enum lk_status remove_spans(const struct run *r)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    for (size_t i = 0; i < r->n; i++) {
        free(path);
        path = NULL;
        LK_TRY(path_of(r, r->traces[i].info.rank, ".spans", &path));
        if (unlink(path)) {
            st = lk_fail(LK_EIO, "%s: cannot remove: %s", path, strerror(errno));
            goto out;
        }
    }
out:
    free(path);
    return st;
}

/* Writes the traces, and only then removes the span files. */
static enum lk_status finish(struct run *r)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < r->n; i++)
        LK_TRY(write_one(r, &r->traces[i]));
    if (r->n && r->traces[0].info.rank == 0)
        LK_TRY(write_merged(r));
    LK_TRY(remove_spans(r));
out:
    return st;
}

/* What a process leaves that was killed while it made its span file. */
static void remove_temporary(const char *dir, const char *name)
{
    char *path = NULL;

    if (lk_path_join(&path, dir, name) == LK_OK)
        (void)unlink(path);
    free(path);
}

static bool is_span_file(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && !strncmp(name, "rank", 4) && !strcmp(dot, ".spans");
}

static void summarize(const struct run *r, struct lk_convert_summary *out)
{
    *out = (struct lk_convert_summary){.n_ranks = r->n};
    for (size_t i = 0; i < r->n; i++) {
        out->n_truncated += r->traces[i].truncated;
        out->n_spans += r->traces[i].n_spans;
        out->dropped += r->traces[i].dropped;
    }
}

enum lk_status lk_convert_run(const char *dir, struct lk_convert_summary *out)
{
    enum lk_status st = LK_OK;
    struct run r = {.dir = dir};
    struct lk_convert_summary summary = {0};
    char **names = NULL;
    size_t n_names = 0, found = 0;

    LK_TRY(lk_dir_list(dir, "", &names, &n_names));
    LK_TRY(lk_alloc(&r.traces, n_names, sizeof *r.traces));
    for (size_t i = 0; i < n_names; i++) {
        if (is_span_file(names[i])) {
            found++;
            LK_KEEP(read_one(&r, names[i]));
        } else if (!strncmp(names[i], "rank", 4) && strstr(names[i], ".spans.tmp.")) {
            remove_temporary(dir, names[i]);
        }
    }
    if (!found) {
        st = lk_fail(LK_EIO, "%s: there is no span file (rank*.spans)", dir);
        goto out;
    }
    qsort(r.traces, r.n, sizeof *r.traces, by_rank);
    if (r.n)
        align_unknown(&r);
    summarize(&r, &summary);
    LK_KEEP(finish(&r));
out:
    if (out)
        *out = summary;
    lk_traces_free(r.traces, r.n);
    lk_names_free(names, n_names);
    return st;
}
