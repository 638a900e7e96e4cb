/*
 * One rank of a calibration on GPUs: collectives, copies, matrix products, and the overlap of a
 * backward pass with collectives.
 */
#include "commands/calibrate.h"

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"
#include "commands/gpu_state.h"
#include "commands/share_gpu.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/device/machine.h"
#include "runtime/probe/probe_block.h"
#include "runtime/rendezvous/rank_env.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Length of a burst by the GPU's events: that of nccl-tests' twenty calls of a middling size. */
static const double BURST_S = 0.002;
static const double STRETCH_S = 0.01; /* of compute and of collectives, in the overlap probe */

/* Linear layers of GPT-2 124M and of a GPT with 4096 channels, and a product of squares. */
static const struct lk_product_shape gpt_shapes[] = {
    {"qkv, 768 channels", 16384, 768, 2304},      {"mlp up, 768 channels", 16384, 768, 3072},
    {"mlp down, 768 channels", 16384, 3072, 768}, {"logits, 768 channels", 8192, 768, 50304},
    {"mlp up, 4096 channels", 8192, 4096, 16384}, {"squares", 8192, 8192, 8192},
};

/* State that the parts of a calibration on a GPU share. */
struct gpu_rank {
    const struct calibrate_gpu *config;
    const struct calibrate_options *options;
    struct calibrate_plan plan;
    struct lk_device *device;
    struct lk_comm *comm;
    struct lk_stream *compute, *net;
    struct lk_device_properties properties;
    char uuid[64]; /* "": NVML cannot be used */
    struct lk_cluster *c;
    struct calibrate_tables *tables;
};

static bool is_first(const struct gpu_rank *g)
{
    return g->config->env->rank == 0;
}

static uint64_t timeout_ns_of(const struct gpu_rank *g)
{
    return lk_ns_from_s(g->options->timeout_s);
}

static void announce(const struct gpu_rank *g, const char *what)
{
    if (g->options->share_gpu)
        share_gpu_deadline(g->options->timeout_s);
    calibrate_announce(g->config->env, 0, 0, what); /* how long the rest takes is not known */
}

/* ---- The device and its streams ---- */

static enum lk_status open_device(struct gpu_rank *g, enum lk_dtype real)
{
    const struct lk_device_config config = {.real = real,
                                            .local_rank = g->config->env->local_rank,
                                            .share_gpu = g->options->share_gpu,
                                            .hang_ns = lk_ns_from_s(g->options->timeout_s),
                                            .cuda_calls = g->config->cuda_calls};

    LK_PASS(lk_device_open("cuda", &config, &g->device));
    LK_PASS(lk_stream_create(g->device,
                             &(struct lk_track_info){.name = "compute", .kind = LK_TRACK_COMPUTE},
                             &g->compute));
    return lk_stream_create(
        g->device, &(struct lk_track_info){.name = "collectives", .kind = LK_TRACK_COMM}, &g->net);
}

static void close_all(struct gpu_rank *g)
{
    lk_comm_close(g->comm);
    lk_stream_destroy(g->compute);
    lk_stream_destroy(g->net);
    lk_device_close(g->device);
    g->comm = NULL;
    g->compute = g->net = NULL;
    g->device = NULL;
}

static enum lk_status open_comm(struct gpu_rank *g, int max_ctas, struct lk_comm **out)
{
    const struct lk_rank_env *e = g->config->env;
    struct lk_comm_config config = {.rank = e->rank,
                                    .world_size = e->world_size,
                                    .store = g->config->store,
                                    .timeout_ns = timeout_ns_of(g),
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

/* Return the network that NCCL uses: the machine's, unless the environment tells it to use sockets.
 */
static enum lk_network network_of(const struct lk_machine *m)
{
    const char *net = getenv("NCCL_NET"), *no_ib = getenv("NCCL_IB_DISABLE");
    bool verbs = m->network == LK_NETWORK_INFINIBAND || m->network == LK_NETWORK_ROCE;

