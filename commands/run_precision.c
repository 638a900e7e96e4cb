/* Options of the types that a run computes in, and of the loss scale that narrow ones need. */
#include "commands/run_options.h"

#include "base/array.h"
#include "commands/run_sharding.h"

#include <string.h>

/* Types that a run trains in, the default first. */
#define TRAINED(X)       X(LK_F32, "float32") X(LK_BF16, "bfloat16") X(LK_F16, "float16")
#define NAME(type, name) name,
const char *const run_dtypes[] = {TRAINED(NAME) NULL};
#undef NAME
static const enum lk_dtype trained[] = {TRAINED(LK_WORD_VALUE)};

enum lk_dtype run_options_dtype(const struct run_options *o)
{
    return trained[o->dtype];
}

enum lk_status run_options_parse_precision(struct run_options *o)
{
    if (!o->loss_scale)
        return LK_OK;
    return lk_fail_context(lk_scaler_parse(o->loss_scale, &o->train.scaler), "--loss-scale");
}

enum lk_status run_options_check_precision(const struct run_options *o, const struct run_options *d)
{
    const struct lk_train_config *t = &o->train;
    const struct run_sharding sharding = {.scheme = o->sharding};
    const enum lk_dtype dtype = run_options_dtype(o);
    const bool narrow = lk_dtype_has_masters(dtype);
    const bool scales = lk_scaler_scales(&t->scaler, dtype);
    const bool apart = lk_sharding_traits(run_sharding_scheme(&sharding))->pace != LK_PACE_STEP;
    const bool powersgd = run_options_compression(o) == LK_COMPRESSION_POWERSGD;
    const bool cuda = !strcmp(run_devices[o->device], "cuda");
    const struct {
        bool wrong;
        const char *why;
    } rows[] = {
        {t->device_config.attention == LK_ATTENTION_CUDNN && dtype != LK_BF16 && cuda,
         "--attention=cudnn needs --dtype=bfloat16"},
        {apart && narrow,
         "--sharding=local-sgd, diloco and async exchange float32 weights: they need "
         "--dtype=float32"},
        {apart && scales,
         "--sharding=local-sgd, diloco and async with --loss-scale: ranks would skip other steps"},
        {powersgd && narrow,
         "--compression=powersgd is of float32 gradients: it needs --dtype=float32"},
        {powersgd && scales,
         "--compression=powersgd keeps errors of gradients, to which a new loss scale would not "
         "apply"},
        {scales && !strcmp(t->model.name, "replay"),
         "--loss-scale: a replayed job has no loss to scale"},
        {scales && t->fuse.wish[LK_FUSE_OPTIMIZER] == LK_FUSE_YES,
         "--fuse=optimizer: with a scaled loss no parameter is updated before all gradients are "
         "known to be finite"},
        {t->scaler.growth_interval != d->train.scaler.growth_interval &&
             lk_scaler_kind(&t->scaler, dtype) != LK_LOSS_SCALE_DYNAMIC,
         "--growth-interval is of --loss-scale=dynamic, which --dtype=float16 has by itself"},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].wrong)
            return lk_fail(LK_EUSAGE, "%s", rows[i].why);
    return LK_OK;
}
