/*
 * Analyse one run. Divisions: its reference; its collectives, matched across ranks; their means by
 * bucket; its ranks; the whole, in order. Waterfall, findings and tables have files of their own.
 */
#include "profiler/analysis/analysis.h"

#include "base/array.h"
#include "base/stats.h"
#include "profiler/analysis/analysis_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The reference ---- */

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
    return lk_run_info_same_batches(lk_run_about(ref), lk_run_about(run)) &&
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
    for (size_t i = 0; i <= n_refs; i++) {
        const struct lk_run *r = i ? refs[i - 1] : run;

        if (!r->n_steps)
            return lk_fail(LK_EEVIDENCE, "%s: no step after the warm-up is complete on all ranks",
                           r->dir);
        if (!comparable(run, r))
            return lk_fail(LK_EUSAGE,
                           "%s cannot be the reference of %s: local batch or gradient tensors "
                           "differ",
                           r->dir, run->dir);
    }
    return LK_OK;
}

static enum lk_status name_reference(struct lk_analysis *a, const struct lk_run *const *refs,
                                     size_t n_refs)
{
    const struct lk_run_info *info;
    char batch[16];

    if (!n_refs)
        return lk_asprintf(&a->reference, "modelled from this run");
    info = lk_run_about(refs[0]);
    a->reference_ranks = info->world_size;
    return lk_asprintf(&a->reference, "%s%s: %d rank%s, local batch %s", refs[0]->dir,
                       n_refs > 1 ? " and its repetitions" : "", info->world_size,
                       info->world_size == 1 ? "" : "s", lk_run_info_batches(info, batch));
}

static const struct lk_step *step_of(const struct lk_analysis *a, size_t rank, size_t step)
{
    return lk_rank_step(&a->run->ranks[rank], a->run->steps[step]);
}

/* ---- Collectives: arrivals and wire times ---- */

/* Compute begin(k) and wire(k) on the common clock, and who was late. */
static void time_on_common_clock(struct lk_analysis *a, size_t i)
{
    struct lk_analysis_collective *m = &a->collectives[i];
    uint64_t last = 0, before = 0, end = 0;
    size_t late = 0, second = 0;

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_collective *x = lk_collective_of_(a, k, m);

        if (!k || x->arrival_ns > last) {
            before = last;
            second = late;
            last = x->arrival_ns;
            late = k;
        } else if (k == 1 || x->arrival_ns > before) {
            before = x->arrival_ns;
            second = k;
        }
        end = x->end_ns > end ? x->end_ns : end;
    }
    for (size_t k = 0; k < a->run->n; k++)
        a->begin_ns[k * a->n_collectives + i] = last;
    m->wire_ns = end > last ? end - last : 0;
    if (a->run->n < 2)
        return;
    m->late_rank = (int)late;
    m->late_by_ns = last - before;
    m->resolved =
        m->late_by_ns > a->run->ranks[late].uncertainty_ns + a->run->ranks[second].uncertainty_ns;
}

/* Estimate them from durations alone: the rank with the shortest collective came last. */
static void time_by_duration(struct lk_analysis *a, size_t i)
{
    struct lk_analysis_collective *m = &a->collectives[i];
    uint64_t shortest = UINT64_MAX, second = UINT64_MAX;

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_collective *x = lk_collective_of_(a, k, m);
        uint64_t duration = x->end_ns - x->arrival_ns;

        if (duration < shortest) {
            second = shortest;
            shortest = duration;
            m->late_rank = (int)k;
        } else if (duration < second) {
            second = duration;
        }
    }
    for (size_t k = 0; k < a->run->n; k++)
        a->begin_ns[k * a->n_collectives + i] = lk_collective_of_(a, k, m)->end_ns - shortest;
    m->wire_ns = shortest;
    m->late_by_ns = second - shortest;
    m->resolved = m->late_by_ns > 0;
}

