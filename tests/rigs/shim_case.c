#include "tests/rigs/shim_case.h"

#include "tests/rigs/skip.h"

#include "tests/rigs/shell.h"

#include <check.h>
#include <string.h>

#define NAME(name) #name,
static const char *const cases[] = {CUDA_CASE_LIST(NAME)};
#undef NAME

static const char *const types[CUDA_CASE_TYPES] = {"float32", "bfloat16", "float16"};

void shim_case_run(const char *program, int check, int orders)
{
    const char *name = cases[check / CUDA_CASE_TYPES], *type = types[check % CUDA_CASE_TYPES];
    struct shell_result r = shell_run("%s %s %s %d 2>&1", program, name, type, orders);

    ck_assert_msg(r.code == 0, "%s %s %s: %s", program, name, type, r.text);
    /* The program must report that kernels ran at all. */
    ck_assert_msg(strstr(r.text, "orders alike") && !strstr(r.text, " 0 launches"), "%s %s %s: %s",
                  program, name, type, r.text);
}

START_TEST(is_not_built)
{
    skip("this build has no tests of CUDA kernels on the host");
}
END_TEST

void shim_case_skip(TCase *tc)
{
    tcase_add_test(tc, is_not_built);
}
