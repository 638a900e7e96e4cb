/* How long each rank works in each step; see facts/step_times.h. */
#include "facts/step_times.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

enum lk_status lk_step_times_init(struct lk_step_times *out, size_t n_ranks, size_t n_steps)
{
    *out = (struct lk_step_times){.n_ranks = n_ranks, .n_steps = n_steps};
    LK_PASS(lk_alloc(&out->ranks, n_ranks, sizeof *out->ranks));
    LK_PASS(lk_alloc(&out->hosts, n_ranks, sizeof(char *)));
    LK_PASS(lk_alloc(&out->steps, n_steps, sizeof *out->steps));
    LK_PASS(lk_alloc(&out->own_s, n_ranks * n_steps, sizeof *out->own_s));
    for (size_t i = 0; i < n_ranks * n_steps; i++)
        out->own_s[i] = NAN;
    return LK_OK;
}

void lk_step_times_fini(struct lk_step_times *t)
{
    for (size_t i = 0; t->hosts && i < t->n_ranks; i++)
        free(t->hosts[i]);
    free(t->ranks);
    free(t->hosts);
    free(t->steps);
    free(t->own_s);
    *t = (struct lk_step_times){0};
}
