/* CSV: the table, its getters, and the readers of collectives and gradients built on it. */
#include "base/csv.h"
#include "facts/gradients.h"
#include "profiler/import/bench_log.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lk_csv_column columns[] = {{"collective", false}, {"gpus|n_gpus", false}};
    struct lk_bench_hints hints = {0};
    struct lk_bench b = {0};
    struct lk_csv *t;
    struct lk_job job;
    bool timed;
    const char *text;
    int64_t whole;
    double real;

    if (lk_csv_parse("f", (const char *)data, size, columns, 2, LK_CSV_EXTRA, &t) == LK_OK) {
        for (size_t r = 0; r < lk_csv_rows(t); r++)
            for (size_t c = 0; c < 2; c++) {
                (void)lk_csv_text(t, r, c, &text);
                (void)lk_csv_int(t, r, c, 0, 1000, &whole);
                (void)lk_csv_real(t, r, c, -INFINITY, INFINITY, &real);
                (void)lk_csv_quantity(t, r, c, LK_DIM_BYTES, 0, INFINITY, &real);
            }
        lk_csv_free(t);
    }
    (void)lk_bench_read_csv(fuzz_file(data, size), &hints, &b);
    lk_bench_fini(&b);
    if (lk_gradients_read(fuzz_file(data, size), LK_F32, &job, &timed) == LK_OK)
        lk_job_fini(&job);
    return 0;
}
