/* One rank of a calibration. */
#include "commands/calibrate.h"

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/comm.h"
#include "runtime/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A burst must outlast the clock's and the scheduler's grain. */
static const double BURST_S = 0.005;
static const double COMPUTE_UNIT_S = 0.02;

struct rank {
    const struct calibrate_options *options;
    const struct lk_rank_env *env;
    struct lk_store_server *server;
    struct lk_store *store;
    struct lk_comm *comm;
};

/* Sizes of a comma-separated list of names, one after the other. */
static enum lk_status next_word(const char **list, char *word, size_t size)
{
    size_t n = strcspn(*list, ",");

    if (!n || n >= size)
        return lk_fail(LK_EUSAGE, "'%s': expected names separated by commas", *list);
    memcpy(word, *list, n);
    word[n] = 0;
    *list += n;
    if (**list == ',')
        ++*list;
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
    char word[32];

    while (*list && p->n_dtypes < LK_COUNT(p->dtypes)) {
        LK_TRY(next_word(&list, word, sizeof word));
        if (lk_dtype_from_name(word, &p->dtypes[p->n_dtypes++]) != LK_OK)
            return lk_fail(LK_EUSAGE, "--dtypes: %s", lk_error_text());
    }
    if (*list || !p->n_dtypes)
        return lk_fail(LK_EUSAGE, "--dtypes: each name once");
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
    char word[32];

    LK_TRY(check_options(o));
    LK_TRY(plan_dtypes(o->dtypes, &p));
    p.sizes = sizes_of(o);
    p.overlap_bytes = o->overlap_bytes ? o->overlap_bytes : defaults[o->device].overlap_bytes;
    for (size_t d = 0; d < p.n_dtypes; d++)
        for (int i = 0; i < p.sizes.n; i++)
            LK_TRY(check_size("--sizes", p.sizes.v[i], p.dtypes[d]));
    LK_TRY(check_size("--overlap-bytes", p.overlap_bytes, LK_F32));
    while (*colls && p.n_colls < LK_COUNT(p.colls)) {
        LK_TRY(next_word(&colls, word, sizeof word));
        if (lk_coll_from_name(word, &p.colls[p.n_colls++]) != LK_OK)
            return lk_fail(LK_EUSAGE, "--collectives: %s", lk_error_text());
    }
    while (*algos && p.n_algos < LK_COUNT(p.algos)) {
        LK_TRY(next_word(&algos, word, sizeof word));
        if (lk_algo_from_name(word, &p.algos[p.n_algos++]) != LK_OK)
            return lk_fail(LK_EUSAGE, "--algorithms: %s", lk_error_text());
    }
    if (*colls || *algos || !p.n_colls || !p.n_algos)
        return lk_fail(LK_EUSAGE, "--collectives and --algorithms: each name once");
    *out = p;
out:
    return st;
}

static enum lk_status open_store(struct rank *r)
{
    enum lk_status st = LK_OK;
    const struct lk_rank_env *e = r->env;

    if (e->serve && e->rank == 0)
        LK_TRY(lk_store_serve(e->master_addr, e->master_port, e->world_size, &r->server));
    LK_TRY(lk_store_connect(e->master_addr, e->master_port, e->rank, e->world_size,
                            lk_ns_from_s(r->options->timeout_s), &r->store));
out:
    return st;
}

static enum lk_status open_comm(struct rank *r)
{
    return lk_comm_open("tcp",
                        &(struct lk_comm_config){.rank = r->env->rank,
                                                 .world_size = r->env->world_size,
                                                 .store = r->store,
                                                 .timeout_ns = lk_ns_from_s(r->options->timeout_s)},
                        &r->comm);
}

static void announce(const struct rank *r, const char *what)
{
    if (r->env->rank == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "%d ranks: %s\n", r->env->world_size, what);
}

