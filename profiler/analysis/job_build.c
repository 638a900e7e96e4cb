/* Build a job from runs. */
#include "profiler/analysis/job_build.h"

#include "base/array.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/job_alike.h"
#include "profiler/analysis/job_collectives.h"
#include "profiler/analysis/job_place.h"
#include "profiler/analysis/job_stats.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tensors ---- */

/* Return the last micro-batch's backward of a step, or NULL. */
static const struct lk_range *last_backward(const struct lk_rank_steps *r, const struct lk_step *p)
{
    for (size_t i = p->first_range + p->n_ranges; i-- > p->first_range;)
        if (r->ranges[i].kind == LK_SPAN_BACKWARD)
            return &r->ranges[i];
    return NULL;
}

/* Return the share of a backward's own work done at an instant; its stalls do not count. */
static double share(const struct lk_rank_steps *r, const struct lk_range *backward, uint64_t at_ns)
{
    uint64_t length = lk_range_work_ns(r, backward->start_ns, backward->end_ns);

    return length ? (double)lk_range_work_ns(r, backward->start_ns, at_ns) / (double)length : 0;
}

/* Return in *out one tensor's median ready share over all steps and ranks of the given runs. */
static enum lk_status ready_share(const struct lk_run *runs, size_t n_runs, size_t tensor,
                                  double **samples, size_t *capacity, double *out)
{
    size_t n = 0;

    for (size_t i = 0; i < n_runs; i++)
        for (size_t k = 0; k < runs[i].n; k++)
            for (size_t s = 0; s < runs[i].n_steps; s++) {
                const struct lk_rank_steps *r = &runs[i].ranks[k];
                const struct lk_range *b = last_backward(r, lk_rank_step(r, runs[i].steps[s]));

                for (size_t m = b->first_mark; m < b->first_mark + b->n_marks; m++) {
                    if (r->marks[m].tensor != (int32_t)tensor)
                        continue;
                    LK_PASS(lk_array_grow(samples, capacity, n + 1, sizeof **samples));
                    (*samples)[n++] = share(r, b, r->marks[m].at_ns);
                }
            }
    if (!n)
        return lk_fail(LK_EEVIDENCE, "%s: no GRADIENT instant of tensor %s", runs[0].dir,
                       lk_run_about(&runs[0])->tensors[tensor].name);
    *out = lk_stats_median(*samples, n);
    return LK_OK;
}

static enum lk_status fill_tensors(const struct lk_run *runs, size_t n_runs, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    const struct lk_run_info *info = lk_run_about(&runs[0]);
    double *samples = NULL;
    size_t capacity = 0;

    LK_TRY(lk_alloc(&j->tensors, info->n_tensors, sizeof *j->tensors));
    for (; j->n_tensors < info->n_tensors; j->n_tensors++) {
        struct lk_job_tensor *t = &j->tensors[j->n_tensors];

        t->elems = info->tensors[j->n_tensors].elems;
        t->dtype = info->tensors[j->n_tensors].dtype;
        t->rows = info->tensors[j->n_tensors].rows;
        LK_TRY(lk_strdup(&t->name, info->tensors[j->n_tensors].name));
    }
    for (size_t i = 0; i < j->n_tensors; i++)
        LK_TRY(ready_share(runs, n_runs, i, &samples, &capacity, &j->tensors[i].ready));
out:
    free(samples);
    return st;
}

/* Return the first step of rank 0's trace that has an instant of every tensor, or else the first:
 * of steps whose GPU records were lost, or in which they began, not all are known. */
static const struct lk_step *first_whole_step(const struct lk_rank_steps *r, size_t n_tensors)
{
    for (size_t i = 0; i < r->n_steps; i++)
        if (last_backward(r, &r->steps[i])->n_marks >= n_tensors)
            return &r->steps[i];
    return &r->steps[0];
}

/* Order tensors by their first instant in such a step. */
static enum lk_status fill_ready_order(const struct lk_run *run, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    const struct lk_rank_steps *r = &run->ranks[0];
    const struct lk_step *step = first_whole_step(r, j->n_tensors);
    const struct lk_range *b = last_backward(r, step);
    bool *seen = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&seen, j->n_tensors, sizeof *seen));
    LK_TRY(lk_alloc(&j->ready_order, j->n_tensors, sizeof *j->ready_order));
    for (size_t m = b->first_mark; m < b->first_mark + b->n_marks; m++) {
        int32_t tensor = r->marks[m].tensor;

        if (tensor < 0 || (size_t)tensor >= j->n_tensors) {
            st = lk_fail(LK_EPARSE, "%s: GRADIENT instant of tensor %d of %zu", run->dir, tensor,
                         j->n_tensors);
            goto out;
        }
        if (!seen[tensor])
            j->ready_order[n++] = (size_t)tensor;
        seen[tensor] = true;
    }
    if (n != j->n_tensors)
        st = lk_fail(LK_EEVIDENCE, "%s: step %u has GRADIENT instants of %zu of %zu tensors",
                     run->dir, step->step, n, j->n_tensors);
