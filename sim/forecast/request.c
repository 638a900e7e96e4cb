/* The grid of a request. */
#include "sim/forecast/request.h"

#include "base/units.h"
#include "facts/bounds.h"
#include "sim/step/config.h"

#include <stdio.h>

static enum lk_status check_list(const char *what, const int64_t *v, size_t n, int64_t most)
{
    for (size_t i = 0; i < n; i++)
        if (v[i] < 1 || v[i] > most)
            return lk_fail(LK_EUSAGE, "%s: %lld is not in 1 to %lld", what, (long long)v[i],
                           (long long)most);
    return LK_OK;
}

enum lk_status lk_predict_request_check(const struct lk_predict_request *q)
{
    if (!q->n_world_sizes)
        return lk_fail(LK_EUSAGE, "no GPU counts to predict");
    LK_PASS(check_list("GPUs", q->world_sizes, q->n_world_sizes, LK_FORECAST_GPUS_MAX));
    LK_PASS(check_list("local batch", q->local_batches, q->n_local_batches, LK_BATCH_MAX));
    LK_PASS(check_list("accumulation", q->accumulations, q->n_accumulations, LK_ACCUMULATION_MAX));
    if (q->global_batch > 0 && q->n_accumulations)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    return LK_OK;
}

/* Returns how many values a list stands for; an empty one for the configuration's own. */
static size_t at_least_one(size_t n)
{
    return n ? n : 1;
}

size_t lk_predict_request_size(const struct lk_predict_request *q)
{
    return q->n_world_sizes * at_least_one(q->n_local_batches) * at_least_one(q->n_accumulations) *
           at_least_one(q->n_no_syncs) * at_least_one(q->n_caps) * at_least_one(q->n_first_buckets);
}

/* Returns the index in a list that combination *n has, and takes the list off *n. */
static size_t take(size_t *n, size_t list)
{
    size_t i = *n % at_least_one(list);

    *n /= at_least_one(list);
    return i;
}

struct lk_config lk_predict_request_config(const struct lk_predict_request *q,
                                           const struct lk_evidence_source *e, size_t n)
{
    struct lk_config c = e->current;
    size_t first = take(&n, q->n_first_buckets), cap = take(&n, q->n_caps);
    size_t no_sync = take(&n, q->n_no_syncs), accumulation = take(&n, q->n_accumulations);
    size_t batch = take(&n, q->n_local_batches);

    c.world_size = (int)q->world_sizes[n];
    if (q->n_local_batches)
        c.local_batch = (int)q->local_batches[batch];
    if (q->n_accumulations)
        c.accumulation = (int)q->accumulations[accumulation];
    if (q->n_no_syncs)
        c.no_sync = q->no_syncs[no_sync];
    if (q->n_caps && e->job)
        lk_config_set_cap(&c, e->job, q->caps[cap]);
    else if (q->n_caps)
        c.cap_bytes = q->caps[cap];
    if (q->n_first_buckets)
        c.first_bytes = q->first_buckets[first];
    return c;
}

void lk_predict_request_axes(const struct lk_predict_request *q, struct lk_forecast *out)
{
    if (q->n_no_syncs)
        snprintf(out->axes[out->n_axes++], sizeof *out->axes, "no_sync");
    if (q->n_first_buckets)
        snprintf(out->axes[out->n_axes++], sizeof *out->axes, "first_bucket");
}

void lk_predict_request_words(const struct lk_predict_request *q, struct lk_forecast_point *p)
{
    size_t n = 0;

    if (q->n_no_syncs && p->config.accumulation > 1)
        snprintf(p->words[n], sizeof *p->words, "%s", p->config.no_sync ? "yes" : "no");
    n += q->n_no_syncs > 0;
    if (q->n_first_buckets)
        lk_units_exact(LK_DIM_BYTES, (double)p->config.first_bytes, p->words[n], sizeof *p->words);
}
