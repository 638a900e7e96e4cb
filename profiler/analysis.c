/* Analyse one run: choose its reference, and compute the parts of the analysis in order. */
#include "profiler/analysis.h"

#include "base/array.h"
#include "profiler/analysis_impl.h"

#include <stdlib.h>
#include <string.h>

static bool same_tensors(const struct lk_run_info *x, const struct lk_run_info *y)
{
    if (x->n_tensors != y->n_tensors)
        return false;
    for (size_t i = 0; i < x->n_tensors; i++)
        if (x->tensors[i].elems != y->tensors[i].elems ||
            x->tensors[i].dtype != y->tensors[i].dtype)
            return false;
    return true;
}

static bool comparable(const struct lk_run *run, const struct lk_run *ref)
{
    return lk_run_about(ref)->local_batch == lk_run_about(run)->local_batch &&
           same_tensors(lk_run_about(run), lk_run_about(ref)) && ref->n_steps;
}

size_t lk_analysis_reference(const struct lk_run_set *set, const struct lk_run *run,
                             const struct lk_run **refs)
{
    const struct lk_run_info *info = lk_run_about(run);
    int world = 0, accumulation = 0;
    bool itself = false;
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++) { /* by world size, so the first match is the smallest */
        const struct lk_run_info *x = lk_run_about(&set->runs[i]);

        if (!comparable(run, &set->runs[i]) || (world && x->world_size != world))
            continue;
        world = x->world_size;
        if (!accumulation || x->accumulation == info->accumulation)
            accumulation = x->accumulation;
    }
    for (size_t i = 0; i < set->n; i++) {
        const struct lk_run_info *x = lk_run_about(&set->runs[i]);

        if (comparable(run, &set->runs[i]) && x->world_size == world &&
            x->accumulation == accumulation) {
            itself = itself || &set->runs[i] == run;
            refs[n++] = &set->runs[i];
        }
    }
    return itself && world > 1 ? 0 : n;
}

static enum lk_status check_references(const struct lk_run *run, const struct lk_run *const *refs,
                                       size_t n_refs)
{
    if (!run->n_steps)
        return lk_fail(LK_EEVIDENCE, "%s: no step after the warm-up is complete on all ranks",
                       run->dir);
    for (size_t i = 0; i < n_refs; i++) {
        if (!refs[i]->n_steps)
            return lk_fail(LK_EEVIDENCE, "%s: no step after the warm-up is complete on all ranks",
                           refs[i]->dir);
        if (!comparable(run, refs[i]))
            return lk_fail(LK_EUSAGE,
                           "%s cannot be the reference of %s: local batch or gradient tensors "
                           "differ",
                           refs[i]->dir, run->dir);
    }
    return LK_OK;
}

static enum lk_status name_reference(struct lk_analysis *a, const struct lk_run *const *refs,
                                     size_t n_refs)
{
    const struct lk_run_info *info;

    if (!n_refs)
        return lk_asprintf(&a->reference, "modelled from this run");
    info = lk_run_about(refs[0]);
    return lk_asprintf(&a->reference, "%s%s: %d rank%s, local batch %d", refs[0]->dir,
                       n_refs > 1 ? " and its repetitions" : "", info->world_size,
                       info->world_size == 1 ? "" : "s", info->local_batch);
}

/* Means over the steps of every rank's windows and their parts. */
static void split_ranks(struct lk_analysis *a)
{
    const struct lk_run *run = a->run;
    double n = (double)run->n_steps;

    for (size_t k = 0; k < run->n; k++) {
        struct lk_analysis_rank *to = &a->ranks[k];

        for (size_t s = 0; s < run->n_steps; s++) {
            const struct lk_step *p = lk_rank_step(&run->ranks[k], run->steps[s]);
            const uint64_t *begin_ns = a->begin_ns + k * a->n_collectives + a->first_collective[s];
            struct lk_step_split x;

            lk_step_split(&run->ranks[k], p, begin_ns, &x);
            to->step_s += lk_step_window_s(p) / n;
            for (size_t i = 0; i < LK_PART_COUNT; i++)
                to->split.s[i] += x.s[i] / n;
        }
        a->step_s += to->step_s / (double)run->n;
    }
}

