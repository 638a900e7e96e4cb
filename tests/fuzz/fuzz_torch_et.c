/* PyTorch execution traces: the reader, and the sizes that a rank's trace takes from one. */
#include "profiler/import/torch_et.h"

#include "profiler/import/kineto.h"
#include "tests/fuzz/fuzz_events.h"
#include "tests/rigs/kineto_text.h"

#include <string.h>

/* A rank's trace whose gradients and all-reduces have no sizes. */
static const char *unsized(void)
{
    static struct fuzz_file f;
    static const char text[] = HEAD RANGE("ProfilerStep#1", 5, 0, 100)
        OP("autograd::engine::evaluate_function: A", 6, 10, 30)
            OP("torch::autograd::AccumulateGrad", 6, 20, 1)
                OP("torch::autograd::AccumulateGrad", 6, 30, 1) CALL(6, 35, 1, 1)
                    KERNEL("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, 50, 10, 1)
                        CALL(6, 15, 1, 2) KERNEL("bwd", 7, 16, 20, 2) TAIL;

    return fuzz_file_put(&f, text, sizeof text - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_import_rank_options options = {.source = "f", .world_size = 2, .device = -1};
    struct lk_events sizes, e;
    struct lk_trace t;

    if (lk_torch_et_read(fuzz_file(data, size), NULL, &sizes) == LK_OK) {
        fuzz_must(lk_kineto_read(unsized(), NULL, &e));
        lk_events_sort(&e);
        options.sizes = &sizes;
        fuzz_must(lk_import_trace(&e, &options, &t));
        lk_trace_fini(&t);
        lk_events_fini(&e);
    }
    lk_events_fini(&sizes);
    return 0;
}