/* Take each rank's own time: in a grouped run it is not known whom a rank waited for. */
static void time_alone(struct lk_analysis *a, size_t i)
{
    struct lk_analysis_collective *m = &a->collectives[i];
    uint64_t sum = 0;

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_collective *x = lk_collective_of_(a, k, m);

        a->begin_ns[k * a->n_collectives + i] = x->arrival_ns;
        sum += x->end_ns - x->arrival_ns;
    }
    m->wire_ns = sum / a->run->n;
}

/* Return true if the kernel of some collective of the steps is known. */
static bool knows_launches(const struct lk_run *run)
{
    for (size_t k = 0; k < run->n; k++)
        for (size_t s = 0; s < run->n_steps; s++) {
            const struct lk_step *p = lk_rank_step(&run->ranks[k], run->steps[s]);

            for (size_t i = 0; i < p->n_collectives; i++)
                if (run->ranks[k].collectives[p->first_collective + i].by_kernel)
                    return true;
        }
    return false;
}

static enum lk_status find_arrivals(struct lk_analysis *a)
{
    const struct lk_run *run = a->run;

    a->launches = knows_launches(run);
    a->aligned = true;
    for (size_t k = 0; k < run->n; k++)
        a->aligned = a->aligned && run->ranks[k].uncertainty_ns < LK_CLOCK_UNKNOWN_NS;
    LK_PASS(lk_alloc(&a->first_collective, run->n_steps + 1, sizeof *a->first_collective));
    for (size_t s = 0; s < run->n_steps; s++)
        a->first_collective[s + 1] = a->first_collective[s] + step_of(a, 0, s)->n_collectives;
    a->n_collectives = a->first_collective[run->n_steps];
    LK_PASS(lk_alloc(&a->collectives, a->n_collectives, sizeof *a->collectives));
    LK_PASS(lk_alloc(&a->begin_ns, a->n_collectives * run->n, sizeof *a->begin_ns));
    for (size_t s = 0; s < run->n_steps; s++)
        for (size_t i = a->first_collective[s]; i < a->first_collective[s + 1]; i++) {
            a->collectives[i] = (struct lk_analysis_collective){
                .step = s, .index = i - a->first_collective[s], .late_rank = -1};
            if (lk_run_is_grouped(run))
                time_alone(a, i);
            else if (a->aligned)
                time_on_common_clock(a, i);
            else
                time_by_duration(a, i);
        }
    return LK_OK;
}

/* ---- Buckets ---- */

/* Return the power of two that a size has reached: sizes of one are taken together. */
static int magnitude(uint64_t bytes)
{
    int n = 0;

    for (; bytes; bytes >>= 1)
        n++;
    return n;
}

/* Return what a collective that has no bucket is called. */
static const char *function_of(const struct lk_analysis *a, const struct lk_collective *x)
{
    const struct lk_span span = {.kind = LK_SPAN_COLLECTIVE, .name = x->name};

    return x->name ? lk_trace_span_name(&a->run->traces[0], &span) : "unknown";
}

/* Compare a row with a collective: by bucket, function, magnitude. */
static int row_order(const struct lk_analysis *a, const struct lk_analysis_bucket *b,
                     const struct lk_collective *x)
{
    int by_name;

    if (b->bucket != x->bucket)
        return b->bucket < x->bucket ? -1 : 1;
    if (x->bucket >= 0)
        return 0;
    by_name = strcmp(b->function, function_of(a, x));
    return by_name ? by_name : magnitude(b->bytes) - magnitude(x->bytes);
}

/* Set which collective a row is, of how many ranks. Without a name, of gradients it is DDP's. */
static void set_coll(const struct lk_analysis *a, const struct lk_collective *x,
                     struct lk_analysis_bucket *b)
{
    const char *name = function_of(a, x);
    bool reduces = x->bucket >= 0;
    size_t n;

