/* The overlap probe of a calibration on GPUs: real collectives, or stand-ins where there is one
 * GPU. */
#include "commands/calibrate_gpu.h"

#include "base/log.h"
#include "runtime/sweep_block.h"

#include <stdio.h>

static const double STRETCH_S = 0.01; /* of compute and of collectives, in the overlap probe */

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

/* Thread blocks that NCCL would use: as asked for, by the limits given to it, or its own choice. */
static int expected_ctas(const struct gpu_rank *g)
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
    struct gpu_rank *gpu;
    struct lk_block *block;
    struct lk_block_size size;
    uint64_t bytes; /* of a collective */
    size_t lines;   /* that share the budget */
};

/* For the cluster file: what was beside what. */
static void source_of(const struct probe *p, const struct lk_sweep_beside *beside, char *buf,
                      size_t size)
{
    char what[160], rate[48] = "as fast as it can";

    if (beside->Bps > 0)
        snprintf(rate, sizeof rate, "at %g GB/s", beside->Bps / 1e9);
    if (beside->ctas)
        snprintf(what, sizeof what, "a stand-in of %zu thread blocks that copies within the GPU %s",
                 beside->ctas, rate);
    else
        snprintf(what, sizeof what, "all-reduces of %llu bytes by %d ranks",
                 (unsigned long long)beside->bytes, p->gpu->config->env->world_size);
    snprintf(buf, size,
             "calibrate: %s beside the backward pass of a GPT block (%zu x %zu tokens, %zu "
             "channels)",
             what, p->size.samples, p->size.context, p->size.channels);
}

/*
 * Compute and collectives that would not last as long as each other cost one line, not all that a
 * calibration has measured; where it is the file's line, the file is without. All ranks come here
 * alike.
 */
static enum lk_status without_line(struct probe *p, const struct lk_sweep_beside *beside)
{
    char source[320], why[256];

    if (!gpu_rank_first(p->gpu))
        return LK_OK;
    source_of(p, beside, source, sizeof source);
    snprintf(why, sizeof why, "%s", lk_error_text());
    lk_log(LK_LOG_MAIN, LK_WARN, "not measured: %s: %s", source, why);
    return lk_table_note(p->gpu->tables->table[CALIBRATE_OVERLAP], "not measured: %s: %s", source,
                         why);
}

/* A line of the table; ctas: NCCL's limit, where it is not its own choice. */
static enum lk_status probe_line(struct probe *p, struct lk_comm *comm,
                                 const struct lk_sweep_beside *beside, int ctas, bool in_file)
{
    struct gpu_rank *g = p->gpu;
    const struct lk_sweep_stream_config config = {.compute = g->compute,
                                                  .net = g->net,
                                                  .unit = lk_block_backward,
                                                  .ctx = p->block,
                                                  .unit_target_s = STRETCH_S,
                                                  .repetitions = (size_t)g->options->repetitions,
                                                  .warmup = (size_t)g->options->warmup,
                                                  .budget_s =
                                                      g->options->budget_s / 2 / (double)p->lines,
                                                  .timeout_ns = gpu_rank_timeout_ns(g)};
    struct lk_sweep_overlap s = {0};
    enum lk_status st = lk_sweep_overlap_streams(comm, &config, beside, &s);
    char source[320];

    if (st == LK_EEVIDENCE)
        return without_line(p, beside);
    if (st != LK_OK || !gpu_rank_first(g))
        goto out;
    source_of(p, beside, source, sizeof source);
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
    p->lines = (size_t)ctas.n * (size_t)o->overlap_GBps.n;
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
        LK_TRY(gpu_rank_open_comm(p->gpu, (int)ctas->v[i], &limited));
        LK_TRY(probe_line(p, limited, &beside, (int)ctas->v[i], false));
        lk_comm_close(limited);
        limited = NULL;
    }
    if (gpu_rank_first(p->gpu))
        LK_TRY(lk_table_note(p->gpu->tables->table[CALIBRATE_OVERLAP],
                             "CTAs: the limit given to NCCL, which may use fewer"));
out:
    lk_comm_close(limited);
    return st;
}

enum lk_status gpu_rank_probe(struct gpu_rank *g)
{
    const int64_t *b = g->options->block.v;
    struct probe p = {.gpu = g};
    struct calibrate_plan plan;
    enum lk_status st = LK_OK;

    gpu_rank_announce(g, "overlap");
    LK_TRY(calibrate_plan(g->options, &plan));
    p.bytes = plan.overlap_bytes;
    p.size = (struct lk_block_size){(size_t)b[0], (size_t)b[1], (size_t)b[2], (size_t)b[3]};
    LK_TRY(lk_block_create(g->compute, &p.size, gpu_rank_timeout_ns(g), &p.block));
    LK_TRY(g->config->env->world_size > 1 ? probe_collectives(&p) : probe_stand_ins(&p));
out:
    lk_block_destroy(p.block);
    return st;
}