    if ((net && !strcasecmp(net, "Socket")) || (verbs && no_ib && !strcmp(no_ib, "1")))
        return LK_NETWORK_TCP;
    return m->network;
}

static enum lk_status describe_machine(struct gpu_rank *g)
{
    struct lk_machine m;

    lk_machine_find("", &m);
    g->c->topology.cpu = m.cpu;
    g->c->topology.network = network_of(&m);
    for (int i = 0; i < LK_MACHINE_FACTS; i++)
        if (m.text[i][0])
            LK_PASS(lk_cluster_add_fact(g->c, lk_machine_keys[i], m.text[i]));
    return LK_OK;
}

/* Find the GPU's UUID, and describe its links as far as NVML knows them. */
static enum lk_status describe_gpu(struct gpu_rank *g)
{
    static const char *const links[] = {LK_GPU_CONFIG_NVLINKS, LK_GPU_CONFIG_PCIE};
    enum lk_status st = LK_OK;
    struct gpu_state state = {0};
    struct lk_run_info info = {0};

    LK_TRY(lk_device_describe(g->device, &info));
    info.local_rank = g->config->env->local_rank;
    LK_TRY(gpu_state_open(&state, false, g->config->nvml_calls, &info));
    for (size_t i = 0; i < LK_COUNT(links); i++)
        if (lk_run_info_value(&info, links[i]))
            LK_TRY(lk_cluster_add_fact(g->c, links[i], lk_run_info_value(&info, links[i])));
    if (state.nvml)
        snprintf(g->uuid, sizeof g->uuid, "%s", lk_run_info_value(&info, LK_GPU_CONFIG_UUID));
out:
    LK_KEEP(gpu_state_stop(&state));
    lk_run_info_fini(&info);
    return st;
}

/* Describe the machine in the cluster file. */
static enum lk_status describe(struct gpu_rank *g)
{
    const struct lk_device_properties *p = &g->properties;
    int local = g->config->env->local_world_size;

    LK_PASS(lk_device_properties(g->device, &g->properties));
    LK_PASS(lk_strdup(&g->c->gpu, p->name));
    /* A launcher may show each rank no other GPU than its own. */
    g->c->gpus_per_node = g->options->share_gpu || p->gpus > local ? p->gpus : local;
    g->c->device.compute_capability = p->compute_capability;
    g->c->topology.gpu_link = p->link;
    LK_PASS(describe_machine(g));
    LK_PASS(describe_gpu(g));
    if (p->memory_bytes)
        LK_PASS(lk_quantity_set(&g->c->device.memory_bytes, (double)p->memory_bytes, NAN, NAN, 0,
                                "calibrate: reported by CUDA"));
    return LK_OK;
}

/* ---- The state of rank 0's GPU during a part ---- */

/* Add the state of the GPU during a part to the notes of its table. */
static enum lk_status note_state(const struct gpu_rank *g, const struct gpu_state *state, int table)
{
    char text[LK_GPU_TEXT];
    int ranks = g->config->env->world_size;

    if (!state->summary.n)
        return LK_OK;
    lk_gpu_summary_text(&state->summary, text);
    return lk_table_note(g->tables->table[table], "%d rank%s, rank 0's GPU meanwhile: %s", ranks,
                         ranks == 1 ? "" : "s", text);
}

/* Measure a part, and watch rank 0's GPU meanwhile where NVML can. */
static enum lk_status watched(struct gpu_rank *g, int table,
                              enum lk_status (*part)(struct gpu_rank *g))
{
    struct gpu_state state = {0};
    enum lk_status st = LK_OK;

    if (!is_first(g) || !g->uuid[0])
        return part(g);
    LK_TRY(lk_nvml_open(g->uuid, g->config->nvml_calls, &state.nvml));
    LK_TRY(gpu_state_start(&state, NULL));
    st = part(g);
out:
    LK_KEEP(gpu_state_stop(&state));
    LK_KEEP(note_state(g, &state, table));
    return st;
}

/* ---- Collectives ---- */

static enum lk_status probe_collectives(struct gpu_rank *g)
{
    const struct calibrate_options *o = g->options;
    struct lk_probe_collectives_config config;
    struct lk_probe_rows rows = {0};
    enum lk_status st = LK_OK;

