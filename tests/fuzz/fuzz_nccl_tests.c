/* nccl-tests' output, text and JSON, with and without hints. */
#include "profiler/bench_log.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lk_bench_hints hints[] = {
        {0                              },
        { .coll = "all_reduce", .ranks = 4, .nodes = 2, .place = LK_BENCH_OUT_OF_PLACE}
    };

    for (size_t i = 0; i < 2; i++) {
        struct lk_bench b = {0};

        (void)lk_bench_read_nccl_tests(fuzz_file(data, size), &hints[i], &b);
        lk_bench_fini(&b);
    }
    return 0;
}
