/* Find runs below directories and read them. Divisions: span files to traces, one run, many runs.
 */
#include "profiler/analysis/run_set.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "facts/run_facts.h"
#include "profiler/record/span_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum depth of runs below the directory that the user names. */
enum { DEPTH_MAX = 4 };

/*
 * Wall clock minus monotonic clock is the time of boot: two ranks whose hosts have the same name
 * and the same boot time, within this, are on one host and read one clock.
 */
#define SAME_BOOT_NS (100 * LK_NS_PER_MS)

/* ---- Span files to traces ---- */

struct conversion {
    const char *dir;
    struct lk_trace *traces;
    size_t n;
};

/* Read DIR/name, which must be named after its rank, as the next trace of the run. */
static enum lk_status read_one(struct conversion *r, const char *name)
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

void lk_traces_align(struct lk_trace *traces, size_t n)
{
    const struct lk_trace *zero = &traces[0];
    uint64_t zero_boot_ns;

    if (!n || zero->info.rank != 0)
        return;
    zero_boot_ns = zero->base_epoch_ns - zero->base_local_ns;
    for (size_t i = 1; i < n; i++) {
        struct lk_trace *t = &traces[i];
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

/* Set *path to that of a rank's file; its old value is freed. */
static enum lk_status path_of(const struct conversion *r, size_t i, const char *suffix, char **path)
{
    free(*path);
    *path = NULL;
    return lk_asprintf(path, "%s/rank%d%s", r->dir, r->traces[i].info.rank, suffix);
}

/* Write the traces, and only then remove the span files. */
static enum lk_status finish(const struct conversion *r, bool merged)
{
    enum lk_status st = LK_OK;
    char *path = NULL, *all = NULL;

    for (size_t i = 0; i < r->n; i++) {
        LK_TRY(path_of(r, i, ".trace.json.gz", &path));
        LK_TRY(lk_trace_write(path, &r->traces[i]));
    }
    LK_TRY(lk_path_join(&all, r->dir, "merged.trace.json.gz"));
    if (merged && r->n && r->traces[0].info.rank == 0)
        LK_TRY(lk_trace_write_merged(all, r->traces, r->n));
    for (size_t i = 0; i < r->n; i++) {
        LK_TRY(path_of(r, i, ".spans", &path));
        if (unlink(path)) {
            st = lk_fail(LK_EIO, "%s: cannot remove: %s", path, strerror(errno));
            goto out;
        }
    }
out:
    free(all);
    free(path);
    return st;
}

/* Remove the temporary file of a process that was killed while it created its span file. */
static void remove_temporary(const char *dir, const char *name)
{
    char *path = NULL;

    if (lk_path_join(&path, dir, name) == LK_OK)
        (void)unlink(path);
    free(path);
}

static void summarize(const struct conversion *r, struct lk_convert_summary *out)
{
    *out = (struct lk_convert_summary){.n_ranks = r->n};
    for (size_t i = 0; i < r->n; i++) {
        out->n_truncated += r->traces[i].truncated;
        out->n_spans += r->traces[i].n_spans;
        out->dropped += r->traces[i].dropped;
    }
}

/*
 * Convert as lk_convert_run does, and hand over the traces that were written, by rank; freed by
 * lk_traces_free. *traces and *n are written on success only.
 */
static enum lk_status convert(const char *dir, bool merged, struct lk_convert_summary *out,
                              struct lk_trace **traces, size_t *n)
{
    enum lk_status st = LK_OK;
    struct conversion r = {.dir = dir};
    struct lk_convert_summary summary = {0};
    char **names = NULL;
    size_t n_names = 0, found = 0;

    LK_TRY(lk_dir_list(dir, "", &names, &n_names));
    LK_TRY(lk_alloc(&r.traces, n_names, sizeof *r.traces));
    for (size_t i = 0; i < n_names; i++) {
        if (lk_span_file_is_named(names[i])) {
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
    lk_traces_sort(r.traces, r.n);
    lk_traces_align(r.traces, r.n);
    summarize(&r, &summary);
    LK_KEEP(finish(&r, merged));
    if (st == LK_OK) {
        *traces = r.traces;
        *n = r.n;
        r = (struct conversion){0};
    }
out:
    if (out)
        *out = summary;
    lk_traces_free(r.traces, r.n);
    lk_names_free(names, n_names);
    return st;
}

enum lk_status lk_convert_run(const char *dir, bool merged, struct lk_convert_summary *out)
{
    struct lk_trace *traces = NULL;
    size_t n = 0;
    enum lk_status st = convert(dir, merged, out, &traces, &n);

    lk_traces_free(traces, n);
    return st;
}

/* ---- One run ---- */

const struct lk_run_info *lk_run_about(const struct lk_run *r)
{
    return &r->traces[0].info;
}

int lk_run_rank(const struct lk_run *r, size_t index)
{
    return r->traces[index].info.rank;
}

int lk_run_world_size(const struct lk_run *r)
{
    return lk_run_about(r)->world_size;
}

const char *lk_run_periods(const struct lk_run *r)
{
    return lk_run_info_value(lk_run_about(r), LK_PERIOD_CONFIG_KEY);
}

bool lk_run_has_compute(const struct lk_run *r)
{
    if (!lk_run_periods(r))
        return true;
    for (size_t k = 0; k < r->n; k++)
        for (size_t i = 0; i < r->ranks[k].n_ranges; i++)
            if (r->ranks[k].ranges[i].kind != LK_SPAN_INPUT)
                return true;
    return false;
}

bool lk_run_is_grouped(const struct lk_run *r)
{
    return lk_run_info_value(lk_run_about(r), LK_GROUPS_CONFIG_KEY) != NULL;
}

int lk_run_gradient_ranks(const struct lk_run *r)
{
    const char *text = lk_run_info_value(lk_run_about(r), LK_GROUPS_CONFIG_KEY);
    long ranks = text ? strtol(text, NULL, 10) : 0;

    return ranks > 0 && ranks < lk_run_world_size(r) ? (int)ranks : lk_run_world_size(r);
}

/* Check that no rank is missing of a run that lockstep recorded; an imported one may lack some. */
static enum lk_status check_ranks(const char *dir, const struct lk_trace *traces, size_t n)
{
    int world = traces[0].info.world_size;
    bool imported = lk_run_info_value(&traces[0].info, LK_IMPORT_CONFIG_KEY) != NULL;

    for (size_t i = 0; i < n; i++) {
        const struct lk_run_info *info = &traces[i].info;

        if (info->world_size != world || strcmp(info->run_id, traces[0].info.run_id))
            return lk_fail(LK_EPARSE, "%s: the traces of ranks %d and %d are of different runs",
                           dir, traces[0].info.rank, info->rank);
        if (i && info->rank == traces[i - 1].info.rank)
            return lk_fail(LK_EPARSE, "%s: two traces are of rank %d", dir, info->rank);
        if (info->rank != (int)i && !imported)
            return lk_fail(LK_EPARSE, "%s: the trace of rank %zu of %d is missing", dir, i, world);
        if (info->accumulation < 1 || info->local_batch < 1)
            return lk_fail(LK_EPARSE, "%s: rank %zu: local batch and accumulation must be positive",
                           dir, i);
    }
    if ((int)n != world && !imported)
        return lk_fail(LK_EPARSE, "%s: the trace of rank %zu of %d is missing", dir, n, world);
    return LK_OK;
}

/* Return true if rank k has the step too, with rank 0's collectives. */
static bool same_step(const struct lk_run *r, size_t k, const struct lk_step *zero)
{
    const struct lk_step *p = lk_rank_step(&r->ranks[k], zero->step);

    if (!p || p->n_collectives != zero->n_collectives)
        return false;
    for (size_t i = 0; i < p->n_collectives; i++)
        if (r->ranks[k].collectives[p->first_collective + i].seq !=
            r->ranks[0].collectives[zero->first_collective + i].seq)
            return false;
    return true;
}

static bool is_recorded(const struct lk_run *r, uint32_t step)
{
    for (size_t k = 0; k < r->n; k++)
        if (!lk_rank_step(&r->ranks[k], step)->recorded)
            return false;
    return true;
}

/* Collect the steps after the warm-up that are complete on every rank. */
static enum lk_status common_steps(struct lk_run *r)
{
    LK_PASS(lk_alloc(&r->timed, r->ranks[0].n_steps, sizeof *r->timed));
    LK_PASS(lk_alloc(&r->steps, r->ranks[0].n_steps, sizeof *r->steps));
    for (size_t i = 0; i < r->ranks[0].n_steps; i++) {
        const struct lk_step *zero = &r->ranks[0].steps[i];
        bool everywhere = zero->step >= lk_run_about(r)->warmup_steps;

        for (size_t k = 1; k < r->n && everywhere; k++)
            everywhere = same_step(r, k, zero);
        if (everywhere)
            r->timed[r->n_timed++] = zero->step;
    }
    for (size_t i = 0; i < r->n_timed; i++)
        if (is_recorded(r, r->timed[i]))
            r->steps[r->n_steps++] = r->timed[i];
    if (r->n_steps == 0)
        for (; r->n_steps < r->n_timed; r->n_steps++)
            r->steps[r->n_steps] = r->timed[r->n_steps];
    return LK_OK;
}

enum lk_status lk_run_take(const char *dir, struct lk_trace *traces, size_t n, struct lk_run *out)
{
    enum lk_status st = LK_OK;
    struct lk_run r = {0};

    if (!n)
        return lk_fail(LK_EIO, "%s: there are no traces", dir);
    lk_traces_sort(traces, n);
    LK_TRY(check_ranks(dir, traces, n));
    LK_TRY(lk_strdup(&r.dir, dir));
    LK_TRY(lk_alloc(&r.ranks, n, sizeof *r.ranks));
    r.traces = traces;
    for (; r.n < n; r.n++) {
        LK_TRY(lk_rank_steps_read(&traces[r.n], &r.ranks[r.n]));
        r.truncated |= traces[r.n].truncated;
    }
    LK_TRY(common_steps(&r));
    *out = r;
    r = (struct lk_run){0};
out:
    r.traces = NULL; /* still the caller's */
    lk_run_fini(&r);
    return lk_fail_context(st, "%s", dir);
}

void lk_run_fini(struct lk_run *r)
{
    for (size_t i = 0; r->ranks && i < r->n; i++)
        lk_rank_steps_fini(&r->ranks[i]);
    if (r->traces)
        lk_traces_free(r->traces, r->n);
    free(r->ranks);
    free(r->timed);
    free(r->steps);
    free(r->dir);
    *r = (struct lk_run){0};
}

/* ---- Many runs ---- */

struct finder {
    struct lk_run_set *set;
    struct directory {
        dev_t device;
        ino_t inode;
    } * seen; /* directories read: one may be named twice, or lie below another */
    size_t n_seen, seen_capacity;
    size_t found; /* runs found, repeats included */
};

static bool is_of_rank(const char *name)
{
    return !strncmp(name, "rank", 4) && name[4] >= '0' && name[4] <= '9';
}

/* Return in *out true if the directory is visited for the first time; mark it visited. */
static enum lk_status first_visit(struct finder *f, const char *dir, bool *out)
{
    struct stat info;

    if (stat(dir, &info))
        return lk_fail(LK_EIO, "%s: %s", dir, strerror(errno));
    *out = true;
    for (size_t i = 0; i < f->n_seen; i++)
        if (f->seen[i].device == info.st_dev && f->seen[i].inode == info.st_ino)
            *out = false;
    LK_PASS(lk_array_grow(&f->seen, &f->seen_capacity, f->n_seen + 1, sizeof *f->seen));
    f->seen[f->n_seen++] = (struct directory){info.st_dev, info.st_ino};
    return LK_OK;
}

/* Add a run, which owns the traces from now on; after a failure they are freed. */
static enum lk_status add_run(struct lk_run_set *set, const char *dir, struct lk_trace *traces,
                              size_t n)
{
    enum lk_status st = LK_OK;
    size_t capacity = set->n;

    LK_TRY(lk_array_grow(&set->runs, &capacity, set->n + 1, sizeof *set->runs));
    LK_TRY(lk_run_take(dir, traces, n, &set->runs[set->n]));
    set->n++;
out:
    if (st != LK_OK)
        lk_traces_free(traces, n);
    return st;
}

static enum lk_status read_run(struct finder *f, const char *dir)
{
    struct lk_trace *traces;
    size_t n;
    bool first = false;

    f->found++;
    LK_PASS(first_visit(f, dir, &first));
    if (!first)
        return LK_OK;
    lk_progress_begin(0, 1, "reading %s", dir);
    LK_PASS(lk_traces_read(dir, &traces, &n));
    return add_run(f->set, dir, traces, n);
}

/* Return true if one of the names is of a rank's file and ends in `suffix`. */
static bool has_files(char *const *names, size_t n, const char *suffix)
{
    for (size_t i = 0; i < n; i++)
        if (is_of_rank(names[i]) && lk_ends_with(names[i], suffix))
            return true;
    return false;
}

/* Read the index of a folder of runs, if there is one: a damaged one tells that other files may be
 * damaged. Runs that it has and that are not there are warned of. */
static enum lk_status check_index(const char *dir)
{
    enum lk_status st = LK_OK;
    struct lk_json_doc *doc = NULL;
    struct lk_json *runs;
    char *path = NULL, *run = NULL;

    LK_TRY(lk_path_join(&path, dir, "run.json"));
    if (!lk_is_file(path))
        goto out;
    LK_TRY(lk_json_load(path, &doc));
    LK_TRY(lk_json_schema(lk_json_root(doc), "lockstep-run", 1));
    LK_TRY(lk_json_array(lk_json_root(doc), "runs", &runs));
    for (size_t i = 0; i < lk_json_count(runs); i++) {
        const char *name;

        LK_TRY(lk_json_text(lk_json_item(runs, i), "dir", &name));
        free(run);
        run = NULL;
        LK_TRY(lk_path_join(&run, dir, name));
        if (!lk_is_folder(run))
            lk_log(LK_LOG_PROFILE, LK_WARN, "%s: has a run %s, which is not there", path, name);
    }
out:
    lk_json_free(doc);
    free(path);
    free(run);
    return st;
}

static enum lk_status find_runs(struct finder *f, const char *dir, int depth)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    char *path = NULL;
    size_t n = 0;
    bool spans;

    LK_TRY(lk_dir_list(dir, "", &names, &n));
    LK_TRY(check_index(dir));
    spans = has_files(names, n, ".spans");
    if (spans) { /* a launcher that was killed left them: make the traces that it would have made */
        lk_log(LK_LOG_PROFILE, LK_WARN, "%s: the run was cut off; its spans become traces now",
               dir);
        LK_TRY(lk_convert_run(dir, false, NULL));
    }
    if (spans || has_files(names, n, ".trace.json.gz")) {
        st = read_run(f, dir);
        goto out;
    }
    if (depth == DEPTH_MAX)
        goto out;
    for (size_t i = 0; i < n; i++) {
        struct stat info;

        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, dir, names[i]));
        if (!lstat(path, &info) && S_ISDIR(info.st_mode))
            LK_TRY(find_runs(f, path, depth + 1));
    }
out:
    free(path);
    lk_names_free(names, n);
    return st;
}

static int run_order(const void *a, const void *b)
{
    const struct lk_run *x = a, *y = b;
    const struct lk_run_info *i = lk_run_about(x), *j = lk_run_about(y);

    if (i->world_size != j->world_size)
        return i->world_size < j->world_size ? -1 : 1;
    if (i->local_batch != j->local_batch)
        return i->local_batch < j->local_batch ? -1 : 1;
    if (strcmp(i->local_batches, j->local_batches) != 0)
        return strcmp(i->local_batches, j->local_batches);
    if (i->accumulation != j->accumulation)
        return i->accumulation < j->accumulation ? -1 : 1;
    return strcmp(x->dir, y->dir);
}

enum lk_status lk_run_set_read(const char *const *paths, size_t n, struct lk_run_set *out)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};
    struct finder f = {.set = &set};

    for (size_t i = 0; i < n; i++) {
        f.found = 0;
        if (lk_is_file(paths[i]))
            LK_TRY(
                lk_fail(LK_EIO, "%s: is a file; name the run directory that it is in", paths[i]));
        LK_TRY(find_runs(&f, paths[i], 0));
        if (!f.found) {
            st = lk_fail(LK_EIO, "%s: there is no run in it (no rank*.trace.json.gz)", paths[i]);
            goto out;
        }
    }
    if (!set.n) {
        st = lk_fail(LK_EIO, "no run was named");
        goto out;
    }
    qsort(set.runs, set.n, sizeof *set.runs, run_order);
    *out = set;
    set = (struct lk_run_set){0};
out:
    free(f.seen);
    lk_run_set_fini(&set);
    return st;
}

enum lk_status lk_run_set_convert(struct lk_run_set *s, const char *dir, bool merged,
                                  struct lk_convert_summary *summary)
{
    struct lk_trace *traces;
    size_t n;

    LK_PASS(convert(dir, merged, summary, &traces, &n));
    LK_PASS(add_run(s, dir, traces, n));
    qsort(s->runs, s->n, sizeof *s->runs, run_order);
    return LK_OK;
}

void lk_run_set_fini(struct lk_run_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        lk_run_fini(&s->runs[i]);
    free(s->runs);
    *s = (struct lk_run_set){0};
}
