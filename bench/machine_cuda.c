/*
 * Describe the machine for a result file: the GPU, and which of CUDA's libraries this program finds
 * at run time, where, and in which version. JSON on stdout. Exit 77 where there is no GPU.
 *
 *     build/bench/machine_cuda
 */
#include "base/array.h"
#include "base/json.h"
#include "base/library.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_SKIPPED = 77 };

/* A library's own word for its version: a number returned, or written where told. */
union version_call {
    size_t (*returned)(void);
    int (*written)(int *);
};
enum how { RETURNED, WRITTEN, NO_NUMBER };
static const struct {
    const char *name;
    const char *files[3];
    struct lk_library_symbol call;
    enum how how;
} libraries[] = {
    {"cublaslt", {"libcublasLt.so.13", "libcublasLt.so.12"}, {"cublasLtGetVersion", 0}, RETURNED},
    {"cudnn", {"libcudnn.so.9"}, {"cudnnGetVersion", 0}, RETURNED},
    {"nccl", {"libnccl.so.2"}, {"ncclGetVersion", 0}, WRITTEN},
    {"cupti", {"libcupti.so.13", "libcupti.so.12"}, {"cuptiGetVersion", 0}, WRITTEN},
    {"nvml", {"libnvidia-ml.so.1"}, {"nvmlInit_v2", 0}, NO_NUMBER},
};

static void put_library(struct lk_json_out *o, size_t i)
{
    struct lk_library_spec spec = {.name = libraries[i].name,
                                   .files = libraries[i].files,
                                   .symbols = &libraries[i].call,
                                   .n_symbols = 1,
                                   .stays = true}; /* some do not expect to be unloaded */
    union version_call call = {0};
    struct lk_library *l = NULL;
    int version = 0;

    lk_json_out_object(o, libraries[i].name);
    if (lk_library_open(&spec, &call, &l) != LK_OK) {
        lk_json_out_text(o, "missing", lk_error_text());
    } else {
        lk_json_out_text(o, "path", lk_library_path(l));
        if (libraries[i].how == RETURNED)
            lk_json_out_int(o, "version", (int64_t)call.returned());
        else if (libraries[i].how == WRITTEN && call.written(&version) == 0)
            lk_json_out_int(o, "version", version);
        lk_library_close(l);
    }
    lk_json_out_close(o);
}

static void put_root(struct lk_json_out *o, const void *ctx)
{
    const struct cudaDeviceProp *p = ctx;
    int driver = 0, runtime = 0, count = 0;

    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetDeviceCount(&count);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "gpu", p->name);
    lk_json_out_int(o, "gpus", count);
    lk_json_out_int(o, "compute_capability", 10 * p->major + p->minor);
    lk_json_out_int(o, "multiprocessors", p->multiProcessorCount);
    lk_json_out_int(o, "memory_bytes", (int64_t)p->totalGlobalMem);
    lk_json_out_int(o, "cuda_of_driver", driver);
    lk_json_out_int(o, "cuda_of_build", runtime);
    lk_json_out_object(o, "libraries");
    for (size_t i = 0; i < LK_COUNT(libraries); i++)
        put_library(o, i);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

int main(void)
{
    struct cudaDeviceProp p;
    int n = 0;

    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0 ||
        cudaGetDeviceProperties(&p, 0) != cudaSuccess) {
        fprintf(stderr, "machine_cuda: skipped: no GPU\n");
        return EXIT_SKIPPED;
    }
    if (lk_json_write("-", put_root, &p) != LK_OK) {
        fprintf(stderr, "machine_cuda: %s\n", lk_error_text());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
