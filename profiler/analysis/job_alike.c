/* This file decides whether runs are of one job and say what it needs; see the header. */
#include "profiler/analysis/job_alike.h"

#include "facts/run_facts.h"

#include <stdint.h>
#include <string.h>

static enum lk_status differ(const struct lk_run *a, const struct lk_run *b, const char *what)
{
    return lk_fail(LK_EUSAGE, "%s and %s are runs of different jobs: %s differs", a->dir, b->dir,
                   what);
}

/* Return the index of a tensor in which two ranks or runs differ; SIZE_MAX: in none. */
static size_t other_tensor(const struct lk_run_info *x, const struct lk_run_info *y)
{
    for (size_t i = 0; i < x->n_tensors; i++)
        if (strcmp(x->tensors[i].name, y->tensors[i].name) ||
            x->tensors[i].elems != y->tensors[i].elems ||
            x->tensors[i].dtype != y->tensors[i].dtype)
            return i;
    return SIZE_MAX;
}

static enum lk_status check_same_job(const struct lk_run *a, const struct lk_run *b)
{
    const struct lk_run_info *x = lk_run_about(a), *y = lk_run_about(b);
    size_t other;

    if (strcmp(x->model, y->model))
        return differ(a, b, "the model");
    if (strcmp(x->sample_unit, y->sample_unit))
        return differ(a, b, "the sample unit");
    if (x->ddp_rule != y->ddp_rule)
        return differ(a, b, "the DDP rule");
    if (x->n_tensors != y->n_tensors)
        return differ(a, b, "the number of gradient tensors");
    other = other_tensor(x, y);
    return other == SIZE_MAX ? LK_OK : differ(a, b, x->tensors[other].name);
}

/* The ranks of an import are read one by one. */
static enum lk_status check_same_gradients(const struct lk_run *r)
{
    const struct lk_run_info *zero = lk_run_about(r);

    for (size_t k = 1; k < r->n; k++) {
        const struct lk_run_info *info = &r->traces[k].info;

        if (info->n_tensors != zero->n_tensors || other_tensor(zero, info) != SIZE_MAX)
            return lk_fail(LK_EEVIDENCE,
                           "%s: ranks %d and %d reduce different gradients, or in another order",
                           r->dir, zero->rank, info->rank);
    }
    return LK_OK;
}

int lk_run_replica_gpus(const struct lk_run *r)
{
    const char *text = lk_run_info_value(lk_run_about(r), LK_GROUPS_CONFIG_KEY);
    int world = lk_run_world_size(r), ranks = lk_run_gradient_ranks(r);

    return world % ranks || (text && strstr(text, " to ")) ? 0 : world / ranks;
}

/*
 * Where fewer ranks than there are reduce a gradient, the others hold other parts of the model:
 * tensor parallel, since check_same_gradients refuses stages, whose gradients differ.
 */
static enum lk_status check_replicas(const struct lk_run *first, const struct lk_run *r)
{
    if (lk_run_replica_gpus(r) && lk_run_replica_gpus(r) == lk_run_replica_gpus(first))
        return LK_OK;
    return lk_fail(LK_EEVIDENCE,
                   "%s: %d of %d ranks reduce a gradient, or more another, in %s %d of %d: the "
                   "model's replicas are of no one size (tensor, pipeline, expert parallel)",
                   r->dir, lk_run_gradient_ranks(r), lk_run_world_size(r), first->dir,
                   lk_run_gradient_ranks(first), lk_run_world_size(first));
}

enum lk_status lk_job_check_runs(const struct lk_run_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        enum lk_status st = check_same_job(&set->runs[0], &set->runs[i]);
        struct lk_run_facts facts;

        if (st == LK_OK)
            st = lk_run_facts_read(lk_run_about(&set->runs[i]), &facts);
        if (st != LK_OK)
            return st;
        if (facts.shared_gpu)
            return lk_fail(LK_EEVIDENCE,
                           "%s: its ranks shared a GPU (--share-gpu), so its times mean nothing",
                           set->runs[i].dir);
        if (lk_run_periods(&set->runs[i]))
            return lk_fail(LK_EEVIDENCE,
                           "%s: forward, backward and optimizer are not known: its steps were "
                           "found as %s; torch.profiler marks them, and so do NVTX ranges",
                           set->runs[i].dir, lk_run_periods(&set->runs[i]));
        LK_PASS(check_replicas(&set->runs[0], &set->runs[i]));
        LK_PASS(check_same_gradients(&set->runs[i]));
        if (!lk_run_about(&set->runs[i])->n_tensors)
            return lk_fail(
                LK_EEVIDENCE,
                "%s: how many gradients are reduced is not known: the trace says neither "
                "their shapes nor the sizes of all-reduces; torch.profiler does with "
                "record_shapes=True",
                set->runs[i].dir);
        if (!set->runs[i].n_steps)
            return lk_fail(
                LK_EEVIDENCE,
                "%s: no step after the warm-up of %llu steps is complete on all ranks: with a "
                "forward and a backward of each micro-batch, and the same collectives",
                set->runs[i].dir, (unsigned long long)lk_run_about(&set->runs[i])->warmup_steps);
    }
    return LK_OK;
}
