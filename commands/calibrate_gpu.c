/* One rank of a calibration on GPUs; see commands/calibrate.h. */
#include "base/array.h"
#include "base/log.h"
#include "base/trace.h"
#include "base/units.h"
#include "commands/calibrate.h"
#include "commands/share_gpu.h"
#include "profiler/nvml.h"
#include "runtime/comm.h"
#include "runtime/device.h"
#include "runtime/sweep_block.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double BURST_S = 0.005;
static const double STRETCH_S = 0.01; /* of compute and of collectives, in the overlap probe */

/* Linear layers of GPT-2 124M and of a GPT with 4096 channels, and a product of squares. */
static const struct lk_product_shape gpt_shapes[] = {
    {"qkv, 768 channels",      16384, 768,  2304 },
    {"mlp up, 768 channels",   16384, 768,  3072 },
    {"mlp down, 768 channels", 16384, 3072, 768  },
    {"logits, 768 channels",   8192,  768,  50304},
    {"mlp up, 4096 channels",  8192,  4096, 16384},
    {"squares",                8192,  8192, 8192 },
};

/*
 * Thread blocks of a large all-reduce inside a node, by compute capability from 90 and 100 on:
 * NVLS has 16 on Hopper and 24 on Blackwell (NCCL 2.28.9, nvls.cc:148), rings and trees on eight
 * A100 24 (12 channels of 20 GB/s, twice).
 */
static const struct {
    int compute_capability, ctas;
} nccl_ctas[] = {
    {100, 24},
    {90,  16},
    {0,   24},
};

struct gpu {
    const struct calibrate_gpu *config;
    const struct calibrate_options *options;
    struct lk_device *device;
    struct lk_comm *comm;
    struct lk_stream *compute, *net;
    struct lk_device_properties properties;
    char uuid[64];
    struct lk_cluster *c;
    struct calibrate_tables *tables;
};

static bool first(const struct gpu *g)
{
    return g->config->env->rank == 0;
}

static uint64_t timeout_ns(const struct gpu *g)
{
    return lk_ns_from_s(g->options->timeout_s);
}

/* Progress, and a deadline for the next part where ranks share a GPU. */
static void announce(const struct gpu *g, const char *what)
{
    if (g->options->share_gpu)
        share_gpu_deadline(g->options->timeout_s);
    if (first(g) && isatty(STDERR_FILENO))
        fprintf(stderr, "%d rank%s: %s\n", g->config->env->world_size,
                g->config->env->world_size == 1 ? "" : "s", what);
}

/* ---- The device and its streams ---- */

static enum lk_status open_device(struct gpu *g, enum lk_dtype real)
{
    const struct lk_device_config config = {.real = real,
                                            .local_rank = g->config->env->local_rank,
                                            .share_gpu = g->options->share_gpu,
                                            .cuda_calls = g->config->cuda_calls};
    enum lk_status st = LK_OK;

    LK_TRY(lk_device_open("cuda", &config, &g->device));
    LK_TRY(lk_stream_create(g->device,
                            &(struct lk_track_info){.name = "compute", .kind = LK_TRACK_COMPUTE},
                            &g->compute));
    LK_TRY(lk_stream_create(
        g->device, &(struct lk_track_info){.name = "collectives", .kind = LK_TRACK_COMM}, &g->net));
out:
    return st;
}

static void close_device(struct gpu *g)
{
    lk_stream_destroy(g->compute);
    lk_stream_destroy(g->net);
    lk_device_close(g->device);
    g->compute = g->net = NULL;
    g->device = NULL;
}

/* max_ctas 0: as the options have it. */
static enum lk_status open_comm(struct gpu *g, int max_ctas, struct lk_comm **out)
{
    const struct lk_rank_env *e = g->config->env;
    struct lk_comm_config config = {.rank = e->rank,
                                    .world_size = e->world_size,
                                    .store = g->config->store,
                                    .timeout_ns = timeout_ns(g),
                                    .device = g->device,
                                    .nccl_calls = g->config->nccl_calls};

