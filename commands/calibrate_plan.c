/* What the options of a calibration ask for: names, sizes and defaults. */
#include "commands/calibrate.h"

#include "base/array.h"

#include <string.h>

/* Sizes of a comma-separated list of names, one after the other. */
static enum lk_status next_word(const char **list, char *word, size_t size)
{
    size_t n = strcspn(*list, ",");

    if (!n || n >= size)
        return lk_fail(LK_EUSAGE, "'%s': expected names separated by commas", *list);
    memcpy(word, *list, n);
    word[n] = 0;
    *list += n;
    if (**list == ',' && !*++*list)
        return lk_fail(LK_EUSAGE, "'%s,': expected a name behind the comma", word);
    return LK_OK;
}

/* Twice would be measured twice, and stand in the file twice. */
static enum lk_status check_once(unsigned *seen, int value, const char *option, const char *word)
{
    if (*seen & 1U << value)
        return lk_fail(LK_EUSAGE, "%s: '%s' is there twice", option, word);
    *seen |= 1U << value;
    return LK_OK;
}

/* The defaults of a device, where nothing was given. */
static const struct {
    const char *collectives, *algorithms;
    uint64_t largest;       /* sizes: 4 KiB, four times that, ... up to this */
    uint64_t overlap_bytes; /* of the overlap probe; on GPUs PyTorch DDP's bucket */
} defaults[] = {
    [CALIBRATE_CPU] = {"all_reduce",                                     "auto,ring,tree", 64 << 20, 4 << 20},
    [CALIBRATE_CUDA] = {"all_reduce,reduce_scatter,all_gather,broadcast", "auto",           1 << 30,
                       25 << 20                                                                             },
};

static struct lk_sizes sizes_of(const struct calibrate_options *o)
{
    struct lk_sizes s = o->sizes;

    if (!s.n)
        for (uint64_t b = 4096; b <= defaults[o->device].largest; b *= 4)
            s.v[s.n++] = b;
    return s;
}

/* Collectives move whole elements: another size would be measured as the one below. */
static enum lk_status check_size(const char *option, uint64_t bytes, enum lk_dtype dtype)
{
    if (bytes % lk_dtype_bytes(dtype))
        return lk_fail(LK_EUSAGE, "%s: %llu bytes: expected a multiple of %zu, an element's size",
                       option, (unsigned long long)bytes, lk_dtype_bytes(dtype));
    return LK_OK;
}

static enum lk_status plan_dtypes(const char *list, struct calibrate_plan *p)
{
    enum lk_status st = LK_OK;
    enum lk_dtype v = LK_F32;
    unsigned seen = 0;
    char word[32];

    do {
        LK_TRY(lk_fail_context(next_word(&list, word, sizeof word), "--dtypes"));
        if (lk_dtype_from_name(word, &v) != LK_OK)
            return lk_fail(LK_EUSAGE, "--dtypes: %s", lk_error_text());
        LK_TRY(check_once(&seen, (int)v, "--dtypes", word));
        p->dtypes[p->n_dtypes++] = v;
    } while (*list);
out:
    return st;
}

static enum lk_status plan_collectives(const char *list, struct calibrate_plan *p)
{
    enum lk_status st = LK_OK;
    enum lk_coll v = LK_ALL_REDUCE;
    unsigned seen = 0;
    char word[32];

    do {
        LK_TRY(lk_fail_context(next_word(&list, word, sizeof word), "--collectives"));
        if (lk_coll_from_name(word, &v) != LK_OK)
            return lk_fail(LK_EUSAGE, "--collectives: %s", lk_error_text());
        LK_TRY(check_once(&seen, (int)v, "--collectives", word));
        p->colls[p->n_colls++] = v;
    } while (*list);
out:
    return st;
}

static enum lk_status plan_algorithms(const char *list, struct calibrate_plan *p)
{
    enum lk_status st = LK_OK;
    enum lk_algo v = LK_ALGO_AUTO;
    unsigned seen = 0;
    char word[32];