    announce(g, "collectives");
    config = calibrate_collectives_config(o, &g->plan, BURST_S);
    config.out_of_place = true;
    config.estimate = true;
    config.stream = g->net;
    config.timeout_ns = timeout_ns_of(g);
    LK_TRY(lk_probe_collectives(g->comm, &config, &rows));
    if (is_first(g)) {
        if (!o->share_gpu)
            LK_TRY(lk_calibration_add_points(&rows, g->config->env->nodes, g->c));
        LK_TRY(calibrate_show_collectives(g->tables, &rows));
    }
out:
    lk_probe_rows_fini(&rows);
    return st;
}

/* ---- Copies and products ---- */

/* Each of the three parts of the rates has an eighth of the budget; the other ranks wait for two of
 * them, with their timeout. */
static struct lk_rates_config rates_config(const struct gpu_rank *g)
{
    return (struct lk_rates_config){.stream = g->compute,
                                    .effort.repetitions = (size_t)g->options->repetitions,
                                    .effort.warmup = (size_t)g->options->warmup,
                                    .burst_s = BURST_S,
                                    .effort.budget_s =
                                        fmin(g->options->budget_s, g->options->timeout_s) / 8,
                                    .timeout_ns = timeout_ns_of(g)};
}

/* Show the rates, and free them. */
static enum lk_status keep_rates(struct gpu_rank *g, enum lk_status st, struct lk_rate_rows *rows)
{
    LK_TRY(st);
    LK_TRY(calibrate_show_rates(g->tables, rows));
    /* Products in bfloat16, which come first, give the device's rate. */
    if (!lk_quantity_known(&g->c->device.flops))
        LK_TRY(lk_calibration_add_rates(rows, g->c));
out:
    lk_rate_rows_fini(rows);
    return st;
}

static enum lk_status probe_copies(struct gpu_rank *g)
{
    const struct lk_rates_config config = rates_config(g);
    const struct lk_sizes *sizes = &g->options->copy_sizes;
    struct lk_rate_rows rows = {0};

    announce(g, "copies");
    return keep_rates(g, lk_probe_copies(&config, sizes->v, (size_t)sizes->n, &rows), &rows);
}

static enum lk_status probe_products(struct gpu_rank *g)
{
    const struct lk_product_shape *shapes = g->config->shapes ? g->config->shapes : gpt_shapes;
    size_t n = g->config->shapes ? g->config->n_shapes : LK_COUNT(gpt_shapes);
    const struct lk_rates_config config = rates_config(g);
    struct lk_rate_rows rows = {0};

    announce(g, "matrix products");
    return keep_rates(g, lk_probe_products(&config, shapes, n, &rows), &rows);
}

/* ---- Overlap: real collectives, or a surrogate where there is one GPU ---- */

/*
 * Thread blocks of a large all-reduce inside a node, by compute capability from 90 and 100 on:
 * NVLS has 16 on Hopper and 24 on Blackwell (NCCL 2.28.9, nvls.cc:148), rings and trees on eight
 * A100 24 (12 channels of 20 GB/s, twice).
 */
static const struct {
    int compute_capability, ctas;
} nccl_ctas[] = {
    {100, 24},
    {90, 16},
    {0, 24},
};

/* Return the thread blocks that NCCL would use: as the user says, else its choice within limits. */
static int expected_ctas(const struct gpu_rank *g)
{
    const struct calibrate_options *o = g->options;
    size_t i = 0;
    int ctas;

    if (o->nccl_ctas)
        return o->nccl_ctas;
    while (g->properties.compute_capability < nccl_ctas[i].compute_capability)
        i++;
    ctas = nccl_ctas[i].ctas;
    if (o->nccl_max_ctas && ctas > o->nccl_max_ctas)
        ctas = o->nccl_max_ctas;
    return ctas < o->nccl_min_ctas ? o->nccl_min_ctas : ctas;
}

struct overlap {
    struct gpu_rank *gpu;
    struct lk_block *block;
    struct lk_block_size size;
    uint64_t bytes; /* of a collective */
    size_t lines;   /* rows that share the budget */
};

/* Write the source of an overlap for the cluster file: the collective beside the compute. */
static void source_of(const struct overlap *p, const struct lk_probe_beside *beside, char *buf,
                      size_t size)
{
    char what[160], rate[48] = "as fast as it can";

    if (beside->Bps > 0)
        snprintf(rate, sizeof rate, "at %g GB/s", beside->Bps / 1e9);
    if (beside->ctas)
        snprintf(what, sizeof what,
                 "a surrogate of %zu thread blocks that copies within the GPU %s", beside->ctas,
                 rate);
    else
        snprintf(what, sizeof what, "all-reduces of %llu bytes by %d ranks",
                 (unsigned long long)beside->bytes, p->gpu->config->env->world_size);
    snprintf(buf, size,
             "calibrate: %s beside the backward pass of a GPT block (%zu x %zu tokens, %zu "
             "channels)",
             what, p->size.samples, p->size.context, p->size.channels);
}

/*
 * Note that a row was not measured, because compute and collectives would not last equally long.
 * The calibration goes on; without the file's row, the file has no overlap. All ranks come here
 * alike.
 */
static enum lk_status without_line(struct overlap *p, const struct lk_probe_beside *beside)
{
    char source[320], why[256];