    b->ranks = reduces ? lk_run_gradient_ranks(a->run) : lk_run_world_size(a->run);
    n = lk_coll_split(name, &b->ranks);
    if (!lk_coll_find(name, n, &b->coll))
        b->coll = reduces ? LK_ALL_REDUCE : LK_COLL_COUNT;
}

static enum lk_status find_buckets(struct lk_analysis *a)
{
    size_t capacity = 0;

    for (size_t i = 0; i < a->n_collectives; i++) {
        const struct lk_collective *x = lk_collective_of_(a, 0, &a->collectives[i]);
        size_t at = 0;

        while (at < a->n_buckets && row_order(a, &a->buckets[at], x) < 0)
            at++;
        if (at < a->n_buckets && row_order(a, &a->buckets[at], x) == 0)
            continue;
        LK_PASS(lk_array_grow(&a->buckets, &capacity, a->n_buckets + 1, sizeof *a->buckets));
        for (size_t b = a->n_buckets; b > at; b--)
            a->buckets[b] = a->buckets[b - 1];
        a->buckets[at] =
            (struct lk_analysis_bucket){.bucket = x->bucket,
                                        .alone_s = NAN,
                                        .function = x->bucket < 0 ? function_of(a, x) : NULL,
                                        .bytes = x->bytes,
                                        .late_rank = -1};
        set_coll(a, x, &a->buckets[at]);
        a->n_buckets++;
    }
    return LK_OK;
}

static const struct lk_range *backward_before(const struct lk_rank_steps *r,
                                              const struct lk_step *p, uint64_t at_ns)
{
    const struct lk_range *found = NULL;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++)
        if (r->ranges[i].kind == LK_SPAN_BACKWARD && r->ranges[i].start_ns <= at_ns)
            found = &r->ranges[i];
    return found;
}

/* Add one collective seen by one rank, with weight 1 / (collectives * ranks). */
static void add_to_bucket(const struct lk_analysis *a, size_t collective, size_t rank,
                          struct lk_analysis_bucket *b, double weight)
{
    const struct lk_analysis_collective *m = &a->collectives[collective];
    const struct lk_rank_steps *r = &a->run->ranks[rank];
    const struct lk_step *p = step_of(a, rank, m->step);
    const struct lk_collective *x = lk_collective_of_(a, rank, m);
    uint64_t begin = a->begin_ns[rank * a->n_collectives + collective];
    uint64_t ready = x->ready_ns && x->ready_ns < x->due_ns ? x->ready_ns : x->due_ns;
    const struct lk_range *backward = backward_before(r, p, ready);
    uint64_t covered = lk_step_covered_ns(r, p, x->arrival_ns, x->end_ns);
    uint64_t from = backward ? backward->start_ns : p->begin_ns;

    /* An imported trace may place a collective before the step that it is of. */
    b->ready_s += weight * lk_ns_to_s_(ready > from ? ready - from : 0);
    b->queue_s += weight * lk_ns_to_s_(x->due_ns - ready);
    b->queued += weight * (x->due_ns > ready);
    b->launch_s += weight * (a->launches ? lk_ns_to_s_(x->arrival_ns - x->due_ns) : NAN);
    b->wait_s += weight * lk_ns_to_s_(begin > x->arrival_ns ? begin - x->arrival_ns : 0);
    b->exposed_s += weight * lk_ns_to_s_(x->end_ns - x->arrival_ns - covered);
}

