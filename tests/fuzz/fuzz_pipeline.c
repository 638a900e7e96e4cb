/* Operations of a pipeline: the table, its replay, and what its stragglers cost. */
#include "profiler/pipeline/stragglers.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static void use(const struct lk_replay *r)
{
    struct lk_pipe_stragglers s = {0};

    if (lk_pipe_stragglers(r, -1, &s) != LK_OK)
        return;
    if (!(s.ideal_s > 0) || s.n_steps != r->n_steps || !s.n_causes || !isfinite(s.launched_s))
        abort();
    for (int i = 0; i < LK_PIPE_TABLES; i++) {
        struct lk_table *t = NULL;

        fuzz_must(lk_pipe_stragglers_table(&s, (enum lk_pipe_table)i, &t));
        lk_table_destroy(t);
    }
    lk_pipe_stragglers_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_pipe_ops ops = {0};
    struct lk_replay r = {0};

    if (lk_pipe_ops_read(fuzz_file(data, size), &ops) == LK_OK &&
        lk_replay_build(&ops, &r) == LK_OK) {
        if (r.n_steps + r.n_left_out != ops.n_steps || !r.n_groups)
            abort();
        use(&r);
    }
    lk_replay_fini(&r);
    lk_pipe_ops_fini(&ops);
    return 0;
}
