/*
 * lockstep calibrate: measures the collectives of this machine, and how its ranks slow each other.
 *
 * Started by hand it launches ranks, once for each count; started as a rank (by itself, torchrun,
 * mpirun or srun) it measures. Our launcher takes what rank 0 measured from the store; under
 * another launcher there is one count, and rank 0 writes the cluster file.
 */
#include "commands/calibrate.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/units.h"
#include "base/words.h"
#include "commands/agree.h"
#include "commands/common_rows.h"
#include "commands/output.h"
#include "commands/share_gpu.h"
#include "runtime/comm/comm.h"
#include "runtime/rendezvous/launch.h"
#include "runtime/rendezvous/rank_env.h"
#include "runtime/rendezvous/store.h"
#include "sim/calibration.h"
#include "sim/collective/alpha_beta_fit.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time from a rank's failure to SIGTERM for the others. */
#define GRACE_NS (5 * LK_NS_PER_S)

/* Environment variable of our launcher, which takes rank 0's part of the cluster and its tables
 * from these keys of the store. */
#define PART_ENV    "LOCKSTEP_CALIBRATE_PART"
#define CLUSTER_KEY "calibrate/cluster"
#define TABLES_KEY  "calibrate/tables"
/* Environment variable that our launcher sets when ranks outnumber the CPUs: they take turns, and
 * the overlap probe would measure that. */
#define TAKE_TURNS_ENV "LOCKSTEP_CALIBRATE_TAKE_TURNS"

/* Progress: when collectives and co-location have been measured. Their budgets are as 2 to 1, and
 * so is that of overlap. */
static const double COLLECTIVES_SHARE = 0.5, COLOCATION_SHARE = 0.75;
/* Lengths on CPUs: a burst must outlast the grain of clock and scheduler. */
static const double BURST_S = 0.005;
static const double COMPUTE_UNIT_S = 0.02;

/* ---- Options ---- */

/* clang-format off */
const char *const calibrate_devices[] = {"cpu", "cuda", NULL};

#define OPTION(...) ROW(struct calibrate_options, __VA_ARGS__)

