#include "profiler/analysis/kernel_sums.h"

#include "base/array.h"
#include "profiler/record/cupti_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const uses[LK_USES] = {[LK_USE_COMPUTE] = "compute",
                                          [LK_USE_COMMUNICATION] = "communication",
                                          [LK_USE_MEMORY] = "copies"};

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("kernel",     "kernel",        LK_DIM_NONE, -1, (const char *)name)                          \
    X("name",       "full name",     LK_DIM_NONE, LK_TABLE_DATA, k->name)                          \
    X("use",        "use",           LK_DIM_NONE, -1, uses[k->use])                                \
    X("n",          "count",         LK_DIM_NONE, -1, (double)k->n)                                \
    X("total_s",    "total",         LK_DIM_TIME, 0,  lk_s_from_ns(k->total_ns))                    \
    X("mean_s",     "mean",          LK_DIM_TIME, 0,  lk_s_from_ns(k->total_ns) / (double)k->n)     \
    X("least_s",    "least",         LK_DIM_TIME, 0,  lk_s_from_ns(k->least_ns))                    \
    X("most_s",     "most",          LK_DIM_TIME, 0,  lk_s_from_ns(k->most_ns))                     \
    X("step_share", "share of step", LK_DIM_NONE, LK_TABLE_PERCENT,                                \
      lk_s_from_ns(k->total_ns) / of_s)

const struct lk_column lk_kernel_columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */
const size_t lk_n_kernel_columns = LK_COUNT(lk_kernel_columns);

void lk_kernel_sums_fini(struct lk_kernel_sums *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->at[i].name);
    free(s->at);
    *s = (struct lk_kernel_sums){0};
}

/* Find the sum of a name and use, or make it. */
static enum lk_status find(struct lk_kernel_sums *s, const char *name, enum lk_use use, size_t *at)
{
    size_t i = 0;

    while (i < s->n && (s->at[i].use != use || strcmp(s->at[i].name, name) != 0))
        i++;
    if (i == s->n) {
        LK_PASS(lk_array_grow(&s->at, &s->capacity, s->n + 1, sizeof *s->at));
        s->at[i] = (struct lk_kernel_sum){.use = use, .least_ns = UINT64_MAX};
        LK_PASS(lk_strdup(&s->at[i].name, name));
        s->n++;
    }
    *at = i;
    return LK_OK;
}

enum lk_status lk_kernel_sums_add(struct lk_kernel_sums *s, const char *name, enum lk_use use,
                                  uint64_t ns, size_t *row)
{
    struct lk_kernel_sum *k;
    size_t at;

    if (!*row) {
        LK_PASS(find(s, name, use, &at));
        *row = at + 1;
    }
    k = &s->at[*row - 1];
    k->n++;
    k->total_ns += ns;
    k->least_ns = ns < k->least_ns ? ns : k->least_ns;
    k->most_ns = ns > k->most_ns ? ns : k->most_ns;
    return LK_OK;
}

static int by_total(const void *a, const void *b)
{
    const struct lk_kernel_sum *x = a, *y = b;
    int names = strcmp(x->name, y->name);

    if (x->total_ns != y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    return names ? names : LK_ORDER(x->use, y->use);
}

enum lk_status lk_kernel_sums_fill(struct lk_kernel_sums *s, double of_s, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    if (s->n)
        qsort(s->at, s->n, sizeof *s->at, by_total);
    for (const struct lk_kernel_sum *k = s->at; k < s->at + s->n; k++) {
        char name[96];

        lk_kernel_name(k->name, name, sizeof name);
        LK_TRY(lk_table_row(t));
        ROWS(LK_TABLE_CELL)
    }
out:
    return st;
}
