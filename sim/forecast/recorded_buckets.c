#include "sim/forecast/recorded_buckets.h"

#include "base/array.h"
#include "base/stats.h"
#include "facts/loss.h"

#include <stdlib.h>
#include <string.h>

/* A part of a bucket, at most; fewer where a bucket has few elements. */
static const uint64_t part_bytes = 128 << 10;
enum { PARTS_MAX = 1024 };

const char lk_buckets_note[] = "the job knows buckets, not tensors: under other limits DDP's "
                               "buckets lie between whole recorded "
                               "ones and ones cut anywhere; half of the draws are of each";

bool lk_buckets_unknown(const struct lk_job *j, const struct lk_config *c)
{
    return j->recorded_buckets && lk_config_replicas(c) > 1 &&
           (c->cap_bytes != j->cap_bytes || c->first_bytes != j->first_bytes);
}

static size_t parts_of(const struct lk_job_tensor *t)
{
    uint64_t bytes = t->elems * lk_dtype_bytes(t->dtype);
    uint64_t n = (bytes + part_bytes - 1) / part_bytes;

    n = n < 1 ? 1 : n > PARTS_MAX ? PARTS_MAX : n;
    return (size_t)(n < t->elems ? n : t->elems);
}

/* Write the parts of a tensor, in registration order: the last one is ready first. */
static void write_parts(const struct lk_job_tensor *t, double before, struct lk_job_tensor *out)
{
    size_t n = parts_of(t);

    for (size_t k = 0; k < n; k++) {
        out[k] = *t;
        out[k].elems = t->elems * (k + 1) / n - t->elems * k / n;
        out[k].ready = before + (t->ready - before) * (double)(n - k) / (double)n;
    }
}

enum lk_status lk_buckets_split(const struct lk_job *j, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    size_t n = 0, used = 0, *first = NULL;
    double before = 0;

    *out = *j;
    out->tensors = NULL;
    out->ready_order = NULL;
    for (size_t i = 0; i < j->n_tensors; i++)
        n += parts_of(&j->tensors[i]);
    LK_TRY(lk_alloc(&first, j->n_tensors, sizeof *first));
    LK_TRY(lk_alloc(&out->tensors, n, sizeof *out->tensors));
    LK_TRY(lk_alloc(&out->ready_order, n, sizeof *out->ready_order));
    out->n_tensors = n;
    for (size_t i = 0; i < j->n_tensors; i++) {
        first[i] = used;
        used += parts_of(&j->tensors[i]);
    }
    used = 0;
    for (size_t i = 0; i < j->n_tensors; i++) {
        size_t tensor = j->ready_order[i];
        const struct lk_job_tensor *t = &j->tensors[tensor];

        write_parts(t, before < t->ready ? before : t->ready, &out->tensors[first[tensor]]);
        for (size_t k = parts_of(t); k-- > 0;)
            out->ready_order[used++] = first[tensor] + k;
        before = t->ready;
    }
out:
    free(first);
    if (st != LK_OK)
        lk_buckets_fini(out);
    return st;
}

void lk_buckets_fini(struct lk_job *split)
{
    free(split->tensors);
    free(split->ready_order);
    memset(split, 0, sizeof *split);
}

enum lk_status lk_buckets_mix(struct lk_prediction *p, const struct lk_prediction *split,
                              double level)
{
    enum lk_status st = LK_OK;
    double *sorted = NULL;
    struct lk_estimate e;

    p->step_s = (p->step_s + split->step_s) / 2;
    lk_losses_close(p->losses_s, p->step_s);
    for (size_t i = 1; i < p->n_draws; i += 2)
        p->draws_s[i] = split->draws_s[i];
    LK_TRY(lk_alloc(&sorted, p->n_draws, sizeof *sorted));
    memcpy(sorted, p->draws_s, p->n_draws * sizeof *sorted);
    e = lk_stats_interval(p->step_s, sorted, p->n_draws, level);
    p->lo_s = e.lo;
    p->hi_s = e.hi;
    if (split->bound_s < p->bound_s)
        p->bound_s = split->bound_s;
out:
    free(sorted);
    return st;
}
