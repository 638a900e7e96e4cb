/*
 * Compare each CUDA kernel on a GPU with its definition. Every case runs twice
 * and must give the same bits.
 */
#include "kernels/cuda.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/gpu_machine.h"

#include <stdio.h>
#include <stdlib.h>

static struct lk_cuda_blas *blas;

static void setup(void)
{
    gpu_machine_open();
    ck_assert_msg(lk_cuda_blas_open(&blas) == LK_OK, "%s", lk_error_text());
    printf("cuBLASLt: %s\n", lk_cuda_blas_path(blas));
}

static void teardown(void)
{
    lk_cuda_blas_close(blas);
    gpu_machine_close();
}

START_TEST(agrees_with_its_definition)
{
    const struct cuda_case *c = &cuda_cases[_i / CUDA_CASE_TYPES];
    const enum lk_dtype real = cuda_case_types[_i % CUDA_CASE_TYPES];
    struct cuda_rig r = {.machine = &gpu_machine, .large = !getenv("LK_SMALL_SHAPES")};
    uint64_t hash = 0;

    ck_assert_msg(lk_cuda_init(&r.cuda, gpu_machine_stream(), real, blas) == LK_OK, "%s",
                  lk_error_text());
    for (int run = 0; run < 2; run++) {
        r.compare = run == 0;
        cuda_case_run(c, &r);
        gpu_machine_sync(c->name);
        ck_assert_msg(!r.text[0], "%s %s: %s", c->name, lk_dtype_name(real), r.text);
        ck_assert_msg(run == 0 || r.hash == hash, "%s: other bits the second time", c->name);
        hash = r.hash;
    }
    printf("%-20s %-9s largest error %.2f of its bound\n", c->name, lk_dtype_name(real), r.worst);
    lk_cuda_fini(&r.cuda);
}
END_TEST

/* Make one test case each: together, the definitions in float64 take long on one processor. */
static const char *part(int i)
{
    return cuda_cases[i].name;
}

static Suite *make(void)
{
    Suite *s = suite_create("CUDA kernels on a GPU");

    for (int i = 0; part(i); i++) {
        TCase *tc = tcase_create(part(i));

        suite_add_tcase(s, tc);
        tcase_add_unchecked_fixture(tc, setup, teardown);
        tcase_add_loop_test(tc, agrees_with_its_definition, CUDA_CASE_TYPES * i,
                            CUDA_CASE_TYPES * (i + 1));
    }
    return s;
}

const struct gpu_suite gpu_suite_kernels = {.make = make, .part = part};
