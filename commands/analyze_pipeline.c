/* The part of `lockstep analyze` for the operations of a pipeline-parallel job. */
#include "base/array.h"
#include "commands/analyze_impl.h"
#include "profiler/pipeline/stragglers.h"

#include <stdlib.h>

/* Return the slowest cause of a kind, of those that the answer names; NULL: it has none that slows.
 */
static const struct lk_pipe_cause *slowest(const struct lk_pipe_stragglers *s,
                                           enum lk_pipe_kind kind)
{
    for (const struct lk_pipe_cause *c = s->causes; c < s->causes + s->n_causes; c++)
        if (c->kind == kind)
            return c->slowdown > 1 ? c : NULL;
    return NULL;
}

static enum lk_status say(const struct lk_pipe_stragglers *s, struct lk_page *page)
{
    const struct lk_pipe_cause *stage = slowest(s, LK_PIPE_BY_STAGE);
    const struct lk_pipe_cause *rank = slowest(s, LK_PIPE_BY_WORKER);
    double slowdown = s->launched_s / s->ideal_s, share = 1 - s->ideal_s / s->launched_s;
    char step[32];

    (void)lk_units_format(LK_DIM_TIME, s->measured_s, step, sizeof step);
    if (share < 0)
        LK_PASS(lk_page_say(page,
                            "Stragglers cost nothing (%.2fx): a step of %s is shorter than its "
                            "typical operations make it (%zu step%s).",
                            slowdown, step, s->n_steps, s->n_steps == 1 ? "" : "s"));
    else
        LK_PASS(
            lk_page_say(page,
                        "Stragglers cost %.2fx: %.0f %% of a step of %s goes to operations that "
                        "take longer than is typical (%zu step%s).",
                        slowdown, 100 * share, step, s->n_steps, s->n_steps == 1 ? "" : "s"));
    if (stage && rank && share > 0)
        LK_PASS(lk_page_say(page,
                            "The slowest are stage %d (alone it costs %.2fx) and rank %d (%.2fx).",
                            stage->number, stage->slowdown, rank->number, rank->slowdown));
    LK_PASS(lk_page_value(page, "straggler_slowdown", "", LK_DIM_NONE, slowdown));
    LK_PASS(lk_page_value(page, "step_s", "", LK_DIM_TIME, s->measured_s));
    return lk_page_value(page, "efficiency", "", LK_DIM_NONE, s->ideal_s / s->launched_s);
}

enum lk_status analyze_pipeline(const char *path, int64_t step, struct lk_page *page)
{
    static const struct lk_view_column step_view[] = {LK_VIEW("meaning"), LK_VIEW("mean_s"),
                                                      LK_VIEW("slowdown"), LK_VIEW("lost")};
    static const struct lk_view_column causes_view[] = {LK_VIEW("by"), LK_VIEW("cause"),
                                                        LK_VIEW("slowdown"), LK_VIEW("share"),
                                                        LK_VIEW("behaviour")};
    enum lk_status st = LK_OK;
    struct lk_table *tables[LK_PIPE_TABLES] = {NULL};
    struct lk_pipe_ops ops = {0};
    struct lk_replay replay = {0};
    struct lk_pipe_stragglers s = {0};

    LK_TRY(lk_pipe_ops_read(path, &ops));
    LK_TRY(lk_replay_build(&ops, &replay));
    LK_TRY(lk_pipe_stragglers(&replay, step, &s));
    LK_TRY(say(&s, page));
    for (int i = 0; i < LK_PIPE_TABLES; i++)
        LK_TRY(lk_pipe_stragglers_table(&s, (enum lk_pipe_table)i, &tables[i]));
    LK_TRY(lk_page_table(page, "stragglers", LK_PAGE_MAIN, step_view, LK_COUNT(step_view),
                         &tables[LK_PIPE_TABLE_STEP]));
    LK_TRY(lk_page_table(page, "slow",
                         tables[LK_PIPE_TABLE_SLOW]->n_rows ? LK_PAGE_MAIN : LK_PAGE_DETAIL,
                         causes_view, LK_COUNT(causes_view), &tables[LK_PIPE_TABLE_SLOW]));
    LK_TRY(lk_page_table(page, "causes", LK_PAGE_DETAIL, NULL, 0, &tables[LK_PIPE_TABLE_CAUSES]));
    LK_TRY(lk_page_table(page, "steps", LK_PAGE_DETAIL, NULL, 0, &tables[LK_PIPE_TABLE_STEPS]));
out:
    for (int i = 0; i < LK_PIPE_TABLES; i++)
        lk_table_destroy(tables[i]);
    lk_pipe_stragglers_fini(&s);
    lk_replay_fini(&replay);
    lk_pipe_ops_fini(&ops);
    return st;
}
