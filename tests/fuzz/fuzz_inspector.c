/* NCCL Inspector's output, and PyTorch's execution traces: what else the lexer reads. */
#include "profiler/import/nccl_inspector.h"
#include "profiler/import/torch_et.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    struct lk_bench b = {0};
    struct lk_inspector what;
    struct lk_events e;

    if (lk_nccl_inspector_read(&path, 1, &b, &what) == LK_OK &&
        (!b.n_points || !what.n_recorded || !(what.seen > 0)))
        abort();
    lk_bench_fini(&b);
    if (lk_torch_et_read(path, NULL, &e) == LK_OK && e.n_events)
        abort();
    lk_events_fini(&e);
    return 0;
}
