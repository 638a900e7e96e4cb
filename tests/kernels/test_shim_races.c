/* Run the CUDA kernels on the host and find no race between threads; find planted faults. */
#include "tests/cuda_shim/planted.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/shim_case.h"
#include "tests/rigs/suite.h"

#include <string.h>

/* A race is found in any order, as are the planted faults. */
enum { RACE_ORDERS = 1, PLANTED_SEED = 1 };

#define PLANT(fault, races, bounds) {#fault, races, bounds},
static const struct {
    const char *fault, *races, *bounds;
} planted[] = {PLANTED_LIST(PLANT)};
#undef PLANT
enum { N_PLANTED = sizeof planted / sizeof *planted };

/* The kernels of float16 are bfloat16's but for the conversions: threads share the same words. */
enum { RACE_TYPES = CUDA_CASE_TYPES - 1 };

START_TEST(no_races)
{
    shim_case_run(SHIM_RACES, _i / RACE_TYPES * CUDA_CASE_TYPES + _i % RACE_TYPES, RACE_ORDERS);
}
END_TEST

static void find_planted(const char *program, const char *fault, const char *says)
{
    /* The messages are what is looked for; the names of functions take most of the time. */
    struct shell_result r =
        shell_run("ASAN_OPTIONS=symbolize=0 %s --plant %s %d 2>&1", program, fault, PLANTED_SEED);

    ck_assert_msg((r.code == 0) == !strcmp(fault, "none"), "%s --plant %s: %s", program, fault,
                  r.text);
    ck_assert_msg(strstr(r.text, says) != NULL, "%s --plant %s says: %s", program, fault, r.text);
}

START_TEST(planted_faults_are_found)
{
    if (planted[_i].races[0] || _i == 0)
        find_planted(SHIM_RACES, planted[_i].fault, planted[_i].races);
    if (planted[_i].bounds[0] || _i == 0)
        find_planted(SHIM_BOUNDS, planted[_i].fault, planted[_i].bounds);
}
END_TEST

SUITE(shim_races, tc)
{
#ifdef LK_HAVE_SHIM
    tcase_add_loop_test(tc, no_races, 0, SHIM_CASES * RACE_TYPES);
    tcase_add_loop_test(tc, planted_faults_are_found, 0, N_PLANTED);
#else
    (void)tc;
    (void)no_races;
    (void)planted_faults_are_found;
    shim_case_skip(tc);
#endif
}
