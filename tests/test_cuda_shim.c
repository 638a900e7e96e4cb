/*
 * The CUDA kernels on the host (tests/cuda_shim/shim.h): each case under 16 orders of threads, with
 * the same bits in all; and that planted faults are found. The programs are built where there is a
 * C++ compiler with AddressSanitizer, and not in builds that have a sanitizer themselves.
 */
#include "tests/cuda/cases.h"
#include "tests/cuda_shim/planted.h"
#include "tests/shell.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define RACES  LK_BUILD_DIR "/cuda_shim_races"
#define BOUNDS LK_BUILD_DIR "/cuda_shim_bounds"

enum {
    ORDERS = 16,
    RACE_ORDERS = 2, /* a race is found in any order */
    SEEDS = 2
};

#define NAME(name) #name,
static const char *const cases[] = {CUDA_CASE_LIST(NAME)};
#undef NAME
enum { N_CASES = sizeof cases / sizeof *cases };

static const char *const types[] = {"float32", "bfloat16"};

#define PLANT(fault, races, bounds) {#fault, races, bounds},
static const struct {
    const char *fault, *races, *bounds;
} planted[] = {PLANTED_LIST(PLANT)};
#undef PLANT
enum { N_PLANTED = sizeof planted / sizeof *planted };

static void run_case(const char *program, int i, int orders)
{
    const char *name = cases[i / 2], *type = types[i % 2];
    struct shell_result r = shell_run("%s %s %s %d 2>&1", program, name, type, orders);

    ck_assert_msg(r.code == 0, "%s %s %s: %s", program, name, type, r.text);
    /* The program says that kernels ran at all. */
    ck_assert_msg(strstr(r.text, "orders alike") && !strstr(r.text, " 0 launches"), "%s %s %s: %s",
                  program, name, type, r.text);
}

START_TEST(orders_give_the_same_bits)
{
    run_case(BOUNDS, _i, ORDERS);
}
END_TEST

START_TEST(no_races)
{
    run_case(RACES, _i, RACE_ORDERS);
}
END_TEST

static void find_planted(const char *program, const char *fault, const char *says)
{
    for (int seed = 1; seed <= SEEDS; seed++) {
        struct shell_result r = shell_run("%s --plant %s %d 2>&1", program, fault, seed);

        ck_assert_msg((r.code == 0) == !strcmp(fault, "none"), "%s --plant %s %d: %s", program,
                      fault, seed, r.text);
        ck_assert_msg(strstr(r.text, says) != NULL, "%s --plant %s %d says: %s", program, fault,
                      seed, r.text);
    }
}

START_TEST(planted_faults_are_found)
{
    if (planted[_i].races[0] || _i == 0)
        find_planted(RACES, planted[_i].fault, planted[_i].races);
    if (planted[_i].bounds[0] || _i == 0)
        find_planted(BOUNDS, planted[_i].fault, planted[_i].bounds);
}
END_TEST

Suite *lk_suite_cuda_shim(void);
Suite *lk_suite_cuda_shim(void)
{
    Suite *s = suite_create("cuda_shim");
    TCase *tc = tcase_create("kernels on the host");

    suite_add_tcase(s, tc);
#ifdef LK_HAVE_SHIM
    tcase_add_loop_test(tc, orders_give_the_same_bits, 0, 2 * N_CASES);
    tcase_add_loop_test(tc, no_races, 0, 2 * N_CASES);
    tcase_add_loop_test(tc, planted_faults_are_found, 0, N_PLANTED);
#else
    (void)orders_give_the_same_bits;
    (void)no_races;
    (void)planted_faults_are_found;
    fputs("cuda_shim: skipped: this build has no tests of CUDA kernels on the host\n", stderr);
#endif
    return s;
}