    config.nccl = (struct lk_nccl_options){.min_ctas = (int)g->options->nccl_min_ctas,
                                           .max_ctas = (int)g->options->nccl_max_ctas,
                                           .register_buffers = g->options->nccl_register};
    if (max_ctas) {
        config.nccl.max_ctas = max_ctas;
        config.nccl.min_ctas = 0;
    }
    if (g->options->share_gpu)
        share_gpu_limit(&config.nccl);
    return lk_comm_open(e->world_size > 1 ? "nccl" : "self", &config, out);
}

static enum lk_status find_uuid(struct gpu *g)
{
    struct lk_run_info info = {0};
    enum lk_status st = lk_device_describe(g->device, &info);

    for (size_t i = 0; st == LK_OK && i < info.n_config; i++)
        if (!strcmp(info.config[i].key, "gpu_uuid"))
            snprintf(g->uuid, sizeof g->uuid, "%s", info.config[i].value);
    lk_run_info_fini(&info);
    return st;
}

/* What the cluster file says of the machine. */
static enum lk_status describe(struct gpu *g)
{
    const struct lk_device_properties *p = &g->properties;
    enum lk_status st = LK_OK;
    int local = g->config->env->local_world_size;

    LK_TRY(find_uuid(g));
    LK_TRY(lk_device_properties(g->device, &g->properties));
    LK_TRY(lk_strdup(&g->c->gpu, p->name));
    /* A launcher may show each rank only its own. */
    g->c->gpus_per_node = g->options->share_gpu || p->gpus > local ? p->gpus : local;
    g->c->device.compute_capability = p->compute_capability;
    g->c->topology.gpu_link = p->link;
    if (p->memory_bytes)
        LK_TRY(lk_quantity_set(&g->c->device.memory_bytes, (double)p->memory_bytes, NAN, NAN, 0,
                               "calibrate: what CUDA says of the GPU"));
out:
    return st;
}

/* ---- The state of rank 0's GPU beside what is measured ---- */

struct watch {
    struct lk_nvml *nvml; /* the sampler's, once that runs */
    struct lk_nvml_sampler *sampler;
};

/* Without NVML nothing is watched. */
static enum lk_status watch_start(const struct gpu *g, struct watch *w)
{
    static const struct lk_nvml_sampler_config config = {.period_s = 0.1, .timeout_s = 10};
    enum lk_status st = lk_nvml_open(g->uuid, g->config->nvml_calls, &w->nvml);

    if (st == LK_EUNSUPPORTED || st == LK_EIO) {
        lk_log(LK_LOG_MAIN, LK_INFO, "%s: clock and power are not known", lk_error_text());
        return LK_OK;
    }
    if (st == LK_OK)
        st = lk_nvml_sampler_start(w->nvml, &config, &w->sampler);
    if (st != LK_OK) {
        lk_nvml_close(w->nvml);
        w->nvml = NULL;
    }
    return st;
}

static enum lk_status watch_stop(const struct gpu *g, struct watch *w, int table)
{
    struct lk_gpu_summary summary;
    char text[LK_GPU_TEXT];
    int ranks = g->config->env->world_size;

    if (!w->sampler)
        return LK_OK;
    if (lk_nvml_sampler_stop(w->sampler, &summary) != LK_OK)
        lk_log(LK_LOG_MAIN, LK_WARN, "%s", lk_error_text());
    if (!summary.n)
        return LK_OK;
    lk_gpu_summary_text(&summary, text);
    return lk_table_note(g->tables->table[table], "%d rank%s, rank 0's GPU meanwhile: %s", ranks,
                         ranks == 1 ? "" : "s", text);
}

/* Measures a part; how the GPU was meanwhile is a note of its table. */
static enum lk_status watched(struct gpu *g, int table, enum lk_status (*part)(struct gpu *g))
{
    struct watch w = {NULL, NULL};
    enum lk_status st = LK_OK;

    if (!first(g))
        return part(g);
    LK_TRY(watch_start(g, &w));
    st = part(g);
    LK_KEEP(watch_stop(g, &w, table));
out:
    return st;
}

/* ---- Collectives ---- */

static enum lk_status sweep_collectives(struct gpu *g)
{
    const struct calibrate_options *o = g->options;
    struct calibrate_plan plan;
    struct lk_sweep_rows rows = {0};
    enum lk_status st = LK_OK;

