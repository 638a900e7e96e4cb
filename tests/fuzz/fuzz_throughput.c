/* Tables of throughputs: any bytes are read or refused; an accepted table
 * is forecast and validated. */
#include "sim/forecast/backtest.h"
#include "sim/throughput/throughput.h"
#include "tests/fuzz/fuzz.h"

/* Each row is held out in turn: the work grows with their square. */
enum { ROWS_MAX = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 2}, {.count = 64}};
    static const struct lk_throughput_request q = {
        .grid = {.axes[LK_AXIS_GPUS] = {world_sizes, 2}, .level = 0.9}};
    struct lk_throughput_table t = {0};
    struct lk_evidence_source e;
    struct lk_backtests tests;
    struct lk_forecast f;

    if (lk_throughput_read(fuzz_file(data, size), &t) != LK_OK)
        return 0;
    if (t.n <= ROWS_MAX && lk_throughput_evidence(&t, &q, &e) == LK_OK) {
        if (lk_backtest_run(&e, q.grid.level, 0, &tests) == LK_OK)
            lk_backtests_fini(&tests);
        if (lk_forecast_run(&e, &q.grid, &f, NULL) == LK_OK)
            lk_forecast_fini(&f);
        e.ops->close(e.self);
    }
    lk_throughput_fini(&t);
    return 0;
}