static const struct lk_option option_rows[] = {
    OPTION("ranks", ranks, INTS, .letter = 'n', .min = 1, .max = 1024, .group = "probes",
           .help = "counts of local ranks to measure, each in a run of its own (2; cuda: 2, 4, ... up to its GPUs)"),
    OPTION("collectives", collectives, TEXT, .word = "WORD,...", .words = &lk_modelled_coll_words,
           .help = "collectives to time (all_reduce; cuda: also broadcast, all_gather and reduce_scatter)"),
    OPTION("algorithms", algorithms, TEXT, .word = "WORD,...", .words = &lk_algo_words,
           .help = "algorithms to time (auto, ring, tree; cuda: auto)"),
    OPTION("sizes", sizes, SIZES, .min = 4, .max = 1e11,
           .help = "bytes of a collective (4KiB, 16KiB, ... 64MiB; cuda: ... 1GiB)"),
    OPTION("dtypes", dtypes, TEXT, .word = "WORD,...", .words = &lk_dtype_words, .fallback = "float32",
           .help = "element types; the cluster file takes the first one's points"),
    OPTION("repetitions", repetitions, INT, .min = 3, .max = 100000, .fallback = "20",
           .help = "samples of each row, interleaved over the rows"),
    OPTION("warmup", warmup, INT, .min = 0, .max = 1000, .fallback = "2",
           .help = "samples of each row that come first and are left out of the statistics; the budget cuts them first"),
    OPTION("budget", budget_s, TIME, .min = 0, .max = 1e6, .fallback = "20s",
           .help = "time for the collectives of one count of ranks: rows that it does not hold get fewer samples, three at least; each other probe has half of it"),
    OPTION("colocation", colocation, FLAG, .fallback = "yes",
           .help = "cpu: measure how ranks of one node slow each other while they compute"),
    OPTION("overlap", overlap, FLAG, .fallback = "yes",
           .help = "measure how compute and all-reduces slow each other"),
    OPTION("pairs", pairs, FLAG, .fallback = "no",
           .help = "measure the link between any two hosts, over TCP, and say which host or pair is slow"),
    OPTION("pair-bytes", pair_bytes, SIZE, .min = 65536, .max = 1e11, .fallback = "4MiB",
           .help = "bytes of a transfer between two hosts"),
    OPTION("overlap-bytes", overlap_bytes, SIZE, .min = 1024, .max = 1e11,
           .help = "bytes of an all-reduce in the overlap probe (4MiB; cuda: 25MiB)"),
    OPTION("overlap-block", block, INTS, .min = 1, .max = 1e6, .fallback = "16,1024,768,12",
           .help = "cuda: size of the GPT block whose backward pass the overlap probe runs: samples, context, channels, heads"),
    OPTION("overlap-ctas", overlap_ctas, INTS, .min = 1, .max = 64, .fallback = "1,2,4,8,16,24,32",
           .help = "cuda: thread blocks of the collective in the overlap probe; one GPU: of the kernel that stands in for it"),
    OPTION("overlap-rates", overlap_GBps, INTS, .min = 0, .max = 10000, .fallback = "400,100",
           .help = "one GPU: GB/s that this kernel copies; the cluster file takes the first; 0: no limit"),
    OPTION("nccl-ctas", nccl_ctas, INT, .min = 1, .max = 64,
           .help = "one GPU: thread blocks that NCCL would use; the cluster file takes their row (16 on an H100, else 24)"),
    OPTION("rates", rates, FLAG, .fallback = "yes",
           .help = "cuda: measure copies and matrix products"),
    OPTION("copy-sizes", copy_sizes, SIZES, .min = 1, .max = 1e11, .fallback = "64KiB,1MiB,16MiB,256MiB",
           .help = "bytes of a copy"),
    OPTION("device", device, CHOICE, .choices = calibrate_devices, .fallback = "cpu",
           .group = "machine", .help = "device to measure: CPUs and sockets, or GPUs and NCCL"),
    OPTION("nccl-min-ctas", nccl_min_ctas, INT, .min = 1, .max = 64,
           .help = "fewest thread blocks of a collective, each on an SM of its own (NCCL's choice)"),
    OPTION("nccl-max-ctas", nccl_max_ctas, INT, .min = 1, .max = 64,
           .help = "most thread blocks of a collective (NCCL's choice)"),
    OPTION("nccl-register", nccl_register, FLAG, .fallback = "no",
           .help = "keep buffers in memory that NCCL allocates and registers"),
    OPTION("share-gpu", share_gpu, FLAG, .fallback = "no",
           .help = "let ranks share a GPU, for tests; the times then mean nothing, and no file is written"),
    OPTION("pin", pin, FLAG, .fallback = "yes",
           .help = "bind each rank to a CPU if there are enough (not with --device=cuda)"),
    OPTION("timeout", timeout_s, TIME, .min = 0.1, .max = 1e6, .fallback = "60s",
           .help = "longest wait for another rank"),
    OPTION(SECRET_FILE_OPTION),
    OPTION("out", out, FILE, .role = LK_ROLE_OUTPUT, .fallback = "cluster.json", .group = "output",
           .help = "cluster file to write"),
    OPTION("name", name, TEXT, .help = "name of the cluster; default: the host's"),
    PAGE_ROWS(OPTION),
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
    for (rest = copy; (word = lk_list_next(&rest));) {
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
    struct calibrate_plan p = {.n_colls = 0};
    const char *colls = o->collectives ? o->collectives : defaults[o->device].collectives;
    const char *algos = o->algorithms ? o->algorithms : defaults[o->device].algorithms;

    LK_PASS(check_options(o));
    LK_PASS(read_words("--dtypes", &lk_dtype_words, o->dtypes, p.dtypes, &p.n_dtypes));
    p.sizes = sizes_of(o);
    p.overlap_bytes = o->overlap_bytes ? o->overlap_bytes : defaults[o->device].overlap_bytes;
    for (size_t d = 0; d < p.n_dtypes; d++)
        for (int i = 0; i < p.sizes.n; i++)
            LK_PASS(check_size("--sizes", p.sizes.v[i], p.dtypes[d]));
    LK_PASS(check_size("--overlap-bytes", p.overlap_bytes, LK_F32));
    LK_PASS(read_words("--collectives", &lk_modelled_coll_words, colls, p.colls, &p.n_colls));
    LK_PASS(read_words("--algorithms", &lk_algo_words, algos, p.algos, &p.n_algos));
    *out = p;
    return LK_OK;
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
                                                .effort.repetitions = (size_t)o->repetitions,
                                                .effort.warmup = (size_t)o->warmup,
                                                .effort.budget_s = o->budget_s,
                                                .burst_s = burst_s};
}

/* ---- Measuring CPUs ---- */

struct rank {
    const struct calibrate_options *options;
    const struct lk_rank_env *env;
    struct lk_store_server *server;
    struct lk_store *store;
    struct lk_comm *comm;
    struct calibrate_plan plan;
    struct lk_cluster c; /* on rank 0: the part that this number of ranks shows */
    struct calibrate_tables tables;
    struct calibrate_pairs pairs;
};

