/*
 * The table of kernels and copies by name, of all ranks and steps that are analysed: how many, how
 * long, and their share of the step. Each counts in full, also where two run at the same time.
 */
#include "base/array.h"
#include "facts/run_facts.h"
#include "facts/trace_work.h"
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/breakdown.h"
#include "profiler/record/cupti_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const uses[] = {[LK_USE_COMPUTE] = "compute",
                                   [LK_USE_COMMUNICATION] = "communication",
                                   [LK_USE_MEMORY] = "copies"};

/* Spans of one name and use. */
struct kernel {
    const char *name; /* a trace's */
    enum lk_use use;
    size_t n;
    uint64_t total_ns, least_ns, most_ns;
};

struct kernels {
    struct kernel *at;
    size_t n, capacity;
};

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("kernel",     "kernel",        LK_DIM_NONE, -1, (const char *)name)                          \
    X("name",       "full name",     LK_DIM_NONE, LK_TABLE_DATA, k->name)                          \
    X("use",        "use",           LK_DIM_NONE, -1, uses[k->use])                                \
    X("n",          "count",         LK_DIM_NONE, -1, (double)k->n)                                \
    X("total_s",    "total",         LK_DIM_TIME, 0,  lk_ns_to_s_(k->total_ns))                    \
    X("mean_s",     "mean",          LK_DIM_TIME, 0,  lk_ns_to_s_(k->total_ns) / (double)k->n)     \
    X("least_s",    "least",         LK_DIM_TIME, 0,  lk_ns_to_s_(k->least_ns))                    \
    X("most_s",     "most",          LK_DIM_TIME, 0,  lk_ns_to_s_(k->most_ns))                     \
    X("step_share", "share of step", LK_DIM_NONE, LK_TABLE_PERCENT,                                \
      lk_ns_to_s_(k->total_ns) / of_s)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

static bool is_device_work(const struct lk_span *s)
{
    return s->kind == LK_SPAN_KERNEL || s->kind == LK_SPAN_COPY || s->kind == LK_SPAN_MEMSET;
}

static enum lk_use use_of(const struct lk_trace_work *w, const struct lk_trace_span *s,
                          const char *patterns)
{
    if (s->span.kind != LK_SPAN_KERNEL)
        return LK_USE_MEMORY;
    return lk_trace_work_collective(w, s) ||
                   lk_is_communication(lk_trace_span_name(w->t, &s->span), patterns)
               ? LK_USE_COMMUNICATION
               : LK_USE_COMPUTE;
}

/* Find the row of a name and use, or make it; *at is its index. */
static enum lk_status find_row(struct kernels *all, const char *name, enum lk_use use, size_t *at)
{
    size_t i = 0;

    while (i < all->n && (all->at[i].use != use || strcmp(all->at[i].name, name) != 0))
        i++;
    if (i == all->n) {
        LK_PASS(lk_array_grow(&all->at, &all->capacity, all->n + 1, sizeof *all->at));
        all->at[all->n++] = (struct kernel){.name = name, .use = use, .least_ns = UINT64_MAX};
    }
    *at = i;
    return LK_OK;
}

static void add_span(struct kernel *k, const struct lk_span *s)
{
    uint64_t ns = s->end_ns - s->start_ns;

    k->n++;
    k->total_ns += ns;
    k->least_ns = ns < k->least_ns ? ns : k->least_ns;
    k->most_ns = ns > k->most_ns ? ns : k->most_ns;
}

/* Add a rank's spans. A trace has few names and many spans: the row of each name is kept. */
static enum lk_status add_rank(const struct lk_analysis *a, size_t rank, struct kernels *all)
{
    enum { USES = LK_COUNT(uses) };
    const struct lk_trace *t = &a->run->traces[rank];
    const char *patterns = lk_run_info_value(&t->info, LK_COMM_KERNELS_CONFIG_KEY);
    struct lk_trace_work w = {0};
    enum lk_status st = LK_OK;
    size_t *rows = NULL; /* by name and use; 0: not known, else the index + 1 */

    LK_TRY(lk_trace_work_init(&w, t));
    LK_TRY(lk_alloc(&rows, (t->n_names + 1) * USES, sizeof *rows));
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        enum lk_use use;
        size_t *row, at;

        if (!is_device_work(s) || lk_step_index_(a->run, s->step) == a->run->n_steps)
            continue;
        use = use_of(&w, &t->spans[i], patterns);
        row = &rows[(size_t)s->name * USES + (size_t)use];
        if (!*row || !s->name) { /* spans without a name have that of their kind */
            LK_TRY(find_row(all, lk_trace_span_name(t, s), use, &at));
            *row = at + 1;
        }
        add_span(&all->at[*row - 1], s);
    }
out:
    free(rows);
    lk_trace_work_fini(&w);
    return st;
}

static int by_total(const void *a, const void *b)
{
    const struct kernel *x = a, *y = b;
    int names = strcmp(x->name, y->name);

    if (x->total_ns != y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    return names ? names : (x->use > y->use) - (x->use < y->use);
}

static enum lk_status fill(const struct lk_analysis *a, const struct kernels *all,
                           struct lk_table *t)
{
    double of_s = a->step_s * (double)(a->run->n_steps * a->run->n);
    enum lk_status st = LK_OK;

    for (const struct kernel *k = all->at; k < all->at + all->n; k++) {
        char name[96];

        lk_kernel_name(k->name, name, sizeof name);
        LK_TRY(lk_table_row(t));
        ROWS(LK_TABLE_CELL)
    }
    LK_TRY(lk_table_note(t,
                         "of %zu step%s and %zu rank%s; each kernel counts in full, also where two "
                         "run at the same time",
                         a->run->n_steps, a->run->n_steps == 1 ? "" : "s", a->run->n,
                         a->run->n == 1 ? "" : "s"));
out:
    return st;
}

enum lk_status lk_analysis_kernels_(const struct lk_analysis *a, struct lk_table **out)
{
    struct kernels all = {0};
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;

    for (size_t k = 0; k < a->run->n; k++)
        LK_TRY(add_rank(a, k, &all));
    if (all.n) {
        qsort(all.at, all.n, sizeof *all.at, by_total);
        LK_TRY(lk_analysis_create_(a, "Kernels by name", columns, LK_COUNT(columns), &t));
        LK_TRY(fill(a, &all, t));
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    free(all.at);
    return st;
}