    announce(g, "collectives");
    LK_TRY(calibrate_plan(o, &plan));
    LK_TRY(lk_sweep_collectives(
        g->comm,
        &(struct lk_sweep_collectives_config){.colls = plan.colls,
                                              .n_colls = plan.n_colls,
                                              .algos = plan.algos,
                                              .n_algos = plan.n_algos,
                                              .bytes = plan.sizes.v,
                                              .n_bytes = (size_t)plan.sizes.n,
                                              .dtypes = plan.dtypes,
                                              .n_dtypes = plan.n_dtypes,
                                              .out_of_place = true,
                                              .estimate = true,
                                              .stream = g->net,
                                              .timeout_ns = timeout_ns(g),
                                              .repetitions = (size_t)o->repetitions,
                                              .warmup = (size_t)o->warmup,
                                              .budget_s = o->budget_s,
                                              .burst_s = BURST_S},
        &rows));
    if (first(g)) {
        if (!o->share_gpu)
            LK_TRY(calibrate_add_points(&rows, g->config->env->nodes, g->c));
        LK_TRY(calibrate_show_collectives(g->tables, &rows));
    }
out:
    lk_sweep_rows_fini(&rows);
    return st;
}

/* ---- Copies and products ---- */

/* Each of the three parts of the rates has an eighth of the budget; the other ranks wait for two of
 * them, with their timeout. */
static struct lk_rates_config rates_config(const struct gpu *g)
{
    return (struct lk_rates_config){.stream = g->compute,
                                    .repetitions = (size_t)g->options->repetitions,
                                    .warmup = (size_t)g->options->warmup,
                                    .burst_s = BURST_S,
                                    .budget_s =
                                        fmin(g->options->budget_s, g->options->timeout_s) / 8,
                                    .timeout_ns = timeout_ns(g)};
}

static enum lk_status keep_rates(struct gpu *g, const struct lk_rate_rows *rows)
{
    enum lk_status st = calibrate_show_rates(g->tables, rows);

    /* Of products those in bfloat16 are the device's rate: they come first. */
    if (st == LK_OK && !lk_quantity_known(&g->c->device.flops))
        st = calibrate_add_rates(rows, g->c);
    return st;
}

static enum lk_status sweep_copies(struct gpu *g)
{
    const struct lk_rates_config config = rates_config(g);
    struct lk_rate_rows rows = {0};
    enum lk_status st = LK_OK;

    announce(g, "copies");
    LK_TRY(lk_sweep_copies(&config, g->options->copy_sizes.v, (size_t)g->options->copy_sizes.n,
                           &rows));
    LK_TRY(keep_rates(g, &rows));
out:
    lk_rate_rows_fini(&rows);
    return st;
}

static enum lk_status sweep_products(struct gpu *g)
{
    const struct lk_product_shape *shapes = g->config->shapes ? g->config->shapes : gpt_shapes;
    size_t n = g->config->shapes ? g->config->n_shapes : LK_COUNT(gpt_shapes);
    const struct lk_rates_config config = rates_config(g);
    struct lk_rate_rows rows = {0};
    enum lk_status st = LK_OK;

    announce(g, "matrix products");
    LK_TRY(lk_sweep_products(&config, shapes, n, &rows));
    LK_TRY(keep_rates(g, &rows));
out:
    lk_rate_rows_fini(&rows);
    return st;
}

/* ---- Overlap ---- */

/* Thread blocks that NCCL would use: as asked for, by the limits given to it, or its own choice. */
static int expected_ctas(const struct gpu *g)
{
    const struct calibrate_options *o = g->options;
    size_t i = 0;
    int ctas;

    if (o->nccl_ctas)
        return (int)o->nccl_ctas;
    while (g->properties.compute_capability < nccl_ctas[i].compute_capability)
        i++;
    ctas = nccl_ctas[i].ctas;
    if (o->nccl_max_ctas && ctas > o->nccl_max_ctas)
        ctas = (int)o->nccl_max_ctas;
    return ctas < o->nccl_min_ctas ? (int)o->nccl_min_ctas : ctas;
}