void calibrate_announce(const struct lk_rank_env *env, double from, double to, const char *what)
{
    if (env->rank == 0)
        lk_progress_begin(from, to, "measuring %s of %d rank%s", what, env->world_size,
                          env->world_size == 1 ? "" : "s");
}

/* Add what the probes measured to rank 0's part of the cluster. */
static enum lk_status add_cpu(struct rank *r, const struct lk_probe_rows *rows,
                              const struct lk_probe_colocation *colocation,
                              const struct lk_probe_overlap *overlap)
{
    char source[64];

    snprintf(source, sizeof source, "calibrate: overlap probe of %d ranks", r->env->world_size);
    LK_PASS(lk_calibration_add_points(rows, r->env->nodes, &r->c));
    if (colocation->n)
        LK_PASS(lk_calibration_add_colocation(colocation, r->env->local_world_size,
                                              getenv(TAKE_TURNS_ENV) != NULL, &r->c));
    if (overlap->n)
        LK_PASS(lk_calibration_add_overlap(overlap, true, source, &r->c));
    return LK_OK;
}

static enum lk_status measure_cpu(struct rank *r)
{
    const struct calibrate_options *o = r->options;
    const struct lk_comm_config comm = {.rank = r->env->rank,
                                        .world_size = r->env->world_size,
                                        .store = r->store,
                                        .timeout_ns = lk_ns_from_s(o->timeout_s)};
    struct lk_probe_collectives_config collectives =
        calibrate_collectives_config(o, &r->plan, BURST_S);
    const struct lk_probe_compute_config compute = {.unit_target_s = COMPUTE_UNIT_S,
                                                    .effort.repetitions = (size_t)o->repetitions,
                                                    .effort.warmup = (size_t)o->warmup,
                                                    .effort.budget_s = o->budget_s / 2};
    struct lk_probe_rows rows = {0};
    struct lk_probe_colocation colocation = {0};
    struct lk_probe_overlap overlap = {0};
    enum lk_status st = LK_OK;

    collectives.inside = r->env->nodes > 1 ? r->env->local_world_size : 0;
    LK_TRY(lk_comm_open("tcp", &comm, &r->comm));
    calibrate_announce(r->env, 0, COLLECTIVES_SHARE, "collectives");
    LK_TRY(lk_probe_collectives(r->comm, &collectives, &rows));
    if (o->colocation) {
        calibrate_announce(r->env, COLLECTIVES_SHARE, COLOCATION_SHARE, "co-location");
        LK_TRY(lk_probe_colocation(r->comm, &compute, &colocation));
    }
    if (o->overlap && !getenv(TAKE_TURNS_ENV)) {
        calibrate_announce(r->env, COLOCATION_SHARE, 1, "overlap");
        LK_TRY(lk_probe_overlap(r->comm, &compute, r->plan.overlap_bytes, &overlap));
    }
    if (r->env->rank == 0)
        LK_TRY(add_cpu(r, &rows, &colocation, &overlap));
out:
    lk_probe_rows_fini(&rows);
    lk_probe_colocation_fini(&colocation);
    lk_probe_overlap_fini(&overlap);
    return st;
}

/* ---- The cluster file ---- */