out:
    free(seen);
    return st;
}

/* ---- Compute ---- */

/* Describe the source of numbers: the first run, and a remark on what they wrongly contain. */
static enum lk_status source_of(const struct lk_run *runs, size_t n_runs, const char *remark,
                                char **out)
{
    return lk_asprintf(out, "%s%s%s", runs[0].dir, n_runs > 1 ? " and its repetitions" : "",
                       remark);
}

static enum lk_status set_quantity(struct lk_quantity *q, const struct lk_estimate *e,
                                   const char *source)
{
    return lk_quantity_set(q, e->value, e->lo, e->hi, e->n, "%s", source);
}

/* Map a step's part to a field. */
static const struct {
    enum lk_part part;
    size_t offset;
} compute_fields[] = {
    {LK_PART_FORWARD, offsetof(struct lk_job_compute, forward_s)},
    {LK_PART_BACKWARD, offsetof(struct lk_job_compute, backward_s)},
    {LK_PART_INPUT, offsetof(struct lk_job_compute, input_s)},
    {LK_PART_OPTIMIZER, offsetof(struct lk_job_compute, optimizer_s)},
    {LK_PART_GAP, offsetof(struct lk_job_compute, gap_s)},
};

/* Make the optimizer's time of all parameters of that of a shard. */
static void undivide(const struct lk_run_info *info, struct lk_estimate *e)
{
    const struct lk_config c = {.world_size = info->world_size,
                                .nodes = info->nodes,
                                .sharding = info->sharding,
                                .shard_group = info->shard_group};

    e->value *= lk_config_sharers(&c);
    e->lo *= lk_config_sharers(&c);
    e->hi *= lk_config_sharers(&c);
}

/* Scale what ranks with batches of their own took, in the mean, to the largest batch: what a rank
 * and what its batch have to do with its time, such a run alone cannot tell. */
static void to_most(const struct lk_run_info *info, struct lk_estimate *e)
{
    double mean = lk_run_info_samples(info) / info->accumulation / info->world_size;
    double factor = *info->local_batches ? info->local_batch / mean : 1;

    e->value *= factor;
    e->lo *= factor;
    e->hi *= factor;
}

static enum lk_status fill_compute(const struct lk_run *runs, size_t n_runs,
                                   struct lk_job_compute *out)
{
    enum lk_status st = LK_OK;
    struct lk_estimate e;
    char *source = NULL;

    out->local_batch = lk_run_about(&runs[0])->local_batch;
    LK_TRY(source_of(runs, n_runs,
                     lk_run_about(&runs[0])->world_size > 1
                         ? " (several ranks: co-location and overlap are in it)"
                         : "",
                     &source));
    for (size_t i = 0; i < LK_COUNT(compute_fields); i++) {
        LK_TRY(lk_job_part_mean(runs, n_runs, compute_fields[i].part, &e));
        if (compute_fields[i].part == LK_PART_FORWARD || compute_fields[i].part == LK_PART_BACKWARD)
            to_most(lk_run_about(&runs[0]), &e);
        if (compute_fields[i].part == LK_PART_OPTIMIZER)
            undivide(lk_run_about(&runs[0]), &e);
        LK_TRY(set_quantity((struct lk_quantity *)((char *)out + compute_fields[i].offset), &e,
                            source));
    }
    LK_TRY(lk_job_hidden_mean(runs, n_runs, &e));
    if (e.value > 0)
        LK_TRY(set_quantity(&out->optimizer_hidden_s, &e, source));
    LK_TRY(lk_job_transient(runs, n_runs, &e));
    LK_TRY(set_quantity(&out->transient, &e, source));
out:
    free(source);
    return st;
}

static int compute_order(const void *a, const void *b)
{
    const struct lk_job_compute *x = a, *y = b;

    return (x->local_batch > y->local_batch) - (x->local_batch < y->local_batch);
}

