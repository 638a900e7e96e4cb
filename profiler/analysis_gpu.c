/* The ranks' GPUs in the analysis: clock, power and throttling while the steps ran. */
#include "profiler/analysis_impl.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A clock that is so much below the others' explains a slow rank: two of the steps of 15 MHz in
 * which NVIDIA's clocks move are 2 %. */
static const double slow_clock = 0.03;
/* Fewer samples say nothing of a mean. */
enum { FEW_SAMPLES = 3 };

/* Which quantity each of the trace's names is; LK_GPU_QUANTITY_COUNT: none. out[id - 1]. */
static void find_names(const struct lk_trace *t, enum lk_gpu_quantity *out)
{
    for (size_t i = 0; i < t->n_names; i++) {
        out[i] = LK_GPU_QUANTITY_COUNT;
        for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
            if (!strcmp(t->names[i], lk_gpu_quantity_name((enum lk_gpu_quantity)q)))
                out[i] = (enum lk_gpu_quantity)q;
    }
}

/* A number of the run's configuration; NaN: it is not there. */
static double configured(const struct lk_run_info *info, const char *key)
{
    for (size_t i = 0; i < info->n_config; i++)
        if (!strcmp(info->config[i].key, key)) {
            double v;

            return lk_parse_double(info->config[i].value, &v) == LK_OK ? v : NAN;
        }
    return NAN;
}

static enum lk_status read_rank(const struct lk_run *run, size_t k, struct lk_analysis_rank *out)
{
    const struct lk_trace *t = &run->traces[k];
    const struct lk_step *first = lk_rank_step(&run->ranks[k], run->steps[0]);
    const struct lk_step *last = lk_rank_step(&run->ranks[k], run->steps[run->n_steps - 1]);
    struct lk_gpu_sums sums = {0};
    enum lk_gpu_quantity *quantities = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&quantities, t->n_names + 1, sizeof *quantities));
    find_names(t, quantities);
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        uint64_t at_ns = lk_clock_apply(&t->clock, s->start_ns);

        if (s->kind == LK_SPAN_COUNTER && s->name > 0 &&
            t->tracks[t->spans[i].track].kind == LK_TRACK_GPU &&
            quantities[s->name - 1] != LK_GPU_QUANTITY_COUNT && at_ns >= first->begin_ns &&
            at_ns <= last->end_ns)
            lk_gpu_sums_add(&sums, quantities[s->name - 1], at_ns, s->value);
    }
    lk_gpu_summary(&sums, &out->gpu);
    out->gpu_max_mhz = configured(&t->info, LK_GPU_CONFIG_MAX_CLOCK);
    out->gpu_limit_w = configured(&t->info, LK_GPU_CONFIG_POWER_LIMIT);
out:
    free(quantities);
    return st;
}

enum lk_status lk_analysis_gpu_(struct lk_analysis *a)
{
    enum lk_status st = LK_OK;

    for (size_t k = 0; k < a->run->n; k++)
        LK_TRY(read_rank(a->run, k, &a->ranks[k]));
out:
    return st;
}

/* ---- Slow clocks ---- */

static double clock_of(const struct lk_analysis *a, size_t k)
{
    const struct lk_gpu_summary *g = &a->ranks[k].gpu;

    return g->n >= FEW_SAMPLES ? g->quantity[LK_GPU_SM_CLOCK_MHZ].mean : NAN;
}

/* The median of the ranks but k; NaN when there are none. Without memory NaN, too: it is only said
 * less then. */
static double clock_of_others(const struct lk_analysis *a, size_t k)
{
    double *clocks = NULL;
    double median = NAN;
    size_t n = 0;

    if (lk_alloc(&clocks, a->run->n, sizeof *clocks) != LK_OK)
        return NAN;
    for (size_t i = 0; i < a->run->n; i++)
        if (i != k && !isnan(clock_of(a, i)))
            clocks[n++] = clock_of(a, i);
    if (n > 0)
        median = lk_stats_median(clocks, n);
    free(clocks);
    return median;
}