    if (!is_first(p->gpu))
        return LK_OK;
    source_of(p, beside, source, sizeof source);
    snprintf(why, sizeof why, "%s", lk_error_text());
    lk_log(LK_LOG_MAIN, LK_WARN, "not measured: %s: %s", source, why);
    return lk_table_note(p->gpu->tables->table[CALIBRATE_OVERLAP], "not measured: %s: %s", source,
                         why);
}

/* Measure a row of the table; ctas: NCCL's limit, or 0 for its own choice. */
static enum lk_status overlap_line(struct overlap *p, struct lk_comm *comm,
                                   const struct lk_probe_beside *beside, int ctas, bool in_file)
{
    struct gpu_rank *g = p->gpu;
    const struct lk_probe_stream_config config = {
        .compute = g->compute,
        .net = g->net,
        .unit = lk_block_backward,
        .ctx = p->block,
        .unit_target_s = STRETCH_S,
        .effort.repetitions = (size_t)g->options->repetitions,
        .effort.warmup = (size_t)g->options->warmup,
        .effort.budget_s = g->options->budget_s / 2 / (double)p->lines,
        .timeout_ns = timeout_ns_of(g)};
    struct lk_probe_overlap s = {0};
    enum lk_status st = lk_probe_overlap_streams(comm, &config, beside, &s);
    char source[320];

    if (st == LK_EEVIDENCE)
        return without_line(p, beside);
    if (st != LK_OK || !is_first(g))
        goto out;
    source_of(p, beside, source, sizeof source);
    if (in_file && !g->options->share_gpu)
        LK_TRY(lk_calibration_add_overlap(&s, beside->ctas > 0, source, g->c));
    LK_TRY(calibrate_show_overlap(
        g->tables, &(struct calibrate_overlap){.samples = &s,
                                               .beside = beside,
                                               .ranks = g->config->env->world_size,
                                               .ctas = ctas,
                                               .in_file = in_file && !g->options->share_gpu}));
out:
    lk_probe_overlap_fini(&s);
    return st;
}

static bool contains(const struct lk_ints *list, int64_t v)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] == v)
            return true;
    return false;
}

/* Measure a surrogate of every size at every rate, on one GPU. The file takes NCCL's size at the
 * first rate. */
static enum lk_status overlap_surrogates(struct overlap *p)
{
    const struct calibrate_options *o = p->gpu->options;
    int expected = expected_ctas(p->gpu);
    struct lk_ints ctas = o->overlap_ctas;