/* Fill one bucket; wire and late are scratch of n_collectives and n ranks. */
static void fill_bucket(const struct lk_analysis *a, struct lk_analysis_bucket *b, double *wire,
                        size_t *late, double *late_by)
{
    double bytes = 0;

    for (size_t k = 0; k < a->run->n; k++) {
        late[k] = 0;
        late_by[k] = 0;
    }
    for (size_t i = 0; i < a->n_collectives; i++) {
        const struct lk_analysis_collective *m = &a->collectives[i];

        if (row_order(a, b, lk_collective_of_(a, 0, m)))
            continue;
        bytes += (double)lk_collective_of_(a, 0, m)->bytes;
        wire[b->n++] = lk_ns_to_s_(m->wire_ns);
        if (!m->resolved) {
            b->n_unresolved += a->run->n > 1;
            continue;
        }
        late[m->late_rank]++;
        late_by[m->late_rank] += lk_ns_to_s_(m->late_by_ns);
    }
    for (size_t i = 0; i < a->n_collectives; i++)
        for (size_t k = 0;
             k < a->run->n && !row_order(a, b, lk_collective_of_(a, 0, &a->collectives[i])); k++)
            add_to_bucket(a, i, k, b, 1 / (double)(b->n * a->run->n));
    b->bytes = (uint64_t)(bytes / (double)b->n);
    b->wire_s = lk_stats_mean(wire, b->n);
    b->wire_p95_s = lk_stats_quantile(wire, b->n, 0.95);
    for (size_t k = 0; k < a->run->n; k++)
        if (late[k] > b->n_late) {
            b->late_rank = (int)k;
            b->n_late = late[k];
            b->late_by_s = late_by[k] / (double)late[k];
        }
}

static void add_launch(struct lk_analysis_launch *to, const struct lk_collective *x)
{
    if (!x->by_kernel)
        return;
    to->n++;
    to->delay_s += lk_ns_to_s_(x->arrival_ns - x->due_ns);
    if (x->launched_ns > x->due_ns)
        to->called_s += lk_ns_to_s_(
            (x->launched_ns < x->arrival_ns ? x->launched_ns : x->arrival_ns) - x->due_ns);
}

/* Count how often each rank was last, and sum what preceded its collectives. */
static void fill_ranks(struct lk_analysis *a)
{
    for (size_t i = 0; i < a->n_collectives; i++) {
        const struct lk_analysis_collective *m = &a->collectives[i];

        for (size_t k = 0; k < a->run->n; k++)
            add_launch(&a->ranks[k].launch, lk_collective_of_(a, k, m));
        if (m->resolved) {
            a->ranks[m->late_rank].n_late++;
            a->ranks[m->late_rank].late_by_s += lk_ns_to_s_(m->late_by_ns);
        }
    }
    for (size_t k = 0; k < a->run->n; k++)
        if (a->ranks[k].n_late)
            a->ranks[k].late_by_s /= (double)a->ranks[k].n_late;
}

/* Return the mean share of the backward after which a bucket is first ready; NaN without any. */
static double first_ready(const struct lk_analysis *a)
{
    double sum = 0;
    size_t n = 0;

    for (size_t s = 0; s < a->run->n_steps; s++)
        for (size_t k = 0; k < a->run->n; k++) {
            const struct lk_rank_steps *r = &a->run->ranks[k];
            const struct lk_step *p = step_of(a, k, s);
            const struct lk_collective *x;
            const struct lk_range *b;

            if (!p->n_collectives)
                continue;
            x = &r->collectives[p->first_collective];
            b = backward_before(r, p, x->due_ns);
            if (!b || b->end_ns == b->start_ns)
                continue;
            sum += fmin(1, (double)(x->due_ns - b->start_ns) / (double)(b->end_ns - b->start_ns));
            n++;
        }
    return n ? sum / (double)n : NAN;
}

static enum lk_status fill_buckets(struct lk_analysis *a)
{
    enum lk_status st = LK_OK;
    double *wire = NULL, *late_by = NULL;
    size_t *late = NULL;

    LK_TRY(find_buckets(a));
    LK_TRY(lk_alloc(&wire, a->n_collectives, sizeof *wire));
    LK_TRY(lk_alloc(&late, a->run->n, sizeof *late));
    LK_TRY(lk_alloc(&late_by, a->run->n, sizeof *late_by));
    for (size_t b = 0; b < a->n_buckets; b++)
        fill_bucket(a, &a->buckets[b], wire, late, late_by);
    fill_ranks(a);
    a->first_ready = first_ready(a);
out:
    free(wire);
    free(late);
    free(late_by);
    return st;
}

