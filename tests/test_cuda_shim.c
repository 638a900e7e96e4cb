/*
 * The CUDA kernels on the host (tests/cuda_shim/shim.h): each case under 16 orders of threads, with
 * the same bits in all; and that planted faults are found. The programs are built where there is a
 * C++ compiler with AddressSanitizer, and not in builds that have a sanitizer themselves.
 */
#include "tests/cuda/cases.h"
#include "tests/cuda_shim/planted.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

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

/* Runs a command line; its exit code, and the start of what it printed. */
static int run(const char *line, char *text, size_t bytes)
{
    FILE *f = popen(line, "r");
    size_t n = 0;
    int status;

    ck_assert_ptr_nonnull(f);
    while (n + 1 < bytes && fgets(text + n, (int)(bytes - n), f))
        n += strlen(text + n);
    while (fgetc(f) != EOF) {
    }
    status = pclose(f);
    ck_assert_msg(WIFEXITED(status), "%s: ended by a signal", line);
    return WEXITSTATUS(status);
}

static void run_case(const char *program, int i, int orders)
{
    char line[256], text[2048] = "";

    snprintf(line, sizeof line, "%s %s %s %d 2>&1", program, cases[i / 2], types[i % 2], orders);
    ck_assert_msg(run(line, text, sizeof text) == 0, "%s: %s", line, text);
    /* The program says that kernels ran at all. */
    ck_assert_msg(strstr(text, "orders alike") && !strstr(text, " 0 launches"), "%s: %s", line,
                  text);
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
    char line[256], text[2048];

    for (int seed = 1; seed <= SEEDS; seed++) {
        text[0] = '\0';
        snprintf(line, sizeof line, "%s --plant %s %d 2>&1", program, fault, seed);
        ck_assert_msg((run(line, text, sizeof text) == 0) == !strcmp(fault, "none"), "%s: %s", line,
                      text);
        ck_assert_msg(strstr(text, says) != NULL, "%s says: %s", line, text);
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