static bool has_batch(const struct lk_job *j, int local_batch)
{
    for (size_t i = 0; i < j->n_compute; i++)
        if (j->compute[i].local_batch == local_batch)
            return true;
    return false;
}

/* Count the runs from `first` on with the same world size and local batch (they are adjacent). */
static size_t same_batch(const struct lk_run_set *set, size_t first)
{
    const struct lk_run_info *a = lk_run_about(&set->runs[first]);
    size_t n = 1;

    while (first + n < set->n && lk_run_about(&set->runs[first + n])->world_size == a->world_size &&
           lk_run_info_same_batches(lk_run_about(&set->runs[first + n]), a))
        n++;
    return n;
}

/* Fill the rows of runs whose ranks have equal batches, or of the others. The runs are sorted by
 * world size, so the first with a batch are those of the smallest. */
static enum lk_status add_rows(const struct lk_run_set *set, bool equal, struct lk_job *j)
{
    for (size_t i = 0, n; i < set->n; i += n) {
        const struct lk_run_info *info = lk_run_about(&set->runs[i]);

        n = same_batch(set, i);
        if (equal == !*info->local_batches && !has_batch(j, info->local_batch))
            LK_PASS(fill_compute(&set->runs[i], n, &j->compute[j->n_compute++]));
    }
    return LK_OK;
}

static enum lk_status fill_compute_rows(const struct lk_run_set *set, struct lk_job *j)
{
    LK_PASS(lk_alloc(&j->compute, set->n, sizeof *j->compute));
    LK_PASS(add_rows(set, true, j));
    if (!j->n_compute)
        LK_PASS(add_rows(set, false, j));
    qsort(j->compute, j->n_compute, sizeof *j->compute, compute_order);
    return LK_OK;
}

/* ---- Runs ---- */

static enum lk_status fill_run(const struct lk_run *run, struct lk_job_run *out)
{
    const struct lk_run_info *info = lk_run_about(run);

    out->config.world_size = info->world_size;
    out->config.nodes = info->nodes;
    out->config.local_batch = info->local_batch;
    memcpy(out->config.batches, info->local_batches, sizeof out->config.batches);
    out->config.accumulation = info->accumulation;
    out->config.reduce = lk_run_info_reduction(info);
    out->config.sharding = info->sharding;
    out->config.shard_group = info->shard_group;
    out->config.overlap = info->overlap;
    out->config.averaging_period = info->period;
    out->config.staleness = info->staleness;
    out->config.algo = info->algorithm;
    out->config.compression = info->compression;
    out->config.powersgd_rank = info->powersgd_rank;
    out->config.first_bytes = info->first_bytes;
    out->config.cap_bytes = info->cap_bytes;
    LK_PASS(lk_strdup(&out->source, run->dir));
    LK_PASS(lk_job_place(run, &out->place));
    LK_PASS(lk_alloc(&out->step_s, run->n_timed, sizeof *out->step_s));
    if ((int)run->n == info->world_size) /* else some ranks' are not known */
        LK_PASS(lk_alloc(&out->rank_compute_s, run->n, sizeof *out->rank_compute_s));
    out->n_steps = run->n_timed;
    for (size_t s = 0; s < run->n_timed; s++)
        for (size_t k = 0; k < run->n; k++)
            out->step_s[s] +=
                lk_step_window_s(lk_rank_step(&run->ranks[k], run->timed[s])) / (double)run->n;
    for (size_t s = 0; s < run->n_steps && out->rank_compute_s; s++)
        for (size_t k = 0; k < run->n; k++) {
            const struct lk_rank_steps *r = &run->ranks[k];
            struct lk_step_split split;

            lk_step_split(r, lk_rank_step(r, run->steps[s]), NULL, &split);
            out->rank_compute_s[k] +=
                (split.s[LK_PART_FORWARD] + split.s[LK_PART_BACKWARD]) / (double)run->n_steps;
        }
    return LK_OK;
}

/* Return true if compute covers none of the collectives, though there are several buckets. Where
 * the first is ready just before the backward's end, nothing tells. */
static bool never_overlaps(const struct lk_analysis *a)
{
    static const double LEAST = 0.01, LATE = 0.95;
    double exposed = 0, pending = 0;
    size_t buckets = 0;

    for (size_t i = 0; i < a->n_buckets; i++)
        buckets += a->buckets[i].bucket >= 0;
    for (size_t k = 0; k < a->run->n; k++) {
        const double *s = a->ranks[k].split.s;

        exposed += s[LK_PART_LAUNCH] + s[LK_PART_STRAGGLER] + s[LK_PART_WIRE];
        pending += a->ranks[k].split.comm_s;
    }
    return a->exposure_known && lk_run_has_compute(a->run) && buckets > 1 && pending > 0 &&
           exposed > (1 - LEAST) * pending && !(a->first_ready > LATE && a->first_ready < 1);
}

