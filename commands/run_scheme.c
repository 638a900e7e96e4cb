/* Options of how ranks exchange gradients and parameters, and of large batches: what they ask for,
 * checks, and what replay takes from its job. */
#include "commands/run_options.h"

#include "base/array.h"
#include "commands/run_sharding.h"
#include "facts/job.h"

#include <string.h>

static enum lk_sharding scheme_of(const struct run_options *o)
{
    const struct run_sharding s = {.scheme = o->sharding};

    return run_sharding_scheme(&s);
}

enum lk_compression run_options_compression(const struct run_options *o)
{
    return o->compression ? (enum lk_compression)(o->compression - 1) : LK_COMPRESSION_NONE;
}

void run_options_fill_hook(const struct run_options *o, struct lk_train_config *c)
{
    c->averaging.scheme = c->reducer.sharding;
    c->hook.compression = run_options_compression(o);
    /* Neither replay's options nor its job may give these. */
    c->hook.powersgd_rank = c->hook.powersgd_rank ? c->hook.powersgd_rank : 1;
    c->averaging.period = c->averaging.period ? c->averaging.period : 1;
}

/* ---- Checks ---- */

enum lk_status run_options_check_scheme(const struct run_options *o, const struct run_options *d)
{
    const struct lk_train_config *t = &o->train, *plain = &d->train;
    const struct lk_hook_config *hook = &t->hook;
    enum lk_compression compression = run_options_compression(o);
    bool replay = !strcmp(t->model.name, "replay");
    bool powersgd = compression == LK_COMPRESSION_POWERSGD;
    const struct lk_averaging_config *a = &t->averaging;
    const struct lk_optim_config *optim = &t->optim;
    bool moments = optim->kind == LK_OPTIM_ADAMW || optim->kind == LK_OPTIM_LAMB;
    bool layerwise = optim->kind == LK_OPTIM_LARS || optim->kind == LK_OPTIM_LAMB;
    const struct lk_sharding_traits *traits = lk_sharding_traits(scheme_of(o));
    bool averages = traits->pace == LK_PACE_PERIOD, sharded = traits->sharers != LK_SHARERS_NONE;
    bool diloco = scheme_of(o) == LK_SHARDING_DILOCO;
    const struct {
        bool wrong;
        const char *why;
    } rows[] = {
        {powersgd && t->verify,
         "--verify: powersgd sends what it left out of a gradient in later steps, so no bound of "
         "one step is known"},
        {powersgd && t->reducer.noise_every,
         "--noise-every: powersgd does not make the mean gradient, whose norm is needed"},
        {!powersgd && !(replay && !o->compression) && /* the job may have it */
             (hook->powersgd_rank != plain->hook.powersgd_rank ||
              hook->powersgd_start != plain->hook.powersgd_start ||
              hook->powersgd_min_rate != plain->hook.powersgd_min_rate),
         "--powersgd-... options need --compression=powersgd"},
        {!averages && !(replay && !o->sharding) &&
             (a->period != plain->averaging.period || a->warmup),
         "--period and --averaging-warmup are for --sharding=local-sgd and diloco"},
        {traits->pace != LK_PACE_BOUNDED && !(replay && !o->sharding) && t->reducer.staleness,
         "--staleness is for --sharding=async"},
        {!diloco && (a->outer_rate != plain->averaging.outer_rate ||
                     a->outer_momentum != plain->averaging.outer_momentum),
         "--outer-learning-rate and --outer-momentum are for --sharding=diloco"},
        {averages && t->verify,
         "--verify: between averagings ranks differ on purpose, and no global batch is theirs"},
        {averages && t->reducer.noise_every,
         "--noise-every: ranks that average parameters make no mean gradient"},
        {sharded && compression != LK_COMPRESSION_NONE,
         "--compression is a hook of all-reduces, which --sharding with shards has not"},
        {sharded && layerwise,
         "--optimizer=lars and lamb need whole tensors, of which --sharding gives a rank pieces"},
        {optim->momentum != plain->optim.momentum && moments,
         "--momentum is for --optimizer=sgd and lars"},
        {optim->beta1 != plain->optim.beta1 && !moments,
         "--beta1 is for --optimizer=adamw and lamb"},
        {optim->beta2 != plain->optim.beta2 && !moments,
         "--beta2 is for --optimizer=adamw and lamb"},
        {optim->eps != plain->optim.eps && !moments, "--epsilon is for --optimizer=adamw and lamb"},
        {t->model.replicas && (o->ranks > 1 || o->scaling.n || o->hosts),
         "--data-parallel is one process: it has one rank"},
        {t->model.replicas && o->device != RUN_DEVICE_CPU,
         "--data-parallel needs --device=cpu: other devices are not built"},
        {t->model.replicas && sharded,
         "--data-parallel and --sharding exclude each other: device 0 has whole weights"},
        {t->model.replicas > o->local_batch.v[0],
         "--data-parallel: each device needs a sample of --local-batch"},
        {t->model.replicas && (t->verify || t->model.sync_batch_norm),
         "--data-parallel: --verify and --sync-batch-norm know the devices of ranks alone"},
        {optim->trust != plain->optim.trust && optim->kind != LK_OPTIM_LARS,
         "--trust is for --optimizer=lars"},
        {optim->scaling != plain->optim.scaling && !optim->reference_batch,
         "--lr-scaling needs --reference-batch, the global batch that --learning-rate is for"},
        {averages && o->sync_every,
         "--sync-every: no gradients are all-reduced between averagings"},
        {averages && compression != LK_COMPRESSION_NONE && !a->warmup,
         "--compression is of gradients, which are not all-reduced where parameters are averaged"},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].wrong)
            return lk_fail(LK_EUSAGE, "%s", rows[i].why);
    return LK_OK;
}

/* ---- Replay ---- */

void run_options_take_hook(const struct lk_job *job, struct run_options *o)
{
    struct lk_train_config *t = &o->train;

    if (!o->compression)
        o->compression = 1 + (int)job->compression;
    if (!t->hook.powersgd_rank && run_options_compression(o) == job->compression)
        t->hook.powersgd_rank = job->powersgd_rank;
    if (!t->averaging.period && scheme_of(o) == job->sharding)
        t->averaging.period = job->averaging_period;
    if (!t->reducer.staleness && scheme_of(o) == job->sharding)
        t->reducer.staleness = job->staleness;
}
