/* What nvcc makes of the kernels: docs/gpu.md's table, and stores of 16 bytes (tools/kernels). */
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/shim_case.h"
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

/* The shapes of the host's cases alone launch every instance of a kernel; the GPU's are more. */
START_TEST(every_instance_is_tested)
{
#ifdef LK_HAVE_SHIM
    struct shell_result r = shell_run(
        "n=$(sed -n 's/.* instances, \\([0-9]*\\) of them different.*/\\1 instances/p' docs/gpu.md)"
        "; l=$(" SHIM_BOUNDS " --kernels 2>&1); echo \"$n in docs/gpu.md, $l launched\"; "
        "test \"$n\" = \"$l\"");

    ck_assert_msg(r.code == 0, "%s", r.text);
#endif
}
END_TEST

/* A source changed by sed: stores by assignment, which nvcc splits where a pack's elements were
 * converted one by one; a surrogate with the registers of an earlier version. The table is that of
 * other sources. */
#define BY_ASSIGNMENT(when)                                                                        \
    "s/if constexpr (sizeof x < 8)/if constexpr (" when ")/' kernels/ptx.cuh"
static const struct {
    const char *file, *change, *says;
} faults[] = {
    {"loss", BY_ASSIGNMENT("true"),
     "loss.cu: backward_kernel<8, __nv_bfloat16> stores its packs in parts"},
    {"optim", BY_ASSIGNMENT("sizeof x <= 8"),
     "optim.cu: update_kernel<__nv_bfloat16, adamw_step> stores its packs in parts"},
    {"stand_in", "s/KEPT_HOLD = [0-9]*/KEPT_HOLD = 80/' kernels/stand_in.cu",
     "kernels/stand_in.cu: hold: 88 registers a thread, not 96"},
};
enum { N_FAULTS = sizeof faults / sizeof *faults };

START_TEST(a_fault_is_found)
{
    struct shell_result r;
    char *dir;

    if (!can_run())
        return;
    dir = scratch_create();
    r = shell_run(
        "root=$PWD && cd '%s' && mkdir kernels && cp $root/kernels/*.cuh $root/kernels/*.h "
        "$root/kernels/%s.cu kernels && ln -s $root/base $root/facts . && "
        "sed -i '%s && sed -n '/<!-- kernels/,/<!-- end/p' $root/docs/gpu.md > table.md && "
        "$root/tools/kernels " NVCC " --check table.md 2>&1",
        dir, faults[_i].file, faults[_i].change);
    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(strstr(r.text, faults[_i].says) != NULL, "%s", r.text);
    scratch_remove(dir);
}
END_TEST

SUITE(kernel_table_cuda, tc)
{
    tcase_add_test(tc, the_table_is_true_and_packs_are_stored_whole);
    tcase_add_test(tc, every_instance_is_tested);
    tcase_add_loop_test(tc, a_fault_is_found, 0, N_FAULTS);
}
