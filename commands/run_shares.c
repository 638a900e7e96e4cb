/* Options of how samples are shared among ranks: their batches, and what an epoch leaves over. */
#include "commands/run_grid.h"
#include "commands/run_options.h"

#include "base/array.h"
#include "commands/run_sharding.h"

#include <string.h>

enum lk_status run_options_check_shares(const struct run_options *o, const struct run_options *d)
{
    const struct run_sharding asked = {.scheme = o->sharding};
    const struct lk_sharding_traits *traits = lk_sharding_traits(run_sharding_scheme(&asked));
    const struct lk_train_config *t = &o->train;
    enum lk_uneven uneven = t->sampler.uneven;
    bool lists = o->local_batch.n > 1, joins = uneven == LK_UNEVEN_JOIN;
    bool shorts = joins || uneven == LK_UNEVEN_PAD;
    const struct {
        bool wrong;
        const char *why;
    } rows[] = {
        {o->drop_last && uneven != d->train.sampler.uneven && uneven != LK_UNEVEN_DROP,
         "--drop-last is --uneven=drop, which excludes the other words"},
        {!joins && (t->divide != d->train.divide || o->rank_samples.n),
         "--join-divide and --rank-samples need --uneven=join"},
        {joins && traits->gathers >= LK_GATHERS_FORWARD,
         "--uneven=join and --sharding: ranks gather parameters where their model's passes come to "
         "them, and one that ran out has no passes, as in PyTorch, whose FSDP does not join; zero1 "
         "and zero2 work, --uneven=pad and drop, too"},
        {joins && t->model.sync_batch_norm,
         "--uneven=join and --sync-batch-norm: its collectives are the model's own, which a rank "
         "that ran out does not shadow, as in PyTorch; --uneven=pad and drop work"},
        {traits->pace == LK_PACE_PERIOD && (lists || shorts),
         "--sharding=local-sgd and diloco weigh ranks alike: not with "
         "--local-batch of each rank, nor --uneven=pad or join"},
        {lists && (o->scaling.n || o->local_batches.n || o->strong),
         "--local-batch of each rank is for one number of ranks: not with --scaling or "
         "--local-batches"},
        {lists && t->reducer.plant == LK_PLANT_SHARED_SHARD,
         "--plant=shared-shard: rank 0's samples do not fill the others' batches"},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].wrong)
            return lk_fail(LK_EUSAGE, "%s", rows[i].why);
    return LK_OK;
}

int run_options_listed_ranks(const struct run_options *o)
{
    return o->local_batch.n > 1 ? o->local_batch.n : o->rank_samples.n;
}

enum lk_status run_options_check_share_ranks(const struct run_options *o, int ranks)
{
    if (o->local_batch.n > 1 && o->local_batch.n != ranks)
        return lk_fail(LK_EUSAGE, "--local-batch has %d numbers, for %d ranks: one, or one of each",
                       o->local_batch.n, ranks);
    if (o->rank_samples.n && o->rank_samples.n != ranks)
        return lk_fail(LK_EUSAGE, "--rank-samples has %d numbers, for %d ranks", o->rank_samples.n,
                       ranks);
    return LK_OK;
}

void run_options_fill_shares(const struct run_options *o, int rank, struct lk_train_config *c)
{
    bool lists = o->local_batch.n > 1 && rank < o->local_batch.n;

    c->local_batch = (int)o->local_batch.v[lists ? rank : 0];
    c->sampler.batches = lists ? o->local_batch.v : NULL;
    c->sampler.most = o->rank_samples.n ? o->rank_samples.v : NULL;
}

enum lk_status run_options_set_batches(const struct run_options *o, struct lk_config *c)
{
    for (int r = 0; r < o->local_batch.n; r++)
        if (o->local_batch.v[r] > c->local_batch)
            c->local_batch = (int)o->local_batch.v[r];
    return lk_rank_batches_write(o->local_batch.v, o->local_batch.n, c->batches);
}

double run_grid_samples(const struct run_grid *s, size_t point)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_parts; i++)
        if (s->parts[i].point == point && s->parts[i].result.samples > 0) {
            sum += s->parts[i].result.samples;
            n++;
        }
    return n ? sum / (double)n : lk_config_samples(&s->points[point].config);
}