struct probe {
    struct gpu *gpu;
    struct lk_block *block;
    struct lk_block_size size;
    uint64_t bytes; /* of a collective */
    size_t lines;   /* that share the budget */
};

static enum lk_status source_of(const struct probe *p, const struct lk_sweep_beside *beside,
                                char *buf, size_t size)
{
    int n = snprintf(buf, size, "calibrate: ");

    if (beside->ctas)
        n += snprintf(buf + n, size - (size_t)n,
                      "a stand-in of %zu thread blocks that copies %g GB/s within the GPU",
                      beside->ctas, beside->Bps / 1e9);
    else
        n += snprintf(buf + n, size - (size_t)n, "all-reduces of %llu bytes by %d ranks",
                      (unsigned long long)beside->bytes, p->gpu->config->env->world_size);
    snprintf(buf + n, size - (size_t)n,
             " beside the backward pass of a GPT block (%zu x %zu tokens, %zu channels)",
             p->size.samples, p->size.context, p->size.channels);
    return LK_OK;
}

/* A line of the table; ctas: NCCL's limit, where it is not its own choice. */
static enum lk_status probe_line(struct probe *p, struct lk_comm *comm,
                                 const struct lk_sweep_beside *beside, int ctas, bool in_file)
{
    struct gpu *g = p->gpu;
    const struct lk_sweep_stream_config config = {.compute = g->compute,
                                                  .net = g->net,
                                                  .unit = lk_block_backward,
                                                  .ctx = p->block,
                                                  .unit_target_s = STRETCH_S,
                                                  .repetitions = (size_t)g->options->repetitions,
                                                  .warmup = (size_t)g->options->warmup,
                                                  .budget_s =
                                                      g->options->budget_s / 2 / (double)p->lines,
                                                  .timeout_ns = timeout_ns(g)};
    struct lk_sweep_overlap s = {0};
    enum lk_status st = LK_OK;
    char source[256];

    LK_TRY(lk_sweep_overlap_streams(comm, &config, beside, &s));
    if (!first(g))
        goto out;
    LK_TRY(source_of(p, beside, source, sizeof source));
    if (in_file && !g->options->share_gpu)
        LK_TRY(calibrate_add_overlap(&s, beside->ctas > 0, source, g->c));
    LK_TRY(calibrate_show_overlap(
        g->tables, &(struct calibrate_overlap){.samples = &s,
                                               .beside = beside,
                                               .ranks = g->config->env->world_size,
                                               .ctas = ctas,
                                               .in_file = in_file && !g->options->share_gpu}));
out:
    lk_sweep_overlap_fini(&s);
    return st;
}

static bool contains(const struct lk_ints *list, int64_t v)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] == v)
            return true;
    return false;
}

/* One GPU: a stand-in of every size, at every rate. The file takes NCCL's size at the first. */
static enum lk_status probe_stand_ins(struct probe *p)
{
    const struct calibrate_options *o = p->gpu->options;
    int expected = expected_ctas(p->gpu);
    struct lk_ints ctas = o->overlap_ctas;
    enum lk_status st = LK_OK;

    if (!contains(&ctas, expected) && ctas.n < LK_OPTION_LIST_MAX)
        ctas.v[ctas.n++] = expected;
    p->lines = (size_t)(ctas.n * o->overlap_GBps.n);
    for (int r = 0; r < o->overlap_GBps.n; r++)
        for (int i = 0; i < ctas.n; i++) {
            const struct lk_sweep_beside beside = {.bytes = p->bytes,
                                                   .ctas = (size_t)ctas.v[i],
                                                   .Bps = (double)o->overlap_GBps.v[r] * 1e9};

            if (ctas.v[i] > p->gpu->properties.multiprocessors)
                continue; /* they would not be resident together */
            LK_TRY(probe_line(p, p->gpu->comm, &beside, 0, r == 0 && ctas.v[i] == expected));
        }
    LK_TRY(lk_table_note(p->gpu->tables->table[CALIBRATE_OVERLAP],
                         "stand-in: own kernels that hold as much of the GPU as NCCL's thread "
                         "blocks and copy within it; NCCL is taken to use %d (%s). A proxy: see "
                         "docs/gpu.md",
                         expected, o->nccl_ctas ? "--nccl-ctas" : "by this GPU"));
out:
    return st;
}

