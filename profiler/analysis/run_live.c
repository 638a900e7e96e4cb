/* Runs that go on; see the header. */
#include "profiler/analysis/run_live.h"

#include "base/array.h"
#include "base/file.h"
#include "profiler/record/span_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Records of a track that are read: some dozen steps of a large model. */
enum { RECORDS_MAX = 1 << 15 };

/* ---- The folder ---- */

/* Set *at_ns to when a span file of a folder was written to last, if it is later. */
static enum lk_status look(const char *folder, uint64_t *at_ns, bool *found)
{
    enum lk_status st = LK_OK;
    char **names = NULL, *path = NULL;
    size_t n = 0;

    *found = false;
    LK_TRY(lk_dir_list(folder, ".spans", &names, &n));
    for (size_t i = 0; i < n; i++) {
        struct stat s;
        uint64_t ns;

        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, folder, names[i]));
        if (!lk_span_file_is_named(names[i]) || stat(path, &s))
            continue;
        ns = (uint64_t)s.st_mtim.tv_sec * LK_NS_PER_S + (uint64_t)s.st_mtim.tv_nsec;
        if (ns <= *at_ns)
            continue;
        *at_ns = ns;
        *found = true;
    }
out:
    free(path);
    lk_names_free(names, n);
    return st;
}

enum lk_status lk_run_live_folder(const char *folder, char **out)
{
    enum lk_status st = LK_OK;
    char **names = NULL, *path = NULL, *best = NULL;
    uint64_t at_ns = 0;
    size_t n = 0;
    bool found;

    *out = NULL;
    LK_TRY(look(folder, &at_ns, &found));
    if (found)
        LK_TRY(lk_strdup(&best, folder));
    LK_TRY(lk_dir_list(folder, "", &names, &n));
    for (size_t i = 0; i < n; i++) {
        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, folder, names[i]));
        if (!lk_is_folder(path) || look(path, &at_ns, &found) != LK_OK || !found)
            continue; /* it may be gone by now */
        free(best);
        best = path;
        path = NULL;
    }
    *out = best;
    best = NULL;
out:
    free(best);
    free(path);
    lk_names_free(names, n);
    return st;
}

/* ---- The last steps ---- */

/* Return the last step that a rank has ended; UINT32_MAX: none. */
static uint32_t last_step(const struct lk_trace *t)
{
    uint32_t last = UINT32_MAX;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind == LK_SPAN_STEP && (last == UINT32_MAX || s->step > last))
            last = s->step;
    }
    return last;
}

/* Return the first step that a trace has whole: of a track whose older records are gone, or were
 * not read, the one behind its first. */
static uint32_t first_whole(const struct lk_trace *t)
{
    uint32_t first = 0;

    for (size_t k = 0; k < t->n_tracks && t->dropped; k++)
        for (size_t i = 0; i < t->n_spans; i++)
            if (t->spans[i].track == k) {
                first = t->spans[i].span.step + 1 > first ? t->spans[i].span.step + 1 : first;
                break;
            }
    return first;
}

void lk_traces_keep_last(struct lk_trace *traces, size_t n, uint32_t steps)
{
    uint32_t last = UINT32_MAX, first = 0;

    for (size_t k = 0; k < n; k++) {
        uint32_t its_last = last_step(&traces[k]), its_first = first_whole(&traces[k]);

        last = its_last < last ? its_last : last;
        first = its_first > first ? its_first : first;
    }
    if (last != UINT32_MAX && last >= steps && last - steps + 1 > first)
        first = last - steps + 1;
    for (size_t k = 0; k < n; k++) {
        struct lk_trace *t = &traces[k];
        size_t kept = 0;

        for (size_t i = 0; i < t->n_spans; i++)
            if (t->spans[i].span.step >= first && t->spans[i].span.step <= last)
                t->spans[kept++] = t->spans[i];
        t->n_spans = kept;
        t->dropped = 0;
        t->truncated = false;
    }
}

static enum lk_status read_ranks(const char *dir, struct lk_trace *traces, size_t *n,
                                 char *const *names, size_t n_names, bool *goes_on)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    *goes_on = false;
    for (size_t i = 0; i < n_names; i++) {
        bool written;

        if (!lk_span_file_is_named(names[i]))
            continue;
        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, dir, names[i]));
        LK_TRY(lk_spans_read_live(path, RECORDS_MAX, &traces[*n], &written));
        ++*n;
        *goes_on |= written;
    }
out:
    free(path);
    return st;
}

enum lk_status lk_run_live_read(const char *dir, uint32_t steps, struct lk_run *out, bool *goes_on)
{
    enum lk_status st = LK_OK;
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    char **names = NULL;
    size_t n = 0, n_names = 0;

    LK_TRY(lk_dir_list(dir, ".spans", &names, &n_names));
    LK_TRY(lk_alloc(&traces, n_names, sizeof *traces));
    st = read_ranks(dir, traces, &n, names, n_names, goes_on);
    if (st == LK_EIO || st == LK_EPARSE) /* it became a trace, or grows just now */
        st = lk_fail(LK_EEVIDENCE, "%s", lk_error_text());
    LK_TRY(st);
    if (!n || (int)n < traces[0].info.world_size)
        LK_TRY(lk_fail(LK_EEVIDENCE, "%s: not all ranks have begun", dir));
    lk_traces_sort(traces, n);
    lk_traces_align(traces, n);
    lk_traces_keep_last(traces, n, steps);
    LK_TRY(lk_run_take(dir, traces, n, &run));
    traces = NULL; /* the run's */
    if (!run.n_steps)
        LK_TRY(lk_fail(LK_EEVIDENCE, "%s: no step behind the warm-up has ended yet", dir));
    *out = run;
    run = (struct lk_run){0};
out:
    lk_run_fini(&run);
    if (traces)
        lk_traces_free(traces, n);
    lk_names_free(names, n_names);
    return st;
}