/* Map each of the trace's names to a quantity; LK_GPU_QUANTITY_COUNT: none. out[id - 1]. */
static void find_names(const struct lk_trace *t, enum lk_gpu_quantity *out)
{
    for (size_t i = 0; i < t->n_names; i++) {
        out[i] = LK_GPU_QUANTITY_COUNT;
        for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
            if (!strcmp(t->names[i], lk_gpu_quantity_name((enum lk_gpu_quantity)q)))
                out[i] = (enum lk_gpu_quantity)q;
    }
}

/* Summarise a rank's GPU while the steps ran, from the counters of its trace. */
static enum lk_status summarize_gpu(const struct lk_run *run, size_t k,
                                    struct lk_analysis_rank *out)
{
    const struct lk_trace *t = &run->traces[k];
    const struct lk_step *first = lk_rank_step(&run->ranks[k], run->steps[0]);
    const struct lk_step *last = lk_rank_step(&run->ranks[k], run->steps[run->n_steps - 1]);
    struct lk_gpu_sums sums = {0};
    struct lk_run_facts facts;
    enum lk_gpu_quantity *quantities = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_run_facts_read(&t->info, &facts));
    LK_TRY(lk_alloc(&quantities, t->n_names + 1, sizeof *quantities));
    find_names(t, quantities);
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        uint64_t at_ns = lk_clock_apply(&t->clock, s->start_ns);

        if (s->kind == LK_SPAN_COUNTER && s->name > 0 &&
            t->tracks[t->spans[i].track].kind == LK_TRACK_GPU &&
            quantities[s->name - 1] != LK_GPU_QUANTITY_COUNT && at_ns >= first->begin_ns &&
            at_ns <= last->end_ns)
            lk_gpu_sums_add(&sums, quantities[s->name - 1], at_ns, s->value);
    }
    lk_gpu_summary(&sums, &out->gpu);
    out->gpu_max_mhz = facts.gpu_max_sm_clock_mhz;
    out->gpu_limit_w = facts.gpu_power_limit_w;
out:
    free(quantities);
    return st;
}

enum lk_status lk_analyze(const struct lk_run *run, const struct lk_run *const *refs, size_t n_refs,
                          struct lk_analysis *out)
{
    enum lk_status st = LK_OK;
    struct lk_analysis a = {.run = run, .modelled = !n_refs};
    struct lk_work work = {0};

    LK_TRY(check_references(run, refs, n_refs));
    LK_TRY(name_reference(&a, refs, n_refs));
    LK_TRY(lk_alloc(&a.ranks, run->n, sizeof *a.ranks));
    LK_TRY(lk_analysis_arrivals_(&a));
    split_ranks(&a);
    LK_TRY(lk_analysis_buckets_(&a));
    LK_TRY(n_refs ? lk_work_measure_(refs, n_refs, &work) : lk_work_model_(&a, &work));
    LK_TRY(lk_analysis_waterfall_(&a, &work));
    for (size_t k = 0; k < run->n; k++)
        LK_TRY(summarize_gpu(run, k, &a.ranks[k]));
    LK_TRY(lk_analysis_findings_(&a));
    *out = a;
    a = (struct lk_analysis){0};
out:
    lk_work_fini_(&work);
    lk_analysis_fini(&a);
    return st;
}

void lk_analysis_fini(struct lk_analysis *a)
{
    for (size_t i = 0; i < a->n_findings; i++)
        free(a->findings[i].text);
    free(a->findings);
    free(a->reference);
    free(a->ranks);
    free(a->buckets);
    free(a->collectives);
    free(a->begin_ns);
    free(a->first_collective);
    *a = (struct lk_analysis){0};
}