static enum lk_status sweep_collectives(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    const struct calibrate_options *o = r->options;
    struct calibrate_plan plan;
    struct lk_sweep_rows rows = {0};

    announce(r, "collectives");
    LK_TRY(calibrate_plan(o, &plan));
    LK_TRY(lk_sweep_collectives(
        r->comm,
        &(struct lk_sweep_collectives_config){.colls = plan.colls,
                                              .n_colls = plan.n_colls,
                                              .algos = plan.algos,
                                              .n_algos = plan.n_algos,
                                              .bytes = plan.sizes.v,
                                              .n_bytes = (size_t)plan.sizes.n,
                                              .dtypes = plan.dtypes,
                                              .n_dtypes = plan.n_dtypes,
                                              .repetitions = (size_t)o->repetitions,
                                              .warmup = (size_t)o->warmup,
                                              .budget_s = o->budget_s,
                                              .burst_s = BURST_S},
        &rows));
    if (r->env->rank == 0)
        LK_TRY(calibrate_add_points(&rows, r->env->nodes, c));
out:
    lk_sweep_rows_fini(&rows);
    return st;
}

static struct lk_sweep_compute_config compute_config(const struct calibrate_options *o)
{
    return (struct lk_sweep_compute_config){.unit_target_s = COMPUTE_UNIT_S,
                                            .repetitions = (size_t)o->repetitions,
                                            .warmup = (size_t)o->warmup,
                                            .budget_s = o->budget_s / 2};
}

static enum lk_status sweep_colocation(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_compute_config config = compute_config(r->options);
    struct lk_sweep_colocation s = {0};

    announce(r, "co-location");
    LK_TRY(lk_sweep_colocation(r->comm, &config, &s));
    if (r->env->rank == 0)
        LK_TRY(calibrate_add_colocation(&s, r->env->local_world_size, c));
out:
    lk_sweep_colocation_fini(&s);
    return st;
}

static enum lk_status sweep_overlap(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_compute_config config = compute_config(r->options);
    struct lk_sweep_overlap s = {0};
    struct calibrate_plan plan;
    char source[64];

    announce(r, "overlap");
    LK_TRY(calibrate_plan(r->options, &plan));
    snprintf(source, sizeof source, "calibrate: overlap probe of %d ranks", r->env->world_size);
    LK_TRY(lk_sweep_overlap(r->comm, &config, plan.overlap_bytes, &s));
    if (r->env->rank == 0)
        LK_TRY(calibrate_add_overlap(&s, true, source, c));
out:
    lk_sweep_overlap_fini(&s);
    return st;
}

static enum lk_status measure_cpu(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;

    LK_TRY(open_comm(r));
    LK_TRY(sweep_collectives(r, c));
    if (r->options->colocation)
        LK_TRY(sweep_colocation(r, c));
    if (r->options->overlap && !getenv(CALIBRATE_NO_OVERLAP_ENV))
        LK_TRY(sweep_overlap(r, c));
out:
    return st;
}

enum lk_status calibrate_rank(const struct calibrate_options *o, const struct lk_rank_env *env,
                              struct lk_cluster *out, struct calibrate_tables *tables)
{
    enum lk_status st = LK_OK;
    struct rank r = {.options = o, .env = env};
    struct lk_cluster c;
    bool told = false;

    lk_cluster_init(&c);
    lk_log_set_rank(env->rank);
    LK_TRY(open_store(&r));
    if (o->device == CALIBRATE_CUDA)
        LK_TRY(calibrate_gpu(&(struct calibrate_gpu){.options = o, .env = env, .store = r.store},
                             &c, tables));
    else
        LK_TRY(measure_cpu(&r, &c));
    *out = c;
    c = (struct lk_cluster){0};
out:
    if (st != LK_OK && r.store) {
        st = lk_store_report(r.store, st, lk_error_text());
        told = getenv(CALIBRATE_PART_ENV) != NULL;
    }
    lk_comm_close(r.comm);
    lk_store_close(r.store);
    lk_store_server_stop(r.server, lk_ns_from_s(o->timeout_s));
    lk_cluster_fini(&c);
    return told ? LK_EREPORTED : st;
}
