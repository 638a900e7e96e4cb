/* Ranks whose local batches differ; see the header. */
#include "sim/step/balance.h"

#include "base/array.h"
#include "sim/step/batch_curve.h"

#include <math.h>
#include <stdlib.h>

static const double MOST_TRIES = 1e8; /* ranks looked at in all */

/* Set each rank's slowness, 1 where none is known. */
static void set_slowness(const struct lk_known_stragglers *slow, const struct lk_config *c, int at,
                         double factor, const double *kinds, double *out)
{
    int per_node = (c->world_size + c->nodes - 1) / (c->nodes > 0 ? c->nodes : 1);

    for (int r = 0; r < c->world_size; r++) {
        double own = lk_known_straggler_rank(slow, r, false);

        if (isnan(own))
            own = lk_known_straggler_node(slow, r / per_node, false);
        out[r] = (r == at ? factor : isnan(own) ? 1 : own) * (kinds ? kinds[r] : 1);
    }
}

/* Return true if a rank is done with one more sample before another; of two at once, that with
 * fewer samples. */
static bool is_before(double s, double other_s, int64_t batch, int64_t other)
{
    return s < other_s || (s == other_s && batch < other);
}

/* Deal `samples` to n ranks. c[b]: compute of b samples. */
static void deal(const double *slowness, const double *c, int n, int64_t samples, int64_t *batch)
{
    for (int r = 0; r < n; r++)
        batch[r] = 1;
    for (int64_t left = samples - n; left > 0; left--) {
        int first = 0;

        for (int r = 1; r < n; r++)
            if (is_before(slowness[r] * c[batch[r] + 1], slowness[first] * c[batch[first] + 1],
                          batch[r], batch[first]))
                first = r;
        batch[first]++;
    }
}

static double longest(const double *slowness, const double *c, int n, const int64_t *batch)
{
    double most = 0;

    for (int r = 0; r < n; r++)
        most = fmax(most, slowness[r] * c[batch[r]]);
    return most;
}

/* Set the compute of 1 to n samples, which grows. */
static enum lk_status set_computes(const struct lk_job *j, int64_t n, double *c)
{
    for (int64_t b = 1; b <= n; b++) {
        LK_PASS(lk_batch_compute(j, (int)b, &c[b]));
        c[b] = fmax(c[b], c[b - 1]);
    }
    return LK_OK;
}

enum lk_status lk_balance(const struct lk_job *j, const struct lk_known_stragglers *slow, int at,
                          double factor, const double *kinds, struct lk_config *c)
{
    int64_t samples = (int64_t)(lk_config_samples(c) / c->accumulation), *batch = NULL, *now;
    int n = c->world_size;
    double *slowness = NULL, *computes = NULL;
    struct lk_rank_batches b;
    enum lk_status st = LK_OK;

    if (lk_config_replica_gpus(c) > 1)
        return lk_fail(LK_EUSAGE, "batches are balanced among GPUs, not among replicas of several");
    if ((double)n * (double)samples > MOST_TRIES)
        return lk_fail(LK_EUSAGE, "%lld samples on %d GPUs are too many to be balanced one by one",
                       (long long)samples, n);
    LK_TRY(lk_alloc(&batch, 2 * (size_t)n, sizeof *batch));
    LK_TRY(lk_alloc(&slowness, (size_t)n, sizeof *slowness));
    LK_TRY(lk_alloc(&computes, (size_t)samples + 2, sizeof *computes));
    now = batch + n;
    if (*c->batches)
        LK_TRY(lk_rank_batches_parse(c->batches, &b));
    for (int r = 0; r < n; r++)
        now[r] = *c->batches ? lk_rank_batches_at(&b, r) : c->local_batch;
    set_slowness(slow, c, at, factor, kinds, slowness);
    LK_TRY(set_computes(j, samples + 1, computes));
    deal(slowness, computes, n, samples, batch);
    if (!(longest(slowness, computes, n, batch) < longest(slowness, computes, n, now)))
        goto out;
    c->local_batch = 0;
    for (int r = 0; r < n; r++)
        c->local_batch = (int)batch[r] > c->local_batch ? (int)batch[r] : c->local_batch;
    LK_TRY(lk_rank_batches_write(batch, n, c->batches));
out:
    free(batch);
    free(slowness);
    free(computes);
    return st;
}
