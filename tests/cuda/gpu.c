/*
 * Each CUDA kernel on a GPU against its definition: test_gpu. Every case runs twice and must give
 * the same bits. In one process without forking, since a child cannot use the CUDA of its parent.
 * Exit 77 where there is no GPU: skipped is not passed.
 */
#include "kernels/cuda.h"
#include "tests/cuda/cases.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_SKIPPED = 77 };

static struct {
    cudaStream_t stream;
    struct lk_cuda_blas *blas;
} gpu;

static void must(cudaError_t e, const char *what)
{
    ck_assert_msg(e == cudaSuccess, "%s: %s", what, cudaGetErrorString(e));
}

static void *gpu_alloc(size_t bytes, const char *name)
{
    void *p = NULL;

    must(cudaMalloc(&p, bytes ? bytes : 1), name);
    return p;
}

static void gpu_free(void *p)
{
    must(cudaFree(p), "cudaFree");
}

static void gpu_copy(void *to, const void *from, size_t bytes)
{
    must(cudaStreamSynchronize(gpu.stream), "kernels before a copy");
    if (bytes > 0)
        must(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

static const struct cuda_machine machine = {.alloc = gpu_alloc, .free = gpu_free, .copy = gpu_copy};

static const enum lk_dtype types[] = {LK_F32, LK_BF16};

START_TEST(agrees_with_its_definition)
{
    const struct cuda_case *c = &cuda_cases[_i / 2];
    struct cuda_rig r = {.machine = &machine, .large = true};
    uint64_t hash = 0;

    ck_assert_msg(lk_cuda_init(&r.cuda, gpu.stream, types[_i % 2], gpu.blas) == LK_OK, "%s",
                  lk_error_text());
    for (int run = 0; run < 2; run++) {
        r.compare = run == 0;
        cuda_case_run(c, &r);
        must(cudaStreamSynchronize(gpu.stream), c->name);
        ck_assert_msg(!r.text[0], "%s %s: %s", c->name, lk_dtype_name(types[_i % 2]), r.text);
        ck_assert_msg(run == 0 || r.hash == hash, "%s: other bits the second time", c->name);
        hash = r.hash;
    }
    printf("%-20s %-9s largest error %.2f of its bound\n", c->name, lk_dtype_name(types[_i % 2]),
           r.worst);
    lk_cuda_fini(&r.cuda);
}
END_TEST

static int count_cases(void)
{
    int n = 0;

    while (cuda_cases[n].name)
        n++;
    return n;
}

/* Why nothing can run here, or NULL. */
static const char *reason_to_skip(void)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);

    if (e != cudaSuccess)
        return cudaGetErrorString(e);
    return n == 0 ? "no GPU" : NULL;
}

int main(void)
{
    const char *reason = reason_to_skip();
    Suite *s = suite_create("CUDA kernels on a GPU");
    TCase *tc = tcase_create("kernels");
    SRunner *runner;
    int failed;

    if (reason) {
        fprintf(stderr, "test_gpu: skipped: %s\n", reason);
        return EXIT_SKIPPED;
    }
    if (cudaStreamCreate(&gpu.stream) != cudaSuccess || lk_cuda_blas_open(&gpu.blas) != LK_OK) {
        fprintf(stderr, "test_gpu: %s\n", lk_error_text());
        return EXIT_FAILURE;
    }
    printf("cuBLASLt: %s\n", lk_cuda_blas_path(gpu.blas));
    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, agrees_with_its_definition, 0, 2 * count_cases());
    runner = srunner_create(s);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    lk_cuda_blas_close(gpu.blas);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
