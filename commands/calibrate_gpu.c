/* One rank of a calibration on GPUs; see the headers. */
#include "commands/calibrate_gpu.h"
#include "base/array.h"
#include "base/log.h"
#include "base/trace.h"
#include "base/units.h"
#include "commands/machine.h"
#include "commands/share_gpu.h"
#include "profiler/nvml.h"
#include "runtime/comm.h"
#include "runtime/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* By the GPU's events: as long as nccl-tests' twenty calls of a middling size. */
static const double BURST_S = 0.002;

/* Linear layers of GPT-2 124M and of a GPT with 4096 channels, and a product of squares. */
static const struct lk_product_shape gpt_shapes[] = {
    {"qkv, 768 channels",      16384, 768,  2304 },
    {"mlp up, 768 channels",   16384, 768,  3072 },
    {"mlp down, 768 channels", 16384, 3072, 768  },
    {"logits, 768 channels",   8192,  768,  50304},
    {"mlp up, 4096 channels",  8192,  4096, 16384},
    {"squares",                8192,  8192, 8192 },
};

bool gpu_rank_first(const struct gpu_rank *g)
{
    return g->config->env->rank == 0;
}

uint64_t gpu_rank_timeout_ns(const struct gpu_rank *g)
{
    return lk_ns_from_s(g->options->timeout_s);
}

void gpu_rank_announce(const struct gpu_rank *g, const char *what)
{
    if (g->options->share_gpu)
        share_gpu_deadline(g->options->timeout_s);
    if (gpu_rank_first(g) && isatty(STDERR_FILENO))
        fprintf(stderr, "%d rank%s: %s\n", g->config->env->world_size,
                g->config->env->world_size == 1 ? "" : "s", what);
}

/* ---- The device and its streams ---- */

