/* Short names of kernels, for names by nvcc, cuBLAS and NCCL. */
#include "profiler/record/cupti_names.h"

#include "base/array.h"
#include "tests/rigs/suite.h"

#include <string.h>

static const struct {
    const char *symbol, *name;
} rows[] = {
    {"_Z16gelu_forward_gpuIfEvPT_PKS0_m", "gelu_forward_gpu"},
    {"_Z4waitm", "wait"},
    {"_ZL8internalPf", "internal"},
    {"_ZN7cutlass6KernelI4TypeEEvNT_6ParamsE", "cutlass::Kernel"},
    {"_ZN2at6native13reduce_kernelILi512EEEvT_", "at::native::reduce_kernel"},
    {"_ZN12_GLOBAL__N_16kernelEPf", "kernel"},
    {"_ZN51_INTERNAL_00000000_8_thing_cu_00000000_0000_0000_006kernelEPf", "kernel"},
    {"_ZN3cub17CUB_200500_900_NS6kernelEv", "cub::CUB_200500_900_NS::kernel"},
    {"_ZNSt6vectorIfE4pushEv", "vector"},
    {"__nv_static_22__8_thing_cu_00000000_Z5innerPf", "inner"},
    {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"},
    {"void scope::kernel<float, 2>(float *, long)", "scope::kernel"},
    {"kernel(float *)", "kernel"},
    {"void at::native::(anonymous namespace)::max_pool<float, int>(int)", "at::native::max_pool"},
    {"(anonymous namespace)::kernel(int)", "kernel"},
    {"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
     "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
    {"_Z", "_Z"},
    {"_Z99short", "_Z99short"},
    {"_Z0", "_Z0"},
    {"_Z99999999999999999999x", "_Z99999999999999999999x"},
    {"_ZN", "_ZN"},
    {"<lambda>", "<lambda>"},
    {"", ""},
};

START_TEST(names_are_short)
{
    char name[96];

    lk_kernel_name(rows[_i].symbol, name, sizeof name);
    ck_assert_str_eq(name, rows[_i].name);
}
END_TEST

/* At every buffer size the name fits, and the bytes after it are untouched. */
START_TEST(names_fit)
{
    static const char whole[] = "cutlass::Kernel";

    for (size_t size = 1; size <= sizeof whole; size++) {
        char name[sizeof whole + 1];

        memset(name, '#', sizeof name);
        lk_kernel_name("_ZN7cutlass6KernelI4TypeEEvNT_6ParamsE", name, size);
        ck_assert_uint_lt(strlen(name), size);
        ck_assert(!strncmp(name, whole, strlen(name)));
        ck_assert_int_eq(name[size], '#');
    }
}
END_TEST

SUITE(kernel_name, tc)
{
    tcase_add_loop_test(tc, names_are_short, 0, (int)LK_COUNT(rows));
    tcase_add_test(tc, names_fit);
}