/* ---- Ranks ---- */

/* Return how many collectives of the steps before may be under way in step s of the run. */
static size_t pending_before(const struct lk_analysis *a, size_t s)
{
    size_t late = (size_t)lk_run_about(a->run)->staleness;

    late = late < s ? late : s;
    return a->run->steps[s] - a->run->steps[s - late] == late
               ? a->first_collective[s] - a->first_collective[s - late]
               : 0;
}

/* Means over the steps of every rank's windows and their parts; gaps between the kernels of a pass
 * are gaps of the host, as all others. */
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

            lk_step_split_late(&run->ranks[k], p, begin_ns, pending_before(a, s), &x);
            to->step_s += lk_step_window_s(p) / n;
            lk_step_split_add(&to->split, &x, 1 / n);
        }
        a->step_s += to->step_s / (double)run->n;
    }
}

/* Map each of the trace's names to a quantity; LK_GPU_QUANTITY_COUNT: none. out[id - 1]. */
static void find_names(const struct lk_trace *t, enum lk_gpu_quantity *out)
{
    for (size_t i = 0; i < t->n_names; i++)
        if (lk_words_find(&lk_gpu_quantity_words, t->names[i], &out[i]) != LK_OK)
            out[i] = LK_GPU_QUANTITY_COUNT;
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

/* ---- Compute ---- */

/* Tell whether it is known how much of the collectives compute covers. Nothing covers calls in
 * which the host waits until they are done. */
static bool knows_exposure(const struct lk_run *run)
{
    return lk_run_has_compute(run) ||
           lk_run_info_value(lk_run_about(run), LK_BLOCKING_CONFIG_KEY) != NULL;
}

/* Make unknown what depends on the compute. */
static void forget_exposure(struct lk_analysis *a)
{
    for (size_t k = 0; k < a->run->n; k++) {
        struct lk_analysis_rank *r = &a->ranks[k];

        for (int part = 0; part < LK_PART_COUNT; part++)
            r->split.s[part] = r->split.gap_s[part] = NAN;
        r->split.compute_s = r->split.exposed_s = NAN;
        for (int loss = 0; loss < LK_LOSS_COUNT; loss++)
            r->losses_s[loss] = NAN;
        r->slowdown = NAN;
    }
    for (int loss = 0; loss < LK_LOSS_COUNT; loss++)
        a->losses_s[loss] = NAN;
    a->efficiency = a->reference_own_s = NAN;
    for (size_t i = 0; i < a->n_buckets; i++)
        a->buckets[i].exposed_s = NAN;
}

/* ---- The whole ---- */

enum lk_status lk_analyze(const struct lk_run *run, const struct lk_run *const *refs, size_t n_refs,
                          struct lk_analysis *out)
{
    enum lk_status st = LK_OK;
    struct lk_analysis a = {.run = run, .modelled = !n_refs};
    struct lk_work work = {0};

    LK_TRY(check_references(run, refs, n_refs));
    LK_TRY(name_reference(&a, refs, n_refs));
    LK_TRY(lk_alloc(&a.ranks, run->n, sizeof *a.ranks));
    LK_TRY(find_arrivals(&a));
    split_ranks(&a);
    if (!(a.step_s > 0)) {
        st = lk_fail(LK_EEVIDENCE, "%s: its steps take no time", run->dir);
        goto out;
    }
    LK_TRY(fill_buckets(&a));
    LK_TRY(lk_analysis_lateness_(&a));
    LK_TRY(n_refs ? lk_work_measure_(refs, n_refs, &work) : lk_work_model_(&a, &work));
    LK_TRY(lk_analysis_waterfall_(&a, &work));
    lk_analysis_efficiency_(&a, refs, n_refs);
    a.exposure_known = knows_exposure(run);
    if (!a.exposure_known)
        forget_exposure(&a);
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
