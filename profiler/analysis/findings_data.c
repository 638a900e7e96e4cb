/* Findings that make a run worthless: ranks that train on the same samples, ranks that share a GPU.
 */
#include "base/array.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/rank_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ranks that are alike ---- */

/* Ranks are compared by a mark: a list of numbers, or a text. */
struct mark {
    const double *at; /* n of them; NULL: by the text */
    size_t n;
    const char *text;
    size_t rank; /* index */
};

static int compare(const struct mark *x, const struct mark *y)
{
    for (size_t i = 0; x->at && i < x->n; i++)
        if (x->at[i] != y->at[i])
            return x->at[i] < y->at[i] ? -1 : 1;
    return x->at ? 0 : strcmp(x->text, y->text);
}

static int mark_order(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    int order = compare(x, y);

    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Add a finding for each group of two and more ranks whose marks are the same. what: what is the
 * same, and what follows. The marks are sorted. */
static enum lk_status find_alike(struct lk_analysis *a, enum lk_finding_id id, const char *name,
                                 struct mark *marks, size_t n, const char *what)
{
    enum lk_status st = LK_OK;
    struct lk_rank_list alike = {0};
    char text[160];

    if (n)
        qsort(marks, n, sizeof *marks, mark_order);
    for (size_t i = 0, next; i < n; i = next) {
        alike.n = 0;
        for (next = i; next < n && compare(&marks[i], &marks[next]) == 0; next++)
            LK_TRY(lk_rank_list_add(&alike, lk_run_rank(a->run, marks[next].rank)));
        if (alike.n > 1)
            LK_TRY(lk_finding_add_(a, id, -1, NAN, "%s: ranks %s %s", name,
                                   lk_rank_list_text(alike.at, alike.n, text, sizeof text), what));
    }
out:
    lk_rank_list_fini(&alike);
    return st;
}

/* ---- Duplicated shards ---- */

/* So many steps are compared: more than enough to tell that nothing but the samples is equal. */
enum { STEPS_COMPARED = 256 };

/* Set at[i] to the rank's own loss in the i-th of n steps, by number; NaN: it is not recorded. */
static void read_losses(const struct lk_trace *t, const uint32_t *steps, size_t n, double *at)
{
    for (size_t i = 0; i < n; i++)
        at[i] = NAN;
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        size_t step;

        if (s->kind != LK_SPAN_COUNTER || strcmp(lk_trace_span_name(t, s), LK_LOSS_COUNTER) != 0)
            continue;
        step = lk_steps_find(steps, n, s->step);
        if (step < n)
            at[step] = s->value;
    }
}

/* Return true if losses tell samples apart: all are known, and they are not one constant. */
static bool losses_tell(const double *at, size_t n)
{
    bool varies = false;

    for (size_t i = 0; i < n; i++) {
        if (isnan(at[i]))
            return false;
        varies = varies || at[i] != at[0];
    }
    return varies;
}

/* Report ranks whose own losses are the same in every step: they train on the same samples. Traces
 * of other programs do not have losses. */
enum lk_status lk_find_duplicate_shards_(struct lk_analysis *a)
{
    const struct lk_run *run = a->run;
    size_t n = run->n_timed < STEPS_COMPARED ? run->n_timed : STEPS_COMPARED, n_marks = 0;
    enum lk_status st = LK_OK;
    struct mark *marks = NULL;
    double *losses = NULL;
    char what[160];

    if (run->n < 2 || n < LK_FINDING_FEW)
        return LK_OK;
    LK_TRY(lk_alloc(&losses, run->n * n, sizeof *losses));
    LK_TRY(lk_alloc(&marks, run->n, sizeof *marks));
    for (size_t k = 0; k < run->n; k++) {
        read_losses(&run->traces[k], run->timed, n, losses + k * n);
        if (losses_tell(losses + k * n, n))
            marks[n_marks++] = (struct mark){.at = losses + k * n, .n = n, .rank = k};
    }
    (void)snprintf(what, sizeof what,
                   "have the same loss in each of %zu steps, so they train on the same samples", n);
    st = find_alike(a, LK_FINDING_DUPLICATE_SHARDS, "duplicated shards", marks, n_marks, what);
out:
    free(marks);
    free(losses);
    return st;
}

/* ---- Shared GPUs ---- */

/* Report ranks that use one GPU: by its UUID or, of a file of several processes, its number there.
 */
enum lk_status lk_find_shared_gpu_(struct lk_analysis *a)
{
    enum lk_status st = LK_OK;
    struct mark *marks = NULL;
    char **ids = NULL;
    size_t n = 0;

    if (a->run->n < 2)
        return LK_OK;
    LK_TRY(lk_alloc(&marks, a->run->n, sizeof *marks));
    LK_TRY(lk_alloc(&ids, a->run->n, sizeof(char *)));
    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_run_info *info = &a->run->traces[k].info;
        const char *uuid = lk_run_info_value(info, LK_GPU_CONFIG_UUID);
        const char *number = lk_run_info_value(info, LK_IMPORT_GPU_CONFIG_KEY);
        const char *file = lk_run_info_value(info, LK_IMPORT_CONFIG_KEY);

        if (uuid)
            LK_TRY(lk_strdup(&ids[n], uuid));
        else if (number && file)
            LK_TRY(lk_asprintf(&ids[n], "%s in %s", number, file));
        else
            continue;
        marks[n] = (struct mark){.text = ids[n], .rank = k};
        n++;
    }
    st = find_alike(a, LK_FINDING_SHARED_GPU, "shared GPU", marks, n,
                    "use the same GPU, and take turns on it");
out:
    for (size_t i = 0; ids && i < a->run->n; i++)
        free(ids[i]);
    free(ids);
    free(marks);
    return st;
}
