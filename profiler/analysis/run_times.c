/* The times of a run's ranks; see run_times.h. */
#include "profiler/analysis/run_times.h"

#include "base/array.h"

#include <math.h>
#include <string.h>

/* Return what a rank does by itself in a step: all but collectives that it waits for. */
static double own_s(const struct lk_rank_steps *s, uint32_t number)
{
    const struct lk_step *step = lk_rank_step(s, number);
    struct lk_step_split split;

    if (!step)
        return NAN;
    lk_step_split(s, step, NULL, &split);
    return split.s[LK_PART_FORWARD] + split.s[LK_PART_BACKWARD] + split.s[LK_PART_OPTIMIZER] +
           split.s[LK_PART_INPUT] + split.s[LK_PART_GAP];
}

enum lk_status lk_run_times(const struct lk_run *run, struct lk_step_times *out)
{
    LK_PASS(lk_step_times_init(out, run->n, run->n_steps));
    memcpy(out->steps, run->steps, run->n_steps * sizeof *out->steps);
    for (size_t k = 0; k < run->n; k++) {
        out->ranks[k] = lk_run_rank(run, k);
        LK_PASS(lk_strdup(&out->hosts[k], run->traces[k].info.host));
        for (size_t i = 0; i < run->n_steps; i++)
            out->own_s[k * run->n_steps + i] = own_s(&run->ranks[k], run->steps[i]);
    }
    return LK_OK;
}