bool lk_analysis_gpu_slow_(const struct lk_analysis *a, size_t k, char *out)
{
    double own = clock_of(a, k), others = clock_of_others(a, k);
    char why[LK_GPU_TEXT];
    int used;

    if (isnan(own) || isnan(others) || own > (1 - slow_clock) * others)
        return false;
    used =
        snprintf(out, LK_GPU_TEXT, "its GPU runs at %.0f MHz, %.0f %% below the others' %.0f MHz",
                 own, 100 * (1 - own / others), others);
    lk_gpu_throttle_text(&a->ranks[k].gpu, why);
    if (why[0])
        (void)snprintf(out + used, (size_t)(LK_GPU_TEXT - used),
                       ", throttled %.0f %% of the time (%s)", 100 * a->ranks[k].gpu.throttled,
                       why);
    return true;
}

/* ---- The table ---- */

static const struct lk_column columns[] = {
    {"rank",             "rank",       LK_DIM_NONE,  -1},
    {"sm_clock_mhz",     "clock MHz",  LK_DIM_NONE,  0 },
    {"sm_clock_min_mhz", "least",      LK_DIM_NONE,  0 },
    {"sm_clock_max_mhz", "most",       LK_DIM_NONE,  0 },
    {"sm_clock_top_mhz", "of",         LK_DIM_NONE,  0 },
    {"memory_clock_mhz", "memory MHz", LK_DIM_NONE,  0 },
    {"power_w",          "power",      LK_DIM_POWER, 0 },
    {"power_limit_w",    "limit",      LK_DIM_POWER, 0 },
    {"step_energy_j",    "J a step",   LK_DIM_NONE,  1 },
    {"temperature_c",    "hottest C",  LK_DIM_NONE,  0 },
    {"throttled",        "throttled",  LK_DIM_NONE,  3 },
    {"reasons",          "by",         LK_DIM_NONE,  -1},
    {"n",                "samples",    LK_DIM_NONE,  -1},
};

static enum lk_status add_row(const struct lk_analysis *a, size_t k, struct lk_table *t)
{
    const struct lk_analysis_rank *r = &a->ranks[k];
    const struct lk_gpu_summary *g = &r->gpu;
    enum lk_status st = LK_OK;
    char why[LK_GPU_TEXT];

    lk_gpu_throttle_text(g, why);
    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_number(t, "rank", (double)k));
    LK_TRY(lk_table_number(t, "sm_clock_mhz", g->quantity[LK_GPU_SM_CLOCK_MHZ].mean));
    LK_TRY(lk_table_number(t, "sm_clock_min_mhz", g->quantity[LK_GPU_SM_CLOCK_MHZ].min));
    LK_TRY(lk_table_number(t, "sm_clock_max_mhz", g->quantity[LK_GPU_SM_CLOCK_MHZ].max));
    LK_TRY(lk_table_number(t, "sm_clock_top_mhz", r->gpu_max_mhz));
    LK_TRY(lk_table_number(t, "memory_clock_mhz", g->quantity[LK_GPU_MEMORY_CLOCK_MHZ].mean));
    LK_TRY(lk_table_number(t, "power_w", g->power_w));
    LK_TRY(lk_table_number(t, "power_limit_w", r->gpu_limit_w));
    LK_TRY(lk_table_number(t, "step_energy_j", g->power_w * a->step_s));
    LK_TRY(lk_table_number(t, "temperature_c", g->quantity[LK_GPU_TEMPERATURE_C].max));
    LK_TRY(lk_table_number(t, "throttled", g->throttled));
    if (why[0])
        LK_TRY(lk_table_text(t, "reasons", "%s", why));
    LK_TRY(lk_table_number(t, "n", (double)g->n));
out:
    return st;
}

enum lk_status lk_analysis_gpu_table(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    size_t sampled = 0;

    for (size_t k = 0; k < a->run->n; k++)
        sampled += a->ranks[k].gpu.n > 0;
    if (!sampled) {
        *out = NULL;
        return LK_OK;
    }
    LK_TRY(lk_analysis_table_(a, "GPUs", columns, LK_COUNT(columns), &t));
    for (size_t k = 0; k < a->run->n; k++)
        LK_TRY(add_row(a, k, t));
    LK_TRY(lk_table_note(t,
                         "by NVML, while the steps ran; throttled: share of the samples at which "
                         "power, temperature or the hardware held the clock down"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