static int usable_cpus(void)
{
    cpu_set_t set;

    return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

/* Describe the machine. Ranks on one host measured this host, ranks on several one kind of host, of
 * which there may be more. */
static enum lk_status set_header(const struct calibrate_options *o, int nodes, int ranks_per_node,
                                 struct lk_cluster *c)
{
    char host[256] = "";

    if (gethostname(host, sizeof host - 1))
        return lk_fail(LK_EIO, "gethostname: %s", strerror(errno));
    LK_PASS(lk_strdup(&c->name, o->name ? o->name : host));
    c->nodes = nodes > 1 ? 0 : 1;
    if (o->device == CALIBRATE_CUDA)
        return LK_OK; /* rank 0 describes its GPU */
    LK_PASS(lk_strdup(&c->gpu, "cpu"));
    c->gpus_per_node = nodes > 1 ? ranks_per_node : usable_cpus();
    return LK_OK;
}

/* Fit and write the cluster, and put it on the page. least: the fewest ranks that our launcher
 * started, or 0. */
static enum lk_status finish(const struct calibrate_options *o, struct lk_cluster *c,
                             struct calibrate_tables *tables, int least, struct lk_page *page)
{
    LK_PASS(lk_alpha_beta_fit_cluster(c, 1));
    if (!o->share_gpu)
        LK_PASS(lk_cluster_write(o->out, c));
    return calibrate_print(o, c, tables, least, page);
}

/* ---- Ranks ---- */

/* Put rank 0's part into the store, for our launcher. */
static enum lk_status hand_over(const struct rank *r)
{
    enum lk_status st = LK_OK;
    char *cluster = NULL, *tables = NULL;
    size_t size;

    LK_TRY(lk_record_save_text(&lk_cluster_record, &r->c, &cluster, &size));
    LK_TRY(lk_store_set_text(r->store, CLUSTER_KEY, cluster, size));
    LK_TRY(calibrate_tables_write(&r->tables, &tables, &size));
    LK_TRY(lk_store_set_text(r->store, TABLES_KEY, tables, size));
out:
    free(cluster);
    free(tables);
    return st;
}

static enum lk_status measure(struct rank *r)
{
    const struct calibrate_gpu gpu = {.options = r->options, .env = r->env, .store = r->store};
    bool cuda = r->options->device == CALIBRATE_CUDA;
    struct calibrate_load load;

    LK_PASS(calibrate_load_begin(&load));
    if (r->options->pairs && r->env->world_size > 1)
        LK_PASS(calibrate_pairs(r->options, r->env, r->store, &r->c, &r->pairs));
    LK_PASS(cuda ? calibrate_gpu(&gpu, &r->c, &r->tables) : measure_cpu(r));
    LK_PASS(calibrate_load_end(&load, r->env, r->store, !cuda, &r->c));
    if (r->env->rank == 0)
        LK_PASS(set_header(r->options, r->env->nodes, r->env->local_world_size, &r->c));
    if (r->env->rank == 0 && getenv(PART_ENV))
        LK_PASS(hand_over(r));
    return LK_OK;
}

/* Measure as one rank. LK_EREPORTED: our launcher has the text of the failure. */
static enum lk_status run_rank(const struct calibrate_options *o, const struct calibrate_plan *plan,
                               const struct lk_rank_env *env, struct lk_page *page)
{
    struct rank r = {.options = o, .env = env, .plan = *plan};
    bool ours = getenv(PART_ENV) != NULL, told = false;
    enum lk_status st = LK_OK;

    lk_cluster_init(&r.c);
    lk_log_set_rank(env->rank);
    LK_TRY(calibrate_tables_create(&r.tables));
    LK_TRY(
        lk_rank_env_connect(env, o->secret_file, lk_ns_from_s(o->timeout_s), &r.server, &r.store));
    LK_TRY(agree_on_options(&lk_command_calibrate, o, NULL, !ours, env, r.store));
    LK_TRY(measure(&r));
out:
    if (st != LK_OK && r.store) {
        st = lk_store_report(r.store, st, lk_error_text());
        told = ours;
    }
    lk_comm_close(r.comm);
    lk_store_close(r.store);
    lk_store_server_stop(r.server, lk_ns_from_s(o->timeout_s));
    if (st == LK_OK && env->rank == 0 && !ours)
        st = finish(o, &r.c, &r.tables, 0, page);
    if (st == LK_OK && env->rank == 0 && !ours)
        st = calibrate_pairs_say(&r.pairs, page);
    calibrate_pairs_fini(&r.pairs);
    calibrate_tables_fini(&r.tables);
    lk_cluster_fini(&r.c);
    return told ? LK_EREPORTED : st;
}

/* ---- Launching ---- */

/* The cluster and the tables of all counts of ranks. */
struct whole {
    struct lk_cluster c;
    struct calibrate_tables tables;
};

/* Take rank 0's part from the store and add it to the whole. */
static enum lk_status collect(void *ctx, struct lk_store_server *store)
{
    struct whole *w = ctx;
    enum lk_status st = LK_OK;
    struct lk_cluster part = {0};
    char *cluster = NULL, *tables = NULL;
    size_t size;

    LK_TRY(lk_store_server_text(store, CLUSTER_KEY, &cluster, &size));
    LK_TRY(lk_record_load_text(&lk_cluster_record, "rank 0's part", cluster, size, &part));
    LK_TRY(lk_calibration_merge(&w->c, &part));
    LK_TRY(lk_store_server_text(store, TABLES_KEY, &tables, &size));
    LK_TRY(calibrate_tables_append(&w->tables, tables, size));
out:
    free(cluster);
    free(tables);
    lk_cluster_fini(&part);
    return st;
}

bool calibrate_pins(const struct calibrate_options *o)
{
    return o->pin && o->device != CALIBRATE_CUDA;
}

/* Launch the i-th count of ranks. */
static enum lk_status launch_one(const struct calibrate_options *o, char **argv, int i,
                                 struct whole *w)
{
    bool cuda = o->device == CALIBRATE_CUDA;
    int ranks = (int)o->ranks.v[i];
    char progress[LK_PROGRESS_TEXT];
    const char *env[5] = {PART_ENV "=1", progress};
    size_t n = 2;

    (void)(o->ranks.n > 1 ? lk_progress_child((size_t)i, (size_t)o->ranks.n, progress,
                                              "part %d of %d", i + 1, o->ranks.n)
                          : lk_progress_child(0, 1, progress, "%s", ""));
    if (cuda && w->c.gpu)
        env[n++] = CALIBRATE_NO_RATES_ENV "=1";
    if (!cuda && ranks > usable_cpus())
        env[n++] = TAKE_TURNS_ENV "=1";
    return lk_launch(&(struct lk_launch_config){.ranks = ranks,
                                                .argv = argv,
                                                .env = env,
                                                .grace_ns = GRACE_NS,
                                                .timeout_ns = UINT64_MAX,
                                                .collect = collect,
                                                .ctx = w,
                                                .pin = calibrate_pins(o)});
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return LK_ORDER(*x, *y);
}

/* Sort the counts and keep each once: points and kappas of a cluster file are in that order. */
static void sort_ranks(struct lk_ints *r)
{
    int n = 0;

    qsort(r->v, (size_t)r->n, sizeof *r->v, by_value);
    for (int i = 0; i < r->n; i++)
        if (!n || r->v[n - 1] != r->v[i])
            r->v[n++] = r->v[i];
    r->n = n;
}

/* Set the default counts: 2; of GPUs 2, 4, ... up to all of them, or 1 where there is one. */
static enum lk_status default_ranks(struct calibrate_options *o)
{
    int most = 2;

    if (o->ranks.n)
        return LK_OK;
    if (o->device == CALIBRATE_CUDA)
        LK_PASS(lk_device_count("cuda", &(struct lk_device_config){.real = LK_F32}, &most));
    for (int n = 2; n <= most; n *= 2)
        o->ranks.v[o->ranks.n++] = n;
    if (!o->ranks.n)
        o->ranks.v[o->ranks.n++] = 1;
    return LK_OK;
}

static enum lk_status run_launcher(struct calibrate_options *o, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct whole w = {.tables = {.table = {NULL}}};
    char **child = NULL;

    lk_cluster_init(&w.c);
    LK_TRY(check_writable(o->out));
    LK_TRY(default_ranks(o));
    sort_ranks(&o->ranks);
    LK_TRY(lk_command_argv(&lk_command_calibrate, o, NULL, &child));
    LK_TRY(set_header(o, 1, 0, &w.c));
    LK_TRY(calibrate_tables_create(&w.tables));
    if (o->share_gpu)
        lk_log(LK_LOG_MAIN, LK_WARN, SHARE_GPU_WARNING);
    for (int i = 0; i < o->ranks.n; i++)
        LK_TRY(launch_one(o, child, i, &w));
    LK_TRY(finish(o, &w.c, &w.tables, (int)o->ranks.v[0], page));
    if (w.c.n_pairs)
        LK_TRY(calibrate_pairs_say(&(struct calibrate_pairs){.n = w.c.n_pairs}, page));
out:
    lk_argv_free(child);
    calibrate_tables_fini(&w.tables);
    lk_cluster_fini(&w.c);
    return st;
}

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    struct calibrate_options *o = options;
    struct calibrate_plan plan;
    struct lk_rank_env env;

    (void)operands;
    (void)n;
    LK_PASS(calibrate_plan(o, &plan));
    LK_PASS(lk_rank_env_read(&env));
    if (o->secret_file && !env.present)
        return lk_fail(LK_EUSAGE, NEEDLESS_SECRET);
    return env.present ? run_rank(o, &plan, &env, page) : run_launcher(o, page);
}

const struct lk_command lk_command_calibrate = {
    .name = "calibrate",
    .usage = "",
    .help = "measure this machine's collectives, overlap and co-location",
    .options = option_rows,
    .size = sizeof(struct calibrate_options),
    .tables = TABLES("sizes", "points", "fits", "effects", "pairs", "gpu-collectives", "gpu-copies",
                     "gpu-products", "gpu-overlap"),
    .run = run,
};
