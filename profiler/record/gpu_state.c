/* Sums and summaries of samples of a GPU's state, and their text for people. */
#include "profiler/record/gpu_state.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

const struct lk_words lk_gpu_quantity_words = LK_WORDS("a quantity", LK_GPU_QUANTITY_LIST);

const struct lk_words lk_gpu_reason_words = LK_WORDS("a reason", LK_GPU_REASON_LIST);

static const struct {
    uint64_t bit;
    bool throttled;
} reasons[LK_GPU_REASON_COUNT] = {
#define ROW(reason, text, bit, throttled) [reason] = {bit, throttled},
    LK_GPU_REASON_LIST(ROW)
#undef ROW
};

/* NVML's energy counter is updated every few ten milliseconds: over a shorter time than this the
 * quotient is dominated by the updates. */
static const double shortest_energy_s = 1;

static void add_reasons(struct lk_gpu_sums *s, double value)
{
    uint64_t bits = value >= 0 && value < 0x1p53 ? (uint64_t)value : 0;
    bool throttled = false;

    for (size_t i = 0; i < LK_GPU_REASON_COUNT; i++)
        if (bits & reasons[i].bit) {
            s->n_reason[i]++;
            throttled |= reasons[i].throttled;
        }
    s->n_throttled += throttled;
}

void lk_gpu_sums_add(struct lk_gpu_sums *s, enum lk_gpu_quantity q, uint64_t at_ns, double value)
{
    if (isnan(value))
        return;
    if (q == LK_GPU_REASONS)
        add_reasons(s, value);
    if (q == LK_GPU_ENERGY_J) {
        if (s->n[q] == 0) {
            s->first_energy_ns = at_ns;
            s->first_energy_j = value;
        }
        s->last_energy_ns = at_ns;
        s->last_energy_j = value;
    }
    s->min[q] = s->n[q] == 0 ? value : fmin(s->min[q], value);
    s->max[q] = s->n[q] == 0 ? value : fmax(s->max[q], value);
    s->sum[q] += value;
    s->n[q]++;
}

static double share(size_t k, size_t n)
{
    return n > 0 ? (double)k / (double)n : NAN;
}

void lk_gpu_summary(const struct lk_gpu_sums *s, struct lk_gpu_summary *out)
{
    double seconds = 1e-9 * (double)(s->last_energy_ns - s->first_energy_ns);

    *out = (struct lk_gpu_summary){.energy_j = NAN};
    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++) {
        bool known = s->n[q] > 0 && q != LK_GPU_ENERGY_J && q != LK_GPU_REASONS;

        if (s->n[q] > out->n)
            out->n = s->n[q];
        out->quantity[q].mean = known ? s->sum[q] / (double)s->n[q] : NAN;
        out->quantity[q].min = known ? s->min[q] : NAN;
        out->quantity[q].max = known ? s->max[q] : NAN;
    }
    out->power_w = out->quantity[LK_GPU_POWER_W].mean;
    /* The counter restarts when the driver is reloaded. */
    if (s->n[LK_GPU_ENERGY_J] > 1 && s->last_energy_j >= s->first_energy_j) {
        out->energy_j = s->last_energy_j - s->first_energy_j;
        if (seconds >= shortest_energy_s)
            out->power_w = out->energy_j / seconds;
    }
    out->throttled = share(s->n_throttled, s->n[LK_GPU_REASONS]);
    for (size_t i = 0; i < LK_GPU_REASON_COUNT; i++)
        out->reason[i] = share(s->n_reason[i], s->n[LK_GPU_REASONS]);
}

/* Return the commonest throttling reason below share `than`, or at `than` the next after
 * `after`. */
static int next_reason(const struct lk_gpu_summary *s, double than, int after)
{
    int best = -1;

    for (int i = 0; i < LK_GPU_REASON_COUNT; i++) {
        bool left = s->reason[i] < than || (s->reason[i] == than && i > after);

        if (reasons[i].throttled && s->reason[i] > 0 && left &&
            (best < 0 || s->reason[i] > s->reason[best]))
            best = i;
    }
    return best;
}

void lk_gpu_throttle_text(const struct lk_gpu_summary *s, char *out)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = next_reason(s, INFINITY, -1); i >= 0 && used < LK_GPU_TEXT;
         i = next_reason(s, s->reason[i], i))
        used += (size_t)snprintf(out + used, LK_GPU_TEXT - used, "%s%s %.0f %%", used ? ", " : "",
                                 lk_gpu_reason_name((enum lk_gpu_reason)i), 100 * s->reason[i]);
}

void lk_gpu_summary_text(const struct lk_gpu_summary *s, char *out)
{
    char why[LK_GPU_TEXT];
    size_t used = 0;

    (void)snprintf(out, LK_GPU_TEXT, "nothing");
    if (!isnan(s->quantity[LK_GPU_SM_CLOCK_MHZ].mean))
        used += (size_t)snprintf(
            out, LK_GPU_TEXT, "%.0f MHz (%.0f to %.0f)", s->quantity[LK_GPU_SM_CLOCK_MHZ].mean,
            s->quantity[LK_GPU_SM_CLOCK_MHZ].min, s->quantity[LK_GPU_SM_CLOCK_MHZ].max);
    if (!isnan(s->power_w))
        used += (size_t)snprintf(out + used, LK_GPU_TEXT - used, "%s%.0f W", used ? ", " : "",
                                 s->power_w);
    lk_gpu_throttle_text(s, why);
    if (s->throttled > 0)
        (void)snprintf(out + used, LK_GPU_TEXT - used, "%sthrottled %.0f %% of the time (%s)",
                       used ? ", " : "", 100 * s->throttled, why);
    else if (s->throttled == 0)
        (void)snprintf(out + used, LK_GPU_TEXT - used, "%snot throttled", used ? ", " : "");
}
