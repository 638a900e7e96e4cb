/* The cluster artefact: names, the tables of its quantities, memory. cluster_io.c reads and writes.
 */
#include "base/cluster.h"

#include "base/array.h"
#include "base/cluster_rows.h"

#include <stdlib.h>

const char *const lk_timing_names[LK_TIMING_COUNT] = {
#define LK_TIMING_NAME_(timing, name) [timing] = name,
    LK_TIMING_LIST(LK_TIMING_NAME_)
#undef LK_TIMING_NAME_
};

const char *const lk_link_names[LK_LINK_COUNT] = {
#define LK_LINK_NAME_(link, name) [link] = name,
    LK_LINK_LIST(LK_LINK_NAME_)
#undef LK_LINK_NAME_
};

const char *const lk_gpu_link_names[LK_GPU_LINK_COUNT] = {
#define LK_GPU_LINK_NAME_(kind, name) [kind] = name,
    LK_GPU_LINK_LIST(LK_GPU_LINK_NAME_)
#undef LK_GPU_LINK_NAME_
};

const char *const lk_network_names[LK_NETWORK_COUNT] = {
#define LK_NETWORK_NAME_(kind, name) [kind] = name,
    LK_NETWORK_LIST(LK_NETWORK_NAME_)
#undef LK_NETWORK_NAME_
};

const char *const lk_cpu_names[LK_CPU_COUNT] = {
#define LK_CPU_NAME_(maker, name) [maker] = name,
    LK_CPU_LIST(LK_CPU_NAME_)
#undef LK_CPU_NAME_
};

const struct lk_quantity_row lk_cluster_overlap_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster, gamma_wait, "gamma_wait", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, gamma_wire, "gamma_wire", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, delta, "delta", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_cluster_straggler_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster, rank_sd, "rank_sd", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, node_sd, "node_sd", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, link_sd, "link_sd", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, transient_sd, "transient_sd", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, common_sd, "common_sd", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, tail_share, "tail_share", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, tail_scale, "tail_scale", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, tail_shape, "tail_shape", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_cluster_slow_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster_slow, compute, "compute", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster_slow, link, "link", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_cluster_device_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster_device, flops, "flops", LK_DIM_FLOPS, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster_device, memory_bytes, "memory", LK_DIM_BYTES, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster_device, memory_Bps, "memory_bandwidth", LK_DIM_RATE,
                    OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_cluster_topology_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster_topology, oversubscription, "oversubscription", LK_DIM_NONE,
                    OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_cluster_root_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster, price_per_hour, "price_per_hour", LK_DIM_PRICE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, power_W, "power", LK_DIM_POWER, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, gpu_mtbf_s, "gpu_mtbf", LK_DIM_TIME, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, restart_s, "restart", LK_DIM_TIME, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_cluster, checkpoint_Bps, "checkpoint_bandwidth", LK_DIM_RATE,
                    OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_cluster_link_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster_link, latency_s, "latency", LK_DIM_TIME, REQUIRED),
    LK_QUANTITY_ROW(struct lk_cluster_link, bandwidth_Bps, "bandwidth", LK_DIM_RATE, REQUIRED),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_cluster_fit_rows[] = {
    LK_QUANTITY_ROW(struct lk_cluster_fit, launch_s, "launch", LK_DIM_TIME, REQUIRED),
    LK_QUANTITY_ROW(struct lk_cluster_fit, alpha_s, "alpha", LK_DIM_TIME, REQUIRED),
    LK_QUANTITY_ROW(struct lk_cluster_fit, bandwidth_Bps, "bandwidth", LK_DIM_RATE, REQUIRED),
    LK_QUANTITY_ROW(struct lk_cluster_fit, error, "error", LK_DIM_NONE, REQUIRED),
    LK_QUANTITY_END,
};

/* Calls f for every group of optional quantities in the cluster. */
static void each_group(struct lk_cluster *c,
                       void (*f)(const struct lk_quantity_row *rows, void *base))
{
    f(lk_cluster_overlap_rows, c);
    f(lk_cluster_straggler_rows, c);
    f(lk_cluster_root_rows, c);
    f(lk_cluster_device_rows, &c->device);
    f(lk_cluster_topology_rows, &c->topology);
    f(lk_cluster_link_rows, &c->intra);
    f(lk_cluster_link_rows, &c->inter);
}

void lk_cluster_init(struct lk_cluster *c)
{
    *c = (struct lk_cluster){0};
    each_group(c, lk_quantity_rows_clear);
}

void lk_cluster_fini(struct lk_cluster *c)
{
    for (size_t i = 0; i < c->n_points; i++)
        lk_quantity_fini(&c->points[i].time_s);
    for (size_t i = 0; i < c->n_fits; i++)
        lk_quantity_rows_fini(lk_cluster_fit_rows, &c->fits[i]);
    for (size_t i = 0; i < c->n_kappa; i++)
        lk_quantity_fini(&c->kappa[i].kappa);
    for (size_t i = 0; i < c->n_slow; i++)
        lk_quantity_rows_fini(lk_cluster_slow_rows, &c->slow[i]);
    each_group(c, lk_quantity_rows_fini);
    for (size_t i = 0; i < c->n_machine; i++) {
        free(c->machine[i].key);
        free(c->machine[i].text);
    }
    free(c->machine);
    free(c->points);
    free(c->fits);
    free(c->kappa);
    free(c->slow);
    free(c->name);
    free(c->gpu);
    *c = (struct lk_cluster){0};
}

enum lk_status lk_cluster_add_fact(struct lk_cluster *c, const char *key, const char *text)
{
    struct lk_cluster_fact fact = {NULL, NULL};
    size_t capacity = c->n_machine;
    enum lk_status st = LK_OK;

    LK_TRY(lk_array_grow(&c->machine, &capacity, c->n_machine + 1, sizeof *c->machine));
    LK_TRY(lk_strdup(&fact.key, key));
    LK_TRY(lk_strdup(&fact.text, text));
    c->machine[c->n_machine++] = fact;
    fact = (struct lk_cluster_fact){NULL, NULL};
out:
    free(fact.key);
    free(fact.text);
    return st;
}
