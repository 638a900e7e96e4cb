/*
 * test_gpu, kernels_cuda and lockstep on the machine that is none (tests/dry/machine.h), where it
 * can be told to be slow or to lack something. All suites of test_gpu run there as a part of
 * check-gpu (test_check_gpu.c); here are faults that they must find.
 */
#include "tests/rigs/suite.h"

#if defined(LK_HAVE_CUDA) && defined(LK_HAVE_CUPTI) && defined(LK_HAVE_NCCL) &&                    \
    defined(LK_HAVE_NVTX)

#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"

#include <stdio.h>
#include <string.h>

static void setup(void)
{
    struct shell_result r;

    scratch_set_up();
    r = shell_run("tests/dry/make_machine '%s/gpu' " LK_BUILD_DIR " 2>&1", scratch_dir);
    ck_assert_msg(r.code == 0, "%s", r.text);
}

/* Run words in the machine's build folder. */
#define ON_MACHINE(words)                                                                          \
    shell_run(". '%s/gpu/environment' && cd '%s/gpu/build' && " words " 2>&1", scratch_dir,        \
              scratch_dir)

static void assert_said(const struct shell_result *r, const char *what)
{
    ck_assert_msg(strstr(r->text, what) != NULL, "no '%s' in:\n%s", what, r->text);
}

/* The kernels' shapes that are not aligned fail, and the suite with them. */
START_TEST(a_product_without_an_algorithm_fails_its_suite)
{
    struct shell_result r = ON_MACHINE("DRY_BLAS_ALIGNMENT=16 ./test_gpu kernels/matmul_forward");

    ck_assert_int_eq(r.code, 1);
    assert_said(&r, "cuBLASLt has no algorithm");
    assert_said(&r, "suite kernels/matmul_forward: 3 checks, 3 failed");
}
END_TEST

/* Rows of 50257 elements of bfloat16 begin at odd words: what is refused is a row, not the end. */
START_TEST(a_refused_product_is_a_row)
{
    struct shell_result r = ON_MACHINE(
        "{ DRY_BLAS_ALIGNMENT=4 bench/kernels_cuda 1; echo exit $?; } | awk '/refused: .*no "
        "algorithm$/ {n++; if ($2 !~ /x50257$/ || $3 != \"bfloat16\") bad++} /^adamw .*float32 / "
        "{after++} /^exit/ {print n, bad + 0, after, $2}'");

    ck_assert_str_eq(r.text, "3 0 1 0\n");
}
END_TEST

/* CUDA takes its time to start. */
START_TEST(a_slow_start_is_waited_for)
{
    struct shell_result r = ON_MACHINE("DRY_START_S=1000 timeout 1 ./test_gpu kernels/gelu");

    ck_assert_int_eq(r.code, 124);
    r = ON_MACHINE("DRY_LIBRARY_S=1000 timeout 1 ./test_gpu kernels/gelu");
    ck_assert_int_eq(r.code, 124);
    r = ON_MACHINE("DRY_START_S=0.01 DRY_LIBRARY_S=0.01 ./test_gpu kernels/gelu");
    ck_assert_msg(r.code == 0, "%s", r.text);
}
END_TEST

/* A trace has all kernels of an op: a norm's backward pass is two, its forward pass is one. */
START_TEST(an_op_may_be_several_kernels)
{
    struct shell_result r = ON_MACHINE(
        "./lockstep run --device=cuda -n 1 --model gpt-nano --fuse none --graph=no --warmup 0 "
        "--steps 4 --gpu-records=yes --gpu-record-steps 100 --out run > log 2>&1 && for k in "
        "forward backward; do zcat run/*/rank0.trace.json.gz | grep -c '\"cat\": \"kernel\", "
        "\"name\": \"layernorm_'$k; done | tr '\\n' ' ' || cat log");
    int forward = 0, backward = 0;

    ck_assert_msg(sscanf(r.text, "%d %d", &forward, &backward) == 2, "%s", r.text);
    ck_assert_int_gt(forward, 0);
    ck_assert_msg(backward == 2 * forward, "%d forward, %d backward", forward, backward);
}
END_TEST

SUITE(dry_gpu, c)
{
    tcase_add_checked_fixture(c, setup, scratch_tear_down);
    tcase_add_test(c, a_product_without_an_algorithm_fails_its_suite);
    tcase_add_test(c, a_refused_product_is_a_row);
    tcase_add_test(c, a_slow_start_is_waited_for);
    tcase_add_test(c, an_op_may_be_several_kernels);
}

#else

SUITE(dry_gpu, c)
{
    (void)c;
}

#endif