    if (!contains(&ctas, expected) && ctas.n < LK_OPTION_LIST_MAX)
        ctas.v[ctas.n++] = expected;
    p->lines = (size_t)ctas.n * (size_t)o->overlap_GBps.n;
    for (int r = 0; r < o->overlap_GBps.n; r++)
        for (int i = 0; i < ctas.n; i++) {
            const struct lk_probe_beside beside = {.bytes = p->bytes,
                                                   .ctas = (size_t)ctas.v[i],
                                                   .Bps = (double)o->overlap_GBps.v[r] * 1e9};

            if (ctas.v[i] > p->gpu->properties.multiprocessors)
                continue; /* they would not be resident together */
            LK_PASS(overlap_line(p, p->gpu->comm, &beside, 0, r == 0 && ctas.v[i] == expected));
        }
    LK_PASS(lk_table_note(p->gpu->tables->table[CALIBRATE_OVERLAP],
                          "surrogate: own kernels that hold as much of the GPU as NCCL's thread "
                          "blocks and copy within it; NCCL is taken to use %d (%s). A proxy: see "
                          "docs/gpu.md",
                          expected, o->nccl_ctas ? "--nccl-ctas" : "by this GPU"));
    return LK_OK;
}

/* Measure collectives of several GPUs: with NCCL's own choice, for the file, then with every limit.
 */
static enum lk_status overlap_collectives(struct overlap *p)
{
    const struct lk_probe_beside beside = {.bytes = p->bytes};
    const struct lk_ints *ctas = &p->gpu->options->overlap_ctas;
    struct lk_comm *limited = NULL;
    enum lk_status st = LK_OK;

    p->lines = (size_t)ctas->n + 1;
    LK_TRY(overlap_line(p, p->gpu->comm, &beside, 0, true));
    for (int i = 0; i < ctas->n; i++) {
        LK_TRY(open_comm(p->gpu, (int)ctas->v[i], &limited));
        LK_TRY(overlap_line(p, limited, &beside, (int)ctas->v[i], false));
        lk_comm_close(limited);
        limited = NULL;
    }
    if (is_first(p->gpu))
        LK_TRY(lk_table_note(p->gpu->tables->table[CALIBRATE_OVERLAP],
                             "CTAs: the limit given to NCCL, which may use fewer"));
out:
    lk_comm_close(limited);
    return st;
}

static enum lk_status probe_overlap(struct gpu_rank *g)
{
    const int64_t *b = g->options->block.v;
    struct overlap p = {.gpu = g};
    enum lk_status st = LK_OK;

    announce(g, "overlap");
    p.bytes = g->plan.overlap_bytes;
    p.size = (struct lk_block_size){(size_t)b[0], (size_t)b[1], (size_t)b[2], (size_t)b[3]};
    LK_TRY(lk_block_create(g->compute, &p.size, timeout_ns_of(g), &p.block));
    LK_TRY(g->config->env->world_size > 1 ? overlap_collectives(&p) : overlap_surrogates(&p));
out:
    lk_block_destroy(p.block);
    return st;
}

/* ---- All ---- */

/* Measure in bfloat16, in which GPUs train. Rank 0 alone measures the rates of one GPU, while the
 * others wait. */
static enum lk_status measure(struct gpu_rank *g, bool rates)
{
    LK_PASS(open_device(g, LK_BF16));
    LK_PASS(describe(g));
    LK_PASS(open_comm(g, 0, &g->comm));
    if (g->config->env->world_size > 1)
        LK_PASS(watched(g, CALIBRATE_COLLECTIVES, probe_collectives));
    if (rates && is_first(g)) {
        LK_PASS(watched(g, CALIBRATE_COPIES, probe_copies));
        LK_PASS(watched(g, CALIBRATE_PRODUCTS, probe_products));
    }
    LK_PASS(lk_comm_barrier(g->comm));
    if (g->options->overlap)
        LK_PASS(watched(g, CALIBRATE_OVERLAP, probe_overlap));
    return LK_OK;
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
    LK_TRY(calibrate_plan(g.options, &g.plan));
    LK_TRY(measure(&g, rates));
    close_all(&g);
    if (rates && is_first(&g)) { /* and products in float32, by tf32 */
        LK_TRY(open_device(&g, LK_F32));
        LK_TRY(watched(&g, CALIBRATE_PRODUCTS, probe_products));
    }
out:
    close_all(&g);
    share_gpu_deadline(0);
    return st;
}
