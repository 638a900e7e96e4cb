/* tests/check_trace.py asks for what two analyses of HTA need of a trace. */
#include "base/array.h"
#include "facts/trace.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_sample.h"

#include <stdlib.h>
#include <string.h>

/*
 * HTA takes times in whole microseconds, rounded inwards: collectives of less than that make its
 * overlap a division by zero; behind computation they leave the copies, of less than that, which
 * make the time of all kernels less than that of computation, which it asserts not to be.
 */
static const struct {
    uint64_t collective_ns, copy_ns;
    const char *said;
} lengths[] = {{299500, 776, ", ok"},
               {300, 776, "no time of communication"},
               {99500, 100, "less time of all kernels than of computation"}};

START_TEST(the_checker_sees_what_hta_cannot_read)
{
    char *path = scratch_path(scratch_dir, "rank0.trace.json.gz");
    struct shell_result r;
    struct lk_trace t;

    lk_trace_sample(&t, 0, 2);
    for (size_t i = 0; i < t.n_spans; i++) {
        struct lk_span *s = &t.spans[i].span;

        if (s->kind == LK_SPAN_COLLECTIVE)
            s->end_ns = s->start_ns + lengths[_i].collective_ns;
        if (s->kind == LK_SPAN_COPY)
            s->end_ns = s->start_ns + lengths[_i].copy_ns;
    }
    must(lk_trace_write(path, &t));
    lk_trace_fini(&t);
    r = shell_run("python3 tests/check_trace.py '%s' 2>&1", path);
    ck_assert_int_eq(r.code, _i > 0);
    ck_assert_msg(strstr(r.text, lengths[_i].said) != NULL, "%s", r.text);
    free(path);
}
END_TEST

SUITE(trace_hta, tc)
{
    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tc, the_checker_sees_what_hta_cannot_read, 0, (int)LK_COUNT(lengths));
}
