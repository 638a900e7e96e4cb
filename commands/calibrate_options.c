/* Options of a calibration: their rows, and the collectives, sizes and defaults they stand for. */
#include "commands/calibrate.h"

#include "base/array.h"
#include "commands/common_rows.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const char *const calibrate_devices[] = {"cpu", "cuda", NULL};

#define OPTION(...) ROW(struct calibrate_options, __VA_ARGS__)

const struct lk_option calibrate_rows[] = {
    OPTION("ranks", ranks, INTS, .letter = 'n', .min = 1, .max = 1024, .group = "probes",
           .help = "counts of local ranks to measure, each in a run of its own (2; cuda: 2, 4, ... up to its GPUs)"),
    OPTION("collectives", collectives, TEXT,
           .help = "collectives to time, separated by commas (all_reduce; cuda: broadcast, all_gather and reduce_scatter, too)"),
    OPTION("algorithms", algorithms, TEXT,
           .help = "algorithms to time, separated by commas (auto, ring, tree; cuda: auto)"),
    OPTION("sizes", sizes, SIZES, .min = 4, .max = 1e11,
           .help = "bytes of a collective (4KiB, 16KiB, ... 64MiB; cuda: ... 1GiB)"),
    OPTION("dtypes", dtypes, TEXT, .fallback = "float32",
           .help = "element types, separated by commas; the cluster file takes the first one's points"),
    OPTION("repetitions", repetitions, INT, .min = 3, .max = 100000, .fallback = "20",
           .help = "samples of each row, interleaved over the rows"),
    OPTION("warmup", warmup, INT, .min = 0, .max = 1000, .fallback = "2",
           .help = "samples before them, left out of statistics"),
    OPTION("budget", budget_s, TIME, .min = 0, .max = 1e6, .fallback = "20s",
           .help = "time after which the collectives of a count stop early; the other probes have half of it"),
    OPTION("colocation", colocation, FLAG, .fallback = "yes",
           .help = "cpu: measure how ranks that only compute slow each other"),
    OPTION("overlap", overlap, FLAG, .fallback = "yes",
           .help = "measure how compute and all-reduces slow each other"),
    OPTION("overlap-bytes", overlap_bytes, SIZE, .min = 1024, .max = 1e11,
           .help = "bytes of the all-reduces in that probe (4MiB; cuda: 25MiB)"),
    OPTION("overlap-block", block, INTS, .min = 1, .max = 1e6, .fallback = "16,1024,768,12",
           .help = "cuda: size of the GPT block whose backward computes there: samples, context, channels, heads"),
    OPTION("overlap-ctas", overlap_ctas, INTS, .min = 1, .max = 64, .fallback = "1,2,4,8,16,24,32",
           .help = "cuda: thread blocks of the collective; one GPU: of its stand-in"),
    OPTION("overlap-rates", overlap_GBps, INTS, .min = 0, .max = 10000, .fallback = "400,100",
           .help = "one GPU: GB/s that the stand-in copies, the first for the file; 0: as fast as it can"),
    OPTION("nccl-ctas", nccl_ctas, INT, .min = 1, .max = 64,
           .help = "one GPU: thread blocks that NCCL would use, for the file (16 on an H100, else 24)"),
    OPTION("rates", rates, FLAG, .fallback = "yes",
           .help = "cuda: measure copies and matrix products"),
    OPTION("copy-sizes", copy_sizes, SIZES, .min = 1, .max = 1e11, .fallback = "64KiB,1MiB,16MiB,256MiB",
           .help = "bytes of a copy"),
    OPTION("device", device, CHOICE, .choices = calibrate_devices, .fallback = "cpu", .group = "machine",
           .help = "device to measure: CPUs and sockets, or GPUs and NCCL"),
    OPTION("nccl-min-ctas", nccl_min_ctas, INT, .min = 1, .max = 64,
           .help = "fewest thread blocks of a collective, each on an SM of its own (NCCL's choice)"),
    OPTION("nccl-max-ctas", nccl_max_ctas, INT, .min = 1, .max = 64,
           .help = "most thread blocks of a collective (NCCL's choice)"),
    OPTION("nccl-register", nccl_register, FLAG, .fallback = "no",
           .help = "keep buffers in memory that NCCL allocates and registers"),
    OPTION("share-gpu", share_gpu, FLAG, .fallback = "no",
           .help = "let ranks share a GPU, for tests: the times then mean nothing, and no file is written"),
    OPTION("pin", pin, FLAG, .fallback = "yes",
           .help = "bind each rank to a CPU where there are enough (not with --device=cuda)"),
    OPTION("timeout", timeout_s, TIME, .min = 0.1, .max = 1e6, .fallback = "60s",
           .help = "longest wait for another rank"),
    OPTION("out", out, FILE, .fallback = "cluster.json", .group = "output",
           .help = "cluster file to write"),
    OPTION("name", name, TEXT, .help = "name of the cluster; default: the host's"),
    OPTION(FORMAT_OPTION),
    OPTION(LOG_OPTION),
    {0}};
