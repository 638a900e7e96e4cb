/* Findings about the recording itself: what it lost, what it cost. */
#include "base/array.h"
#include "base/stats.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis_impl.h"
#include "profiler/record/cupti.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double recording_share = 0.01; /* what recording may cost (docs/gpu.md) */

/* Return the median step over ranks and the timed steps that have records, or have none; NaN: too
 * few. Without memory NaN, too: one remark less. */
static double median_step(const struct lk_run *run, bool recorded)
{
    size_t n = recorded ? run->n_steps : run->n_timed - run->n_steps, used = 0;
    double *s = NULL, median = NAN;

    if (n < LK_FINDING_FEW || lk_alloc(&s, n * run->n, sizeof *s) != LK_OK)
        return NAN;
    for (size_t i = 0, next = 0; i < run->n_timed; i++) {
        bool split = next < run->n_steps && run->steps[next] == run->timed[i];

        next += split;
        for (size_t k = 0; split == recorded && k < run->n; k++)
            s[used++] = lk_step_window_s(lk_rank_step(&run->ranks[k], run->timed[i]));
    }
    median = lk_stats_median(s, used);
    free(s);
    return median;
}

double lk_recording_cost_s_(const struct lk_run *run)
{
    return run->n_steps < run->n_timed ? median_step(run, true) - median_step(run, false) : NAN;
}

enum lk_status lk_find_truncated_(struct lk_analysis *a)
{
    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_trace *t = &a->run->traces[k];

        if (t->truncated && lk_run_info_value(&t->info, LK_IMPORT_CONFIG_KEY))
            LK_PASS(lk_finding_add_(a, LK_FINDING_TRUNCATED, (int)k, NAN,
                                    "truncated: the file of %s ends too early; it was read "
                                    "up to there",
                                    lk_rank_text_(a, k).buf));
        else if (t->truncated)
            LK_PASS(lk_finding_add_(
                a, LK_FINDING_TRUNCATED, (int)k, NAN, "truncated: %s did not end by itself%s%s",
                lk_rank_text_(a, k).buf, t->failure ? ": " : "", t->failure ? t->failure : ""));
    }
    return LK_OK;
}

enum lk_status lk_find_lost_spans_(struct lk_analysis *a)
{
    uint64_t dropped = 0;

    for (size_t k = 0; k < a->run->n; k++)
        dropped += a->run->traces[k].dropped;
    if (!dropped)
        return LK_OK;
    return lk_finding_add_(a, LK_FINDING_LOST_SPANS, -1, NAN,
                           "recording: %" PRIu64 " spans were lost to full rings", dropped);
}

/* Report what CUPTI's records cost, if the run's own steps show it. */
enum lk_status lk_find_recording_cost_(struct lk_analysis *a)
{
    double cost = lk_recording_cost_s_(a->run);

    if (!(cost >= recording_share * a->step_s))
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_RECORDING_COST, -1, NAN,
        "recording: the %zu steps with records of kernels take %s (%.1f %%) longer than the "
        "%zu without",
        a->run->n_steps, lk_time_text_(cost).buf, lk_percent_of_step_(a, cost),
        a->run->n_timed - a->run->n_steps);
}

/* Return the last value of a counter in a trace, or 0. */
static double counter(const struct lk_trace *t, const char *name)
{
    double value = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == LK_SPAN_COUNTER &&
            !strcmp(lk_trace_span_name(t, &t->spans[i].span), name))
            value = t->spans[i].span.value;
    return value;
}

/* Report which GPU records are missing from the traces, and why. */
enum lk_status lk_find_gpu_records_(struct lk_analysis *a)
{
    static const struct {
        const char *counter, *what;
    } rows[] = {
#define ROW(field, counter, missing, text) {counter, text},
        LK_CUPTI_COUNT_LIST(ROW)
#undef ROW
    };
    struct lk_run_facts facts;

    LK_PASS(lk_run_facts_read(lk_run_about(a->run), &facts));
    if (facts.no_gpu_records)
        LK_PASS(lk_finding_add_(a, LK_FINDING_GPU_RECORDS, -1, NAN,
                                "GPU records: none, so kernels and copies are not shown: %s",
                                facts.no_gpu_records));
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        double n = 0;

        for (size_t k = 0; *rows[i].what && k < a->run->n; k++)
            n += counter(&a->run->traces[k], rows[i].counter);
        if (n > 0)
            LK_PASS(lk_finding_add_(a, LK_FINDING_GPU_RECORDS, -1, NAN, "GPU records: %.0f %s", n,
                                    rows[i].what));
    }
    return LK_OK;
}
