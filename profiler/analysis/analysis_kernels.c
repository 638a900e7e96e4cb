/* The table of kernels and copies by name, of all ranks and steps that are analysed. */
#include "base/array.h"
#include "facts/run_facts.h"
#include "facts/trace_work.h"
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/kernel_sums.h"

#include <stdlib.h>

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

/* Add a rank's spans. */
static enum lk_status add_rank(const struct lk_analysis *a, size_t rank, struct lk_kernel_sums *all)
{
    const struct lk_trace *t = &a->run->traces[rank];
    const char *patterns = lk_run_info_value(&t->info, LK_COMM_KERNELS_CONFIG_KEY);
    struct lk_trace_work w = {0};
    enum lk_status st = LK_OK;
    size_t *rows = NULL; /* by name and use */

    LK_TRY(lk_trace_work_init(&w, t));
    LK_TRY(lk_alloc(&rows, (t->n_names + 1) * LK_USES, sizeof *rows));
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        size_t none = 0; /* spans without a name have that of their kind */
        enum lk_use use;

        if (!is_device_work(s) || lk_step_index_(a->run, s->step) == a->run->n_steps)
            continue;
        use = use_of(&w, &t->spans[i], patterns);
        LK_TRY(
            lk_kernel_sums_add(all, lk_trace_span_name(t, s), use, s->end_ns - s->start_ns,
                               s->name ? &rows[(size_t)s->name * LK_USES + (size_t)use] : &none));
    }
out:
    free(rows);
    lk_trace_work_fini(&w);
    return st;
}

enum lk_status lk_analysis_kernels_(const struct lk_analysis *a, struct lk_table **out)
{
    size_t n_steps = a->run->n_steps, n = a->run->n;
    struct lk_kernel_sums all = {0};
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;

    for (size_t k = 0; k < n; k++)
        LK_TRY(add_rank(a, k, &all));
    if (all.n) {
        LK_TRY(
            lk_analysis_create_(a, "Kernels by name", lk_kernel_columns, lk_n_kernel_columns, &t));
        LK_TRY(lk_kernel_sums_fill(&all, a->step_s * (double)(n_steps * n), t));
        LK_TRY(lk_table_note(t,
                             "of %zu step%s and %zu rank%s; each kernel counts in full, also where "
                             "two run at the same time",
                             n_steps, n_steps == 1 ? "" : "s", n, n == 1 ? "" : "s"));
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    lk_kernel_sums_fini(&all);
    return st;
}