static enum lk_status fill_losses(const struct lk_run_set *set, const struct lk_run *run,
                                  struct lk_job_run *out)
{
    enum lk_status st = LK_OK;
    const struct lk_run **refs = NULL;
    struct lk_analysis a = {0};
    double gaps_s;

    LK_TRY(lk_alloc(&refs, set->n, sizeof *refs));
    LK_TRY(lk_analyze(run, refs, lk_analysis_reference(set, run, refs), &a));
    memcpy(out->losses_s, a.losses_s, sizeof out->losses_s);
    /* A job's passes have their gaps: what of these a modelled ideal has not is its own, too. */
    gaps_s = a.modelled ? out->losses_s[LK_LOSS_REST] : a.pass_gap_s;
    out->losses_s[a.modelled ? LK_LOSS_IDEAL : LK_LOSS_COLOCATION] += gaps_s;
    out->losses_s[LK_LOSS_REST] -= gaps_s;
    if (out->config.overlap == LK_OVERLAP_MODE_FULL && never_overlaps(&a))
        out->config.overlap = LK_OVERLAP_MODE_NONE;
out:
    lk_analysis_fini(&a);
    free(refs);
    return st;
}

/* Take the overlap that all runs of several ranks were asked for or show; where they differ, that
 * of DDP. */
static void set_overlap(struct lk_job *j)
{
    const struct lk_job_run *first = NULL;
    bool differ = false;

    for (size_t i = 0; i < j->n_runs; i++)
        if (j->runs[i].config.world_size > 1) {
            first = first ? first : &j->runs[i];
            differ |= j->runs[i].config.overlap != first->config.overlap;
        }
    if (first && !differ)
        j->overlap = first->config.overlap;
    lk_job_settle_runs(j);
}

static bool same_scheme(const struct lk_config *a, const struct lk_config *b)
{
    return a->sharding == b->sharding && a->shard_group == b->shard_group &&
           a->averaging_period == b->averaging_period && a->staleness == b->staleness &&
           a->algo == b->algo && a->compression == b->compression &&
           a->powersgd_rank == b->powersgd_rank;
}

/* Take the sharding, the averaging, the algorithm and the hook that all runs of several ranks have;
 * where they differ, the job has none. One rank divides and sends nothing: it has the job's. */
static void set_scheme(struct lk_job *j)
{
    const struct lk_config *first = NULL;
    bool differ = false;

    for (size_t i = 0; i < j->n_runs; i++) {
        const struct lk_config *c = &j->runs[i].config;

        if (c->world_size == 1)
            continue;
        first = first ? first : c;
        differ |= !same_scheme(c, first);
    }
    if (first && !differ) {
        j->sharding = first->sharding;
        j->shard_group = first->shard_group;
        j->averaging_period = first->averaging_period;
        j->staleness = first->staleness;
        j->algo = first->algo;
        j->compression = first->compression;
        j->powersgd_rank = first->powersgd_rank;
    }
    for (size_t i = 0; i < j->n_runs; i++) {
        struct lk_config *c = &j->runs[i].config;

        if (c->world_size > 1)
            continue;
        c->sharding = j->sharding;
        c->shard_group = j->shard_group;
        c->averaging_period = j->averaging_period;
        c->staleness = j->staleness;
        c->algo = j->algo;
        c->compression = j->compression;
        c->powersgd_rank = j->powersgd_rank;
    }
}

static enum lk_status fill_runs(const struct lk_run_set *set, struct lk_job *j)
{
    LK_PASS(lk_alloc(&j->runs, set->n, sizeof *j->runs));
    for (size_t i = 0; i < set->n; i++) {
        struct lk_job_run *run = &j->runs[j->n_runs++];

        LK_PASS(fill_run(&set->runs[i], run));
        LK_PASS(fill_losses(set, &set->runs[i], run));
    }
    set_overlap(j);
    set_scheme(j);
    return LK_OK;
}

/* ---- Noise scale ---- */

static bool repetitions(const struct lk_run *a, const struct lk_run *b)
{
    const struct lk_run_info *x = lk_run_about(a), *y = lk_run_about(b);

    return x->world_size == y->world_size && lk_run_info_same_batches(x, y) &&
           x->accumulation == y->accumulation;
}

