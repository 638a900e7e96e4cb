/* Which GPUs are whose, in sources of several processes. */
#include "profiler/import/devices.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

enum { LANES = 4 };

/* Lanes of GPUs with so many events: before, the process and the GPU; then the number of the GPU,
 * which one of the processes on it this is, and the process it counts to. */
static const struct {
    const char *name;
    struct {
        int64_t process, device;
        size_t n;
        int64_t want_device, want_place, want_owner;
    } lanes[LANES];
} cases[] = {
    {"one each", {{20, 0, 9, 0, 0, 20}, {30, 1, 9, 1, 0, 30}}},
    {"one process on two", {{20, 0, 9, 0, 0, 20}, {20, 1, 8, 1, 0, 20}}},
    {"two on one", {{30, 0, 9, 0, 1, 30}, {20, 0, 7, 0, 0, 20}}},
    {"two on each of two",
     {{20, 0, 9, 0, 0, 20}, {30, 1, 9, 1, 0, 30}, {40, 0, 9, 0, 1, 40}, {50, 1, 9, 1, 1, 50}}},
    {"a context on another's",
     {{20, 0, 90, 0, 0, 20}, {30, 1, 90, 1, 0, 30}, {30, 0, 1, 0, 0, 20}}},
    {"hardly anything on one that is nobody's", {{20, 0, 90, 0, 0, 20}, {20, 1, 1, 1, 0, -1}}},
    {"as much on two", {{20, 0, 9, 0, 0, 20}, {20, 1, 9, 1, 0, 20}}},
};

START_TEST(gpus_are_settled)
{
    struct lk_events e;
    size_t n = 0;

    must(lk_events_init(&e, NULL));
    for (; n < LANES && cases[_i].lanes[n].n; n++) {
        struct lk_import_event event = {.kind = LK_EVENT_KERNEL};

        must(lk_events_lane(
            &e, cases[_i].lanes[n].device + cases[_i].lanes[n].process * LK_SHARED_DEVICE, 7, true,
            &event.lane));
        e.lanes[event.lane].owner = cases[_i].lanes[n].process;
        for (size_t k = 0; k < cases[_i].lanes[n].n; k++)
            must(lk_events_add(&e, &event));
    }
    must(lk_devices_settle(&e));
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(e.lanes[i].process == cases[_i].lanes[i].want_device +
                                                cases[_i].lanes[i].want_place * LK_SHARED_DEVICE,
                      "%s: lane %zu is of GPU %lld", cases[_i].name, i,
                      (long long)e.lanes[i].process);
        ck_assert_msg(e.lanes[i].owner == cases[_i].lanes[i].want_owner,
                      "%s: lane %zu is of process %lld", cases[_i].name, i,
                      (long long)e.lanes[i].owner);
    }
    lk_events_fini(&e);
}
END_TEST

SUITE(devices, t)
{
    tcase_add_loop_test(t, gpus_are_settled, 0, (int)LK_COUNT(cases));
}