/* clang-format on */

/* ---- Plan ---- */

/*
 * Read a comma-separated list of words into values, an array of their enum. Each word may be there
 * once: twice, it would be measured twice and be in the cluster file twice.
 */
static enum lk_status read_words(const char *option, const struct lk_words *words, const char *list,
                                 void *values, size_t *n)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *word;
    int *v = values; /* as large as an enum */

    LK_TRY(lk_strdup(&copy, list));
    for (rest = copy; (word = strsep(&rest, ","));) {
        int value;

        LK_TRY(lk_words_find(words, word, &value));
        for (size_t i = 0; i < *n; i++)
            if (v[i] == value)
                LK_TRY(lk_fail(LK_EUSAGE, "'%s' is there twice", word));
        v[(*n)++] = value;
    }
out:
    free(copy);
    return lk_fail_context(st == LK_EPARSE ? LK_EUSAGE : st, "%s", option);
}

/* Defaults of a device, used for options that are not given. */
static const struct {
    const char *collectives, *algorithms;
    uint64_t largest;       /* sizes: 4 KiB, four times that, ... up to this */
    uint64_t overlap_bytes; /* of the overlap probe; on GPUs PyTorch DDP's bucket */
} defaults[] = {
    [CALIBRATE_CPU] = {"all_reduce", "auto,ring,tree", 64 << 20, 4 << 20},
    [CALIBRATE_CUDA] = {"all_reduce,reduce_scatter,all_gather,broadcast", "auto", 1 << 30,
                        25 << 20},
};

static struct lk_sizes sizes_of(const struct calibrate_options *o)
{
    struct lk_sizes s = o->sizes;

    if (!s.n)
        for (uint64_t b = 4096; b <= defaults[o->device].largest; b *= 4)
            s.v[s.n++] = b;
    return s;
}

/* Refuse a size that is no whole number of elements: it would be measured as the one below. */
static enum lk_status check_size(const char *option, uint64_t bytes, enum lk_dtype dtype)
{
    if (bytes % lk_dtype_bytes(dtype))
        return lk_fail(LK_EUSAGE, "%s: %llu bytes: expected a multiple of %zu, an element's size",
                       option, (unsigned long long)bytes, lk_dtype_bytes(dtype));
    return LK_OK;
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
    LK_TRY(read_words("--dtypes", &lk_dtype_words, o->dtypes, p.dtypes, &p.n_dtypes));
    p.sizes = sizes_of(o);
    p.overlap_bytes = o->overlap_bytes ? o->overlap_bytes : defaults[o->device].overlap_bytes;
    for (size_t d = 0; d < p.n_dtypes; d++)
        for (int i = 0; i < p.sizes.n; i++)
            LK_TRY(check_size("--sizes", p.sizes.v[i], p.dtypes[d]));
    LK_TRY(check_size("--overlap-bytes", p.overlap_bytes, LK_F32));
    LK_TRY(read_words("--collectives", &lk_coll_words, colls, p.colls, &p.n_colls));
    LK_TRY(read_words("--algorithms", &lk_algo_words, algos, p.algos, &p.n_algos));
    *out = p;
out:
    return st;
}

struct lk_probe_collectives_config calibrate_collectives_config(const struct calibrate_options *o,
                                                                const struct calibrate_plan *p,
                                                                double burst_s)
{
    return (struct lk_probe_collectives_config){.colls = p->colls,
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