/* Use the runs with most ranks that have the counters: their two batch sizes differ most. */
static enum lk_status fill_noise(const struct lk_run_set *set, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    char *source = NULL;

    for (size_t end = set->n, first; end; end = first) {
        struct lk_estimate e;

        first = end - 1;
        while (first && repetitions(&set->runs[first - 1], &set->runs[end - 1]))
            first--;
        LK_TRY(lk_job_noise(&set->runs[first], end - first, &e));
        if (isnan(e.value) || !isfinite(e.hi))
            continue;
        LK_TRY(source_of(&set->runs[first], end - first, "", &source));
        LK_TRY(set_quantity(&j->noise_scale, &e, source));
        break;
    }
out:
    free(source);
    return st;
}

/* ---- All ---- */

static enum lk_status fill_header(const struct lk_run *run, struct lk_job *j)
{
    const struct lk_run_info *info = lk_run_about(run);
    struct lk_run_facts facts;

    LK_PASS(lk_strdup(&j->name, info->model));
    LK_PASS(lk_strdup(&j->sample_unit, info->sample_unit));
    j->ddp_rule = info->ddp_rule;
    j->first_bytes = info->first_bytes;
    j->cap_bytes = info->cap_bytes;
    j->accumulation = info->accumulation;
    /* A step of one micro-batch is the same either way, so its option chooses nothing. */
    j->reduce = info->accumulation == 1 ? LK_REDUCTION_LAST : lk_run_info_reduction(info);
    LK_PASS(lk_job_place(run, &j->place));
    LK_PASS(lk_fail_context(lk_run_facts_read(info, &facts), "%s", run->dir));
    if (facts.prefetch >= 0)
        j->prefetch_depth = facts.prefetch;
    j->optimizer = facts.optimizer;
    j->tensor_parallel = lk_run_replica_gpus(run) > 1 ? lk_run_replica_gpus(run) : 0;
    /* Runs that name their optimizer are our own: their gradients are views into buckets. */
    j->recorded_buckets = lk_run_info_value(info, LK_BUCKETS_CONFIG_KEY) != NULL;
    j->gradient_as_bucket_view = facts.optimizer != LK_JOB_OPTIMIZER_UNKNOWN;
    j->master_weights = j->gradient_as_bucket_view && facts.master_weights;
    j->transformer = facts.transformer;
    j->global_norm = facts.global_norm;
    if (facts.activation_bytes > 0)
        LK_PASS(lk_quantity_set(&j->memory_per_sample_bytes, facts.activation_bytes, NAN, NAN, 0,
                                "the buffers of %s on the device %s", info->model, info->device));
    LK_PASS(
        lk_fail_context(lk_run_facts_sync_bn(info, &j->sync_bn, &j->n_sync_bn), "%s", run->dir));
    if (!isnan(info->flops_per_sample))
        LK_PASS(lk_quantity_set(&j->flops_per_sample, info->flops_per_sample, NAN, NAN, 0,
                                "counted from the shapes of %s", info->model));
    return LK_OK;
}

enum lk_status lk_job_build(const struct lk_run_set *set, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    struct lk_job j;
    size_t n_smallest = 0;

    lk_job_init(&j);
    if (!set->n)
        return lk_fail(LK_EEVIDENCE, "a job needs at least one run");
    for (size_t i = 0; i < set->n; i++)
        if (lk_run_info_value(lk_run_about(&set->runs[i]), LK_REPLICAS_CONFIG_KEY))
            LK_TRY(lk_fail(LK_EEVIDENCE,
                           "%s is of DataParallel, one process on several devices, which no "
                           "forecast models",
                           set->runs[i].dir));
    LK_TRY(lk_job_check_runs(set));
    while (n_smallest < set->n && lk_run_about(&set->runs[n_smallest])->world_size ==
                                      lk_run_about(&set->runs[0])->world_size)
        n_smallest++;
    LK_TRY(fill_header(&set->runs[0], &j));
    LK_TRY(fill_tensors(set->runs, n_smallest, &j));
    LK_TRY(fill_ready_order(&set->runs[0], &j));
    LK_TRY(fill_compute_rows(set, &j));
    LK_TRY(lk_job_collectives_fill(set, &j));
    LK_TRY(fill_runs(set, &j));
    LK_TRY(fill_noise(set, &j));
    *out = j;
    j = (struct lk_job){0};
out:
    lk_job_fini(&j);
    return st;
}