    do {
        LK_TRY(lk_fail_context(next_word(&list, word, sizeof word), "--algorithms"));
        if (lk_algo_from_name(word, &v) != LK_OK)
            return lk_fail(LK_EUSAGE, "--algorithms: %s", lk_error_text());
        LK_TRY(check_once(&seen, (int)v, "--algorithms", word));
        p->algos[p->n_algos++] = v;
    } while (*list);
out:
    return st;
}

static enum lk_status check_options(const struct calibrate_options *o)
{
    const int64_t *b = o->block.v;
    bool cuda = o->device == CALIBRATE_CUDA;

    for (int i = 0; i < o->ranks.n; i++)
        if (!cuda && o->ranks.v[i] < 2)
            return lk_fail(LK_EUSAGE, "--ranks: a collective of CPUs has 2 ranks or more (1: with "
                                      "--device=cuda)");
    if (cuda && o->algorithms && strcmp(o->algorithms, "auto") != 0)
        return lk_fail(LK_EUSAGE, "--algorithms: NCCL chooses by itself, and NCCL_ALGO in its "
                                  "environment restricts it");
    if (o->share_gpu && !cuda)
        return lk_fail(LK_EUSAGE, "--share-gpu needs --device=cuda");
    if (o->block.n != 4)
        return lk_fail(LK_EUSAGE, "--overlap-block: expected samples,context,channels,heads");
    if (b[2] % b[3] || b[2] / b[3] > 128)
        return lk_fail(LK_EUSAGE,
                       "--overlap-block: %lld heads of %lld channels: expected a divisor that "
                       "leaves 128 channels a head or fewer",
                       (long long)b[3], (long long)b[2]);
    if (o->nccl_max_ctas && o->nccl_min_ctas > o->nccl_max_ctas)
        return lk_fail(LK_EUSAGE, "--nccl-min-ctas is above --nccl-max-ctas");
    return LK_OK;
}

enum lk_status calibrate_plan(const struct calibrate_options *o, struct calibrate_plan *out)
{
    enum lk_status st = LK_OK;
    struct calibrate_plan p = {.n_colls = 0};
    const char *colls = o->collectives ? o->collectives : defaults[o->device].collectives;
    const char *algos = o->algorithms ? o->algorithms : defaults[o->device].algorithms;

    LK_TRY(check_options(o));
    LK_TRY(plan_dtypes(o->dtypes, &p));
    p.sizes = sizes_of(o);
    p.overlap_bytes = o->overlap_bytes ? o->overlap_bytes : defaults[o->device].overlap_bytes;
    for (size_t d = 0; d < p.n_dtypes; d++)
        for (int i = 0; i < p.sizes.n; i++)
            LK_TRY(check_size("--sizes", p.sizes.v[i], p.dtypes[d]));
    LK_TRY(check_size("--overlap-bytes", p.overlap_bytes, LK_F32));
    LK_TRY(plan_collectives(colls, &p));
    LK_TRY(plan_algorithms(algos, &p));
    *out = p;
out:
    return st;
}

struct lk_sweep_collectives_config calibrate_sweep(const struct calibrate_options *o,
                                                   const struct calibrate_plan *p, double burst_s)
{
    return (struct lk_sweep_collectives_config){.colls = p->colls,
                                                .n_colls = p->n_colls,
                                                .algos = p->algos,
                                                .n_algos = p->n_algos,
                                                .bytes = p->sizes.v,
                                                .n_bytes = (size_t)p->sizes.n,
                                                .dtypes = p->dtypes,
                                                .n_dtypes = p->n_dtypes,
                                                .repetitions = (size_t)o->repetitions,
                                                .warmup = (size_t)o->warmup,
                                                .budget_s = o->budget_s,
                                                .burst_s = burst_s};
}
