/* What nvcc makes of the kernels: docs/gpu.md's table, and stores of 16 bytes (tools/kernels). */
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NVCC LK_CUDA_HOME "/bin/nvcc"

static bool can_run(void)
{
    if (shell_run("command -v python3 > /dev/null && command -v c++filt > /dev/null").code == 0)
        return true;
    skip("no python3 or no c++filt");
    return false;
}

START_TEST(the_table_is_true_and_packs_are_stored_whole)
{
    struct shell_result r;

    if (!can_run())
        return;
    r = shell_run("tools/kernels " NVCC " --check 2>&1");
    ck_assert_msg(r.code == 0, "%s", r.text);
}
END_TEST

/* Stores by assignment, which nvcc splits where a pack's elements were converted one by one. */
static const struct {
    const char *file, *by_assignment, *says;
} splits[] = {
    {"loss", "true", "loss.cu: backward_kernel<8, __nv_bfloat16> stores its packs in parts"},
    {"optim", "sizeof x <= 8",
     "optim.cu: update_kernel<__nv_bfloat16, adamw_step> stores its packs in parts"},
};
enum { N_SPLITS = sizeof splits / sizeof *splits };

START_TEST(a_split_pack_is_found)
{
    struct shell_result r;
    char *dir;

    if (!can_run())
        return;
    dir = scratch_create();
    r = shell_run(
        "root=$PWD && cd '%s' && mkdir kernels && cp $root/kernels/*.cuh $root/kernels/*.h "
        "$root/kernels/%s.cu kernels && ln -s $root/base $root/facts . && "
        "sed -i 's/if constexpr (sizeof x < 8)/if constexpr (%s)/' kernels/ptx.cuh && "
        "printf '<!-- kernels -->\\n<!-- end of kernels -->\\n' > table.md && "
        "$root/tools/kernels " NVCC " --check table.md 2>&1",
        dir, splits[_i].file, splits[_i].by_assignment);
    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(strstr(r.text, splits[_i].says) != NULL, "%s", r.text);
    scratch_remove(dir);
}
END_TEST

SUITE(kernel_table_cuda, tc)
{
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, the_table_is_true_and_packs_are_stored_whole);
    tcase_add_loop_test(tc, a_split_pack_is_found, 0, N_SPLITS);
}