static enum lk_status open_device(struct gpu_rank *g, enum lk_dtype real)
{
    const struct lk_device_config config = {.real = real,
                                            .local_rank = g->config->env->local_rank,
                                            .share_gpu = g->options->share_gpu,
                                            .hang_ns = lk_ns_from_s(g->options->timeout_s),
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

static void close_device(struct gpu_rank *g)
{
    lk_stream_destroy(g->compute);
    lk_stream_destroy(g->net);
    lk_device_close(g->device);
    g->compute = g->net = NULL;
    g->device = NULL;
}

enum lk_status gpu_rank_open_comm(struct gpu_rank *g, int max_ctas, struct lk_comm **out)
{
    const struct lk_rank_env *e = g->config->env;
    struct lk_comm_config config = {.rank = e->rank,
                                    .world_size = e->world_size,
                                    .store = g->config->store,
                                    .timeout_ns = gpu_rank_timeout_ns(g),
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

/* As far as NCCL has not been told to use sockets. */
static enum lk_network network_of(const struct machine *m)
{
    const char *net = getenv("NCCL_NET"), *no_ib = getenv("NCCL_IB_DISABLE");
    bool verbs = m->network == LK_NETWORK_INFINIBAND || m->network == LK_NETWORK_ROCE;

    if ((net && !strcasecmp(net, "Socket")) || (verbs && no_ib && !strcmp(no_ib, "1")))
        return LK_NETWORK_TCP;
    return m->network;
}

/* What joins the GPU to others; nothing where there is no NVML. */
static enum lk_status add_links(struct gpu_rank *g)
{
    struct lk_nvml *nvml = NULL;
    struct lk_gpu_links links;
    char text[LK_GPU_LINKS_TEXT];
    enum lk_status st = lk_nvml_open(g->uuid, g->config->nvml_calls, &nvml);

    if (st != LK_OK)
        return st == LK_EUNSUPPORTED || st == LK_EIO ? LK_OK : st;
    lk_nvml_links(nvml, &links);
    if (lk_gpu_nvlinks_text(&links, text))
        LK_TRY(lk_cluster_add_fact(g->c, LK_GPU_CONFIG_NVLINKS, text));
    if (lk_gpu_pcie_text(&links, text))
        LK_TRY(lk_cluster_add_fact(g->c, LK_GPU_CONFIG_PCIE, text));
out:
    lk_nvml_close(nvml);
    return st;
}

static enum lk_status describe_machine(struct gpu_rank *g)
{
    enum lk_status st = LK_OK;
    struct machine m;

    machine_find("", &m);
    g->c->topology.cpu = m.cpu;
    g->c->topology.network = network_of(&m);
    for (int i = 0; i < MACHINE_FACTS; i++)
        if (m.text[i][0])
            LK_TRY(lk_cluster_add_fact(g->c, machine_keys[i], m.text[i]));
    LK_TRY(add_links(g));
out:
    return st;
}

static enum lk_status find_uuid(struct gpu_rank *g)
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
static enum lk_status describe(struct gpu_rank *g)
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
    LK_TRY(describe_machine(g));
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
static enum lk_status watch_start(const struct gpu_rank *g, struct watch *w)
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

static enum lk_status watch_stop(const struct gpu_rank *g, struct watch *w, int table)
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
static enum lk_status watched(struct gpu_rank *g, int table,
                              enum lk_status (*part)(struct gpu_rank *g))
{
    struct watch w = {NULL, NULL};
    enum lk_status st = LK_OK;

    if (!gpu_rank_first(g))
        return part(g);
    LK_TRY(watch_start(g, &w));
    st = part(g);
    LK_KEEP(watch_stop(g, &w, table));
out:
    return st;
}

/* ---- Collectives ---- */

static enum lk_status sweep_collectives(struct gpu_rank *g)
{
    const struct calibrate_options *o = g->options;
    struct calibrate_plan plan;
    struct lk_sweep_collectives_config config;
    struct lk_sweep_rows rows = {0};
    enum lk_status st = LK_OK;

    gpu_rank_announce(g, "collectives");
    LK_TRY(calibrate_plan(o, &plan));
    config = calibrate_sweep(o, &plan, BURST_S);
    config.out_of_place = true;
    config.estimate = true;
    config.stream = g->net;
    config.timeout_ns = gpu_rank_timeout_ns(g);
    LK_TRY(lk_sweep_collectives(g->comm, &config, &rows));
    if (gpu_rank_first(g)) {
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
static struct lk_rates_config rates_config(const struct gpu_rank *g)
{
    return (struct lk_rates_config){.stream = g->compute,
                                    .repetitions = (size_t)g->options->repetitions,
                                    .warmup = (size_t)g->options->warmup,
                                    .burst_s = BURST_S,
                                    .budget_s =
                                        fmin(g->options->budget_s, g->options->timeout_s) / 8,
                                    .timeout_ns = gpu_rank_timeout_ns(g)};
}

static enum lk_status keep_rates(struct gpu_rank *g, const struct lk_rate_rows *rows)
{
    enum lk_status st = calibrate_show_rates(g->tables, rows);

    /* Of products those in bfloat16 are the device's rate: they come first. */
    if (st == LK_OK && !lk_quantity_known(&g->c->device.flops))
        st = calibrate_add_rates(rows, g->c);
    return st;
}

static enum lk_status sweep_copies(struct gpu_rank *g)
{
    const struct lk_rates_config config = rates_config(g);
    struct lk_rate_rows rows = {0};
    enum lk_status st = LK_OK;

    gpu_rank_announce(g, "copies");
    LK_TRY(lk_sweep_copies(&config, g->options->copy_sizes.v, (size_t)g->options->copy_sizes.n,
                           &rows));
    LK_TRY(keep_rates(g, &rows));
out:
    lk_rate_rows_fini(&rows);
    return st;
}

static enum lk_status sweep_products(struct gpu_rank *g)
{
    const struct lk_product_shape *shapes = g->config->shapes ? g->config->shapes : gpt_shapes;
    size_t n = g->config->shapes ? g->config->n_shapes : LK_COUNT(gpt_shapes);
    const struct lk_rates_config config = rates_config(g);
    struct lk_rate_rows rows = {0};
    enum lk_status st = LK_OK;

    gpu_rank_announce(g, "matrix products");
    LK_TRY(lk_sweep_products(&config, shapes, n, &rows));
    LK_TRY(keep_rates(g, &rows));
out:
    lk_rate_rows_fini(&rows);
    return st;
}

/* ---- All ---- */

static enum lk_status barrier(struct gpu_rank *g)
{
    return lk_comm_run(g->comm, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1});
}

/* In bfloat16, what GPUs train in; what one GPU can do without the others is rank 0's to measure,
 * while they wait. */
static enum lk_status measure(struct gpu_rank *g, bool rates)
{
    enum lk_status st = LK_OK;

    LK_TRY(open_device(g, LK_BF16));
    LK_TRY(describe(g));
    LK_TRY(gpu_rank_open_comm(g, 0, &g->comm));
    if (g->config->env->world_size > 1)
        LK_TRY(watched(g, CALIBRATE_COLLECTIVES, sweep_collectives));
    if (rates && gpu_rank_first(g)) {
        LK_TRY(watched(g, CALIBRATE_COPIES, sweep_copies));
        LK_TRY(watched(g, CALIBRATE_PRODUCTS, sweep_products));
    }
    LK_TRY(barrier(g));
    if (g->options->overlap)
        LK_TRY(watched(g, CALIBRATE_OVERLAP, gpu_rank_probe));
out:
    return st;
}

static enum lk_status measure_tf32(struct gpu_rank *g)
{
    enum lk_status st = LK_OK;

    LK_TRY(open_device(g, LK_F32));
    LK_TRY(watched(g, CALIBRATE_PRODUCTS, sweep_products));
out:
    return st;
}

static void close_all(struct gpu_rank *g)
{
    lk_comm_close(g->comm);
    g->comm = NULL;
    close_device(g);
}

enum lk_status calibrate_gpu(const struct calibrate_gpu *config, struct lk_cluster *c,
                             struct calibrate_tables *tables)
{
    struct gpu_rank g = {.config = config, .options = config->options, .c = c, .tables = tables};
    bool rates = config->options->rates && !getenv(CALIBRATE_NO_RATES_ENV);
    enum lk_status st = LK_OK;

    if (config->options->share_gpu) {
        share_gpu_deadline(config->options->timeout_s);
        LK_TRY(share_gpu_environment(config->env->rank, config->env->nodes));
    }
    LK_TRY(measure(&g, rates));
    close_all(&g);
    if (rates && gpu_rank_first(&g))
        LK_TRY(measure_tf32(&g));
out:
    close_all(&g);
    share_gpu_deadline(0);
    return st;
}
