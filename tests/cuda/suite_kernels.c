/*
 * Compare each CUDA kernel on a GPU with its definition. Every case runs twice
 * and must give the same bits.
 */
#include "kernels/cuda.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/gpu.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

static struct {
    cudaStream_t stream;
    struct lk_cuda_blas *blas;
} gpu;

static void must(cudaError_t e, const char *what)
{
    ck_assert_msg(e == cudaSuccess, "%s: %s", what, cudaGetErrorString(e));
}

static void setup(void)
{
    must(cudaStreamCreate(&gpu.stream), "stream");
    ck_assert_msg(lk_cuda_blas_open(&gpu.blas) == LK_OK, "%s", lk_error_text());
    printf("cuBLASLt: %s\n", lk_cuda_blas_path(gpu.blas));
}

static void teardown(void)
{
    lk_cuda_blas_close(gpu.blas);
    must(cudaStreamDestroy(gpu.stream), "stream");
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

/* Make one test case each: the definitions in float64 take minutes on one processor. */
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
        tcase_add_loop_test(tc, agrees_with_its_definition, 2 * i, 2 * i + 2);
    }
    return s;
}

const struct gpu_suite gpu_suite_kernels = {.make = make, .part = part};
