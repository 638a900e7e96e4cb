#include "tests/rigs/kineto_text.h"

#include <check.h>

const char *const kineto_parts[KINETO_PARTS] = {
    HEAD KERNEL("old", 7, 1, 2, 99),
    STEP(7, 0, 10, 20, 30, 40, 45, 50, 55, 60, 70, 80, 85, 104, 110, 1),
    STEP(8, 200, 210, 220, 230, 240, 245, 250, 255, 260, 270, 280, 285, 304, 310, 2),
    TAIL,
};

const struct lk_span *kineto_span(const struct lk_trace *t, enum lk_span_kind kind, uint32_t step,
                                  int32_t index)
{
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == kind && t->spans[i].span.step == step &&
            t->spans[i].span.index == index)
            return &t->spans[i].span;
    ck_abort_msg("no span of kind %d", (int)kind);
    return NULL;
}

void kineto_assert_span(const struct lk_span *s, uint64_t start_us, uint64_t end_us)
{
    const uint64_t base_ns = 1000000000000;

    ck_assert_uint_eq(s->start_ns, base_ns + 1000 * start_us);
    ck_assert_uint_eq(s->end_ns, base_ns + 1000 * end_us);
}
