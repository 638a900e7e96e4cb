#include "profiler/import/lateness.h"

#include "base/array.h"

#include <stdlib.h>

enum lk_status lk_lateness_add(struct lk_lateness *l, const struct lk_late *x)
{
    l->n_told++;
    if (x->to_ns - x->from_ns < l->least_ns)
        return LK_OK;
    LK_PASS(lk_array_grow(&l->at, &l->capacity, l->n + 1, sizeof *l->at));
    l->at[l->n++] = *x;
    return LK_OK;
}

void lk_lateness_fini(struct lk_lateness *l)
{
    free(l->at);
    *l = (struct lk_lateness){0};
}

static int late_order(const void *a, const void *b)
{
    const struct lk_late *x = a, *y = b;
    int d = (x->rank > y->rank) - (x->rank < y->rank);

    return d ? d : (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* A sum says how often a rank was last, how long others waited in all, and the longest wait. */
struct sum {
    size_t n;
    int64_t all_ns, longest_ns;
};

/* Sum up the waits of one rank, which begin at *i; move *i behind them. */
static struct sum sum_of(const struct lk_lateness *l, size_t *i)
{
    int rank = l->at[*i].rank;
    int64_t covered = INT64_MIN;
    struct sum s = {0};

    for (; *i < l->n && l->at[*i].rank == rank; ++*i) {
        const struct lk_late *x = &l->at[*i];
        int64_t from = x->from_ns > covered ? x->from_ns : covered;

        s.n++;
        s.all_ns += x->to_ns > from ? x->to_ns - from : 0;
        s.longest_ns = x->to_ns - x->from_ns > s.longest_ns ? x->to_ns - x->from_ns : s.longest_ns;
        covered = x->to_ns > covered ? x->to_ns : covered;
    }
    return s;
}

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("rank",      "rank",           LK_DIM_NONE, -1, (double)rank)                                \
    X("times",     "times last",     LK_DIM_NONE, -1, (double)s.n)                                 \
    X("waited_s",  "was waited for", LK_DIM_TIME, 0,  1e-9 * (double)s.all_ns)                     \
    X("longest_s", "longest",        LK_DIM_TIME, 0,  1e-9 * (double)s.longest_ns)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status add_row(struct lk_table *t, int rank, struct sum s)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    ROWS(LK_TABLE_CELL)
out:
    return st;
}

static enum lk_status add_notes(struct lk_table *t, const struct lk_lateness *l)
{
    LK_PASS(
        lk_table_note(t,
                      "rank 0 saw the order of ranks in %llu requests for a tensor; a rank counts "
                      "as last if it came %g ms or more behind the one before it",
                      (unsigned long long)l->n_told, 1e-6 * (double)l->least_ns));
    if (l->n_untold)
        LK_PASS(lk_table_note(t,
                              "of %llu requests the order is not known: Horovod had them in its "
                              "cache (HOROVOD_CACHE_CAPACITY=0 turns it off)",
                              (unsigned long long)l->n_untold));
    return LK_OK;
}

enum lk_status lk_lateness_table(struct lk_lateness *l, struct lk_table **out)
{
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;

    *out = NULL;
    if (!l->n_told && !l->n_untold)
        return LK_OK;
    if (l->n)
        qsort(l->at, l->n, sizeof *l->at, late_order);
    LK_TRY(lk_table_create("Ranks that others waited for", columns, LK_COUNT(columns), &t));
    for (size_t i = 0; i < l->n;) {
        int rank = l->at[i].rank;

        LK_TRY(add_row(t, rank, sum_of(l, &i)));
    }
    LK_TRY(add_notes(t, l));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