/* Several GPUs: NCCL's own choice, for the file, and then with every limit. */
static enum lk_status probe_collectives(struct probe *p)
{
    const struct lk_sweep_beside beside = {.bytes = p->bytes};
    const struct lk_ints *ctas = &p->gpu->options->overlap_ctas;
    struct lk_comm *limited = NULL;
    enum lk_status st = LK_OK;

    p->lines = (size_t)ctas->n + 1;
    LK_TRY(probe_line(p, p->gpu->comm, &beside, 0, true));
    for (int i = 0; i < ctas->n; i++) {
        LK_TRY(open_comm(p->gpu, (int)ctas->v[i], &limited));
        LK_TRY(probe_line(p, limited, &beside, (int)ctas->v[i], false));
        lk_comm_close(limited);
        limited = NULL;
    }
    if (first(p->gpu))
        LK_TRY(lk_table_note(p->gpu->tables->table[CALIBRATE_OVERLAP],
                             "CTAs: the limit given to NCCL, which may use fewer"));
out:
    lk_comm_close(limited);
    return st;
}

static enum lk_status probe_overlap(struct gpu *g)
{
    const int64_t *b = g->options->block.v;
    struct probe p = {.gpu = g};
    struct calibrate_plan plan;
    enum lk_status st = LK_OK;

    announce(g, "overlap");
    LK_TRY(calibrate_plan(g->options, &plan));
    p.bytes = plan.overlap_bytes;
    p.size = (struct lk_block_size){(size_t)b[0], (size_t)b[1], (size_t)b[2], (size_t)b[3]};
    LK_TRY(lk_block_create(g->compute, &p.size, timeout_ns(g), &p.block));
    LK_TRY(g->config->env->world_size > 1 ? probe_collectives(&p) : probe_stand_ins(&p));
out:
    lk_block_destroy(p.block);
    return st;
}

/* ---- All ---- */

static enum lk_status barrier(struct gpu *g)
{
    return lk_comm_run(g->comm, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1});
}

/* In bfloat16, what GPUs train in; what one GPU can do without the others is rank 0's to measure,
 * while they wait. */
static enum lk_status measure(struct gpu *g, bool rates)
{
    enum lk_status st = LK_OK;

    LK_TRY(open_device(g, LK_BF16));
    LK_TRY(describe(g));
    LK_TRY(open_comm(g, 0, &g->comm));
    if (g->config->env->world_size > 1)
        LK_TRY(watched(g, CALIBRATE_COLLECTIVES, sweep_collectives));
    if (rates && first(g)) {
        LK_TRY(watched(g, CALIBRATE_COPIES, sweep_copies));
        LK_TRY(watched(g, CALIBRATE_PRODUCTS, sweep_products));
    }
    LK_TRY(barrier(g));
    if (g->options->overlap)
        LK_TRY(watched(g, CALIBRATE_OVERLAP, probe_overlap));
out:
    return st;
}

static enum lk_status measure_tf32(struct gpu *g)
{
    enum lk_status st = LK_OK;

    LK_TRY(open_device(g, LK_F32));
    LK_TRY(watched(g, CALIBRATE_PRODUCTS, sweep_products));
out:
    return st;
}

static void close_all(struct gpu *g)
{
    lk_comm_close(g->comm);
    g->comm = NULL;
    close_device(g);
}

enum lk_status calibrate_gpu(const struct calibrate_gpu *config, struct lk_cluster *c,
                             struct calibrate_tables *tables)
{
    struct gpu g = {.config = config, .options = config->options, .c = c, .tables = tables};
    bool rates = config->options->rates && !getenv(CALIBRATE_NO_RATES_ENV);
    enum lk_status st = LK_OK;

    if (config->options->share_gpu) {
        share_gpu_deadline(config->options->timeout_s);
        LK_TRY(share_gpu_environment(config->env->rank, config->env->nodes));
    }
    LK_TRY(measure(&g, rates));
    close_all(&g);
    if (rates && first(&g))
        LK_TRY(measure_tf32(&g));
out:
    close_all(&g);
    share_gpu_deadline(0);
    return st;
}
