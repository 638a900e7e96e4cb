#include "tests/rigs/analyzed.h"

#include <check.h>

enum lk_status analyzed_read(const char *path, struct analyzed *a)
{
    *a = (struct analyzed){0};
    LK_PASS(lk_pipe_ops_read(path, &a->ops));
    LK_PASS(lk_replay_build(&a->ops, &a->replay));
    return lk_pipe_stragglers(&a->replay, -1, &a->s);
}

void analyzed_fini(struct analyzed *a)
{
    lk_pipe_stragglers_fini(&a->s);
    lk_replay_fini(&a->replay);
    lk_pipe_ops_fini(&a->ops);
}

const struct lk_pipe_cause *analyzed_cause(const struct analyzed *a, enum lk_pipe_kind kind,
                                           int number)
{
    for (size_t i = 0; i < a->s.n_causes; i++)
        if (a->s.causes[i].kind == kind && a->s.causes[i].number == number)
            return &a->s.causes[i];
    ck_abort_msg("there is no such cause");
    return NULL;
}
