/* Runs become measures for the doctor; see doctor_measures.h. */
#include "commands/doctor_measures.h"

#include "base/array.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/step_turns.h"

#include <math.h>
#include <stdlib.h>

static void forget(double out[LK_MEASURE_COUNT])
{
    for (int m = 0; m < LK_MEASURE_COUNT; m++)
        out[m] = NAN;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return LK_ORDER(*x, *y);
}

/* Set a time of the lower median rank, and the slowest one's over it; sorts the times of n ranks.
 */
static void measure_ranks(double *times_s, size_t n, enum lk_measure m,
                          double out[LK_MEASURE_COUNT])
{
    qsort(times_s, n, sizeof *times_s, ascending);
    out[m] = times_s[(n - 1) / 2];
    if (n > 1 && out[m] > 0)
        out[LK_MEASURE_SLOWEST] = times_s[n - 1] / out[m];
}

enum lk_status doctor_measure_times(const struct lk_step_times *t, double out[LK_MEASURE_COUNT])
{
    enum lk_status st = LK_OK;
    struct lk_turns u = {0};
    double *means = NULL;

    forget(out);
    LK_TRY(lk_turns_of(t, &u));
    LK_TRY(lk_alloc(&means, u.n_ranks, sizeof *means));
    for (size_t k = 0; k < u.n_ranks; k++)
        means[k] = u.ranks[k].mean_s;
    measure_ranks(means, u.n_ranks, LK_MEASURE_OWN, out);
out:
    free(means);
    lk_turns_fini(&u);
    return st;
}

/* Set how long ranks work: their passes and gaps. Only one of them may show the wait for batches:
 * the loaders of the others go on while these wait for it. */
static enum lk_status measure_work(const struct lk_analysis *a, double out[LK_MEASURE_COUNT])
{
    double *work_s;

    LK_PASS(lk_alloc(&work_s, a->run->n, sizeof *work_s));
    for (size_t k = 0; k < a->run->n; k++) {
        const double *s = a->ranks[k].split.s;

        work_s[k] =
            s[LK_PART_FORWARD] + s[LK_PART_BACKWARD] + s[LK_PART_OPTIMIZER] + s[LK_PART_GAP];
    }
    measure_ranks(work_s, a->run->n, LK_MEASURE_WORK, out);
    free(work_s);
    return LK_OK;
}

/* Return how often each bucket of gradients is reduced in a step; NaN: not known. */
static double reductions(const struct lk_analysis *a)
{
    size_t n = 0, buckets = 0;

    for (size_t i = 0; i < a->n_buckets; i++)
        if (a->buckets[i].bucket >= 0) {
            n += a->buckets[i].n;
            buckets++;
        }
    return buckets ? (double)n / (double)buckets / (double)a->run->n_steps : NAN;
}

static void measure_parts(const struct lk_analysis *a, double out[LK_MEASURE_COUNT])
{
    const struct lk_run *run = a->run;
    bool all = (int)run->n == lk_run_world_size(run) && !lk_run_is_grouped(run), kernels = true;
    double input_s = 0, gap_s = 0, wire_s = 0;

    for (size_t i = 0; i < run->n; i++) {
        const struct lk_step_split *s = &a->ranks[i].split;

        input_s = fmax(input_s, s->s[LK_PART_INPUT]);
        gap_s += s->s[LK_PART_GAP] / (double)run->n;
        wire_s += s->moving_s / (double)run->n;
        kernels = kernels && run->ranks[i].by_kernels;
    }
    out[LK_MEASURE_INPUT] = a->exposure_known ? input_s : NAN;
    out[LK_MEASURE_GAP] = kernels ? gap_s : NAN;
    out[LK_MEASURE_RATE] = lk_run_info_samples(lk_run_about(run)) / a->step_s;
    if (!all)
        out[LK_MEASURE_SLOWEST] = NAN;
    if (!all || run->n == 1)
        return;
    out[LK_MEASURE_WIRE] = wire_s;
    out[LK_MEASURE_REDUCED] = reductions(a);
}

enum lk_status doctor_measure_run(const struct lk_run *run, double out[LK_MEASURE_COUNT])
{
    enum lk_status st = LK_OK;
    struct lk_analysis a = {0};

    forget(out);
    LK_TRY(lk_analyze(run, NULL, 0, &a));
    if (a.exposure_known)
        LK_TRY(measure_work(&a, out));
    measure_parts(&a, out);
out:
    lk_analysis_fini(&a);
    return st;
}
