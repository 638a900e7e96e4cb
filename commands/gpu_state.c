#include "commands/gpu_state.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Time between samples: NVML's power and energy counters change no faster. */
static const double period_s = 0.1;
/* Time that the end of a run waits for a driver that does not answer. */
static const double timeout_s = 10;

static enum lk_status add_number(struct lk_run_info *info, const char *key, double v)
{
    char text[32];

    if (isnan(v))
        return LK_OK;
    (void)snprintf(text, sizeof text, "%.10g", v);
    return lk_run_info_config(info, key, text);
}

static enum lk_status add_limits(struct lk_run_info *info, const struct lk_gpu_limits *l)
{
    LK_PASS(add_number(info, LK_GPU_CONFIG_MAX_CLOCK, l->max_sm_clock_mhz));
    LK_PASS(add_number(info, "gpu_max_memory_clock_mhz", l->max_memory_clock_mhz));
    LK_PASS(add_number(info, LK_GPU_CONFIG_POWER_LIMIT, l->power_limit_w));
    if (l->instance)
        LK_PASS(
            lk_run_info_config(info, "gpu_instance", "yes: clock and power are the whole GPU's"));
    return LK_OK;
}

static enum lk_status add_links(struct lk_run_info *info, struct lk_nvml *nvml)
{
    char text[LK_GPU_LINKS_TEXT];
    struct lk_gpu_links links;

    lk_nvml_links(nvml, &links);
    if (lk_gpu_nvlinks_text(&links, text))
        LK_PASS(lk_run_info_config(info, LK_GPU_CONFIG_NVLINKS, text));
    if (lk_gpu_pcie_text(&links, text))
        LK_PASS(lk_run_info_config(info, LK_GPU_CONFIG_PCIE, text));
    return LK_OK;
}

enum lk_status gpu_state_open(struct gpu_state *g, bool needed, const struct lk_nvml_calls *calls,
                              struct lk_run_info *info)
{
    const char *uuid = lk_run_info_value(info, LK_GPU_CONFIG_UUID);
    enum lk_status st = LK_OK;

    g->needed = needed;
    if (!uuid)
        return needed ? lk_fail(LK_EUNSUPPORTED, "--gpu-state: the device is no GPU") : LK_OK;
    st = lk_nvml_open(uuid, calls, &g->nvml);
    if (st == LK_OK) {
        lk_nvml_limits(g->nvml, &g->limits);
        st = add_limits(info, &g->limits);
        return st == LK_OK ? add_links(info, g->nvml) : st;
    }
    if (needed || (st != LK_EUNSUPPORTED && st != LK_EIO))
        return lk_fail_context(st, "--gpu-state");
    if (info->local_rank == 0)
        lk_log(LK_LOG_PROFILE, LK_WARN, "%s; clock and power of the GPU are not recorded",
               lk_error_text());
    return LK_OK;
}

enum lk_status gpu_state_start(struct gpu_state *g, struct lk_recorder *r)
{
    const struct lk_nvml_sampler_config config = {
        .recorder = r, .period_s = period_s, .timeout_s = timeout_s};

    return g->nvml ? lk_nvml_sampler_start(g->nvml, &config, &g->sampler) : LK_OK;
}

void gpu_state_step(struct gpu_state *g, int64_t done, int64_t warmup, int64_t all)
{
    if (done == (warmup > 0 ? warmup : 1) && done < all)
        lk_nvml_sampler_restart(g->sampler);
    if (done == all)
        lk_nvml_sampler_end(g->sampler);
}

enum lk_status gpu_state_stop(struct gpu_state *g)
{
    enum lk_status st;

    if (!g->sampler) {
        lk_nvml_close(g->nvml); /* a run that failed before it sampled */
        g->nvml = NULL;
        return LK_OK;
    }
    st = lk_nvml_sampler_stop(g->sampler, &g->summary);
    g->sampler = NULL;
    g->nvml = NULL;
    if (st != LK_OK && !g->needed) {
        lk_log(LK_LOG_PROFILE, LK_WARN, "%s", lk_error_text());
        return LK_OK;
    }
    return st;
}

/* ---- JSON ---- */

static const struct {
    enum lk_gpu_quantity quantity;
    const char *key;
} quantity_keys[] = {
    {LK_GPU_SM_CLOCK_MHZ, "sm_clock_mhz"},
    {LK_GPU_MEMORY_CLOCK_MHZ, "memory_clock_mhz"},
    {LK_GPU_TEMPERATURE_C, "temperature_c"},
};

void gpu_state_write(struct lk_json_out *o, const char *key, const struct gpu_state *g)
{
    const struct lk_gpu_summary *s = &g->summary;

    lk_json_out_object(o, key);
    lk_json_out_int(o, "samples", (int64_t)s->n);
    for (size_t i = 0; i < sizeof quantity_keys / sizeof *quantity_keys; i++) {
        lk_json_out_compact(o);
        lk_json_out_object(o, quantity_keys[i].key);
        lk_json_out_number(o, "mean", s->quantity[quantity_keys[i].quantity].mean);
        lk_json_out_number(o, "min", s->quantity[quantity_keys[i].quantity].min);
        lk_json_out_number(o, "max", s->quantity[quantity_keys[i].quantity].max);
        lk_json_out_close(o);
    }
    lk_json_out_number(o, "max_sm_clock_mhz", g->limits.max_sm_clock_mhz);
    lk_json_out_number(o, "power_w", s->power_w);
    lk_json_out_number(o, "power_limit_w", g->limits.power_limit_w);
    lk_json_out_number(o, "energy_j", s->energy_j);
    lk_json_out_number(o, "throttled", s->throttled);
    lk_json_out_compact(o);
    lk_json_out_object(o, "reasons");
    for (int i = 0; i < LK_GPU_REASON_COUNT; i++)
        if (s->reason[i] > 0)
            lk_json_out_number(o, lk_gpu_reason_name((enum lk_gpu_reason)i), s->reason[i]);
    lk_json_out_close(o);
    lk_json_out_close(o);
}
