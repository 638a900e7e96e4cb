/* Finds runs below directories and reads their traces. */
#include "profiler/run_set.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "profiler/convert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Runs lie at most this deep below the directory that the user names. */
enum { DEPTH_MAX = 4 };

/* ---- One run ---- */

const struct lk_run_info *lk_run_about(const struct lk_run *r)
{
    return &r->traces[0].info;
}

static int trace_by_rank(const void *a, const void *b)
{
    const struct lk_trace *x = a, *y = b;

    return (x->info.rank > y->info.rank) - (x->info.rank < y->info.rank);
}

static enum lk_status check_ranks(const char *dir, const struct lk_trace *traces, size_t n)
{
    int world = traces[0].info.world_size;

    for (size_t i = 0; i < n; i++) {
        const struct lk_run_info *info = &traces[i].info;

        if (info->world_size != world || strcmp(info->run_id, traces[0].info.run_id))
            return lk_fail(LK_EPARSE, "%s: the traces of rank %d and %d are of different runs", dir,
                           traces[0].info.rank, info->rank);
        if (info->rank != (int)i)
            return lk_fail(LK_EPARSE, "%s: the trace of rank %zu of %d is missing", dir, i, world);
        if (info->accumulation < 1 || info->local_batch < 1)
            return lk_fail(LK_EPARSE, "%s: rank %zu: local batch and accumulation must be positive",
                           dir, i);
    }
    if ((int)n != world)
        return lk_fail(LK_EPARSE, "%s: the trace of rank %zu of %d is missing", dir, n, world);
    return LK_OK;
}

/* Whether rank k has the step too, with the collectives that rank 0 has. */
static bool same_step(const struct lk_run *r, size_t k, const struct lk_step *zero)
{
    const struct lk_step *p = lk_rank_step(&r->ranks[k], zero->step);

    if (!p || p->n_transfers != zero->n_transfers)
        return false;
    for (size_t i = 0; i < p->n_transfers; i++)
        if (r->ranks[k].transfers[p->first_transfer + i].seq !=
            r->ranks[0].transfers[zero->first_transfer + i].seq)
            return false;
    return true;
}

/* The steps that every rank has whole, after the warm-up. */
static enum lk_status common_steps(struct lk_run *r)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&r->steps, r->ranks[0].n_steps, sizeof *r->steps));
    for (size_t i = 0; i < r->ranks[0].n_steps; i++) {
        const struct lk_step *zero = &r->ranks[0].steps[i];
        bool everywhere = zero->step >= lk_run_about(r)->warmup_steps;

        for (size_t k = 1; k < r->n && everywhere; k++)
            everywhere = same_step(r, k, zero);
        if (everywhere)
            r->steps[r->n_steps++] = zero->step;
    }
out:
    return st;
}

enum lk_status lk_run_take(const char *dir, struct lk_trace *traces, size_t n, struct lk_run *out)
{
    enum lk_status st = LK_OK;
    struct lk_run r = {0};

    if (!n)
        return lk_fail(LK_EIO, "%s: there are no traces", dir);
    qsort(traces, n, sizeof *traces, trace_by_rank);
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
    free(r->steps);
    free(r->dir);
    *r = (struct lk_run){0};
}

/* ---- Many runs ---- */

struct finder {
    struct lk_run_set *set;
    size_t capacity;
    struct place {
        dev_t device;
        ino_t inode;
    } * seen; /* directories read: one may be named twice, or lie below another */
    size_t n_seen, seen_capacity;
    size_t found; /* runs met, also again */
};

static bool is_trace(const char *name)
{
    return !strncmp(name, "rank", 4) && name[4] >= '0' && name[4] <= '9';
}

/* Whether the directory was read before; notes that it is now. */
static enum lk_status first_visit(struct finder *f, const char *dir, bool *out)
{
    enum lk_status st = LK_OK;
    struct stat info;

    if (stat(dir, &info))
        return lk_fail(LK_EIO, "%s: %s", dir, strerror(errno));
    *out = true;
    for (size_t i = 0; i < f->n_seen; i++)
        if (f->seen[i].device == info.st_dev && f->seen[i].inode == info.st_ino)
            *out = false;
    LK_TRY(lk_array_grow(&f->seen, &f->seen_capacity, f->n_seen + 1, sizeof *f->seen));
    f->seen[f->n_seen++] = (struct place){info.st_dev, info.st_ino};
out:
    return st;
}

static enum lk_status read_run(struct finder *f, const char *dir)
{
    enum lk_status st = LK_OK;
    struct lk_trace *traces = NULL;
    size_t n = 0;
    bool first = false;

    f->found++;
    LK_TRY(first_visit(f, dir, &first));
    if (!first)
        return LK_OK;
    LK_TRY(lk_array_grow(&f->set->runs, &f->capacity, f->set->n + 1, sizeof *f->set->runs));
    LK_TRY(lk_traces_read(dir, &traces, &n));
    LK_TRY(lk_run_take(dir, traces, n, &f->set->runs[f->set->n]));
    traces = NULL;
    f->set->n++;
out:
    if (traces)
        lk_traces_free(traces, n);
    return st;
}

static enum lk_status has_traces(const char *dir, bool *out)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    size_t n = 0;

    LK_TRY(lk_dir_list(dir, ".trace.json.gz", &names, &n));
    *out = false;
    for (size_t i = 0; i < n; i++)
        *out = *out || is_trace(names[i]);
out:
    lk_names_free(names, n);
    return st;
}

/* A launcher that was killed left span files behind: makes the traces it would have made. */
static enum lk_status recover(const char *dir)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    size_t n = 0;
    bool left = false;

    LK_TRY(lk_dir_list(dir, ".spans", &names, &n));
    for (size_t i = 0; i < n; i++)
        left = left || is_trace(names[i]);
    if (!left)
        goto out;
    lk_log(LK_LOG_PROFILE, LK_WARN, "%s: the run was cut off; its spans become traces now", dir);
    LK_TRY(lk_convert_run(dir, NULL));
out:
    lk_names_free(names, n);
    return st;
}

static enum lk_status find_runs(struct finder *f, const char *dir, int depth)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    char *path = NULL;
    size_t n = 0;
    bool traces = false;

    LK_TRY(recover(dir));
    LK_TRY(has_traces(dir, &traces));
    if (traces) {
        st = read_run(f, dir);
        goto out;
    }
    if (depth == DEPTH_MAX)
        goto out;
    LK_TRY(lk_dir_list(dir, "", &names, &n));
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

void lk_run_set_fini(struct lk_run_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        lk_run_fini(&s->runs[i]);
    free(s->runs);
    *s = (struct lk_run_set){0};
}
