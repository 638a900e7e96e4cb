/*
 * nccl-tests' output, text and JSON, with and without hints. The points read are
 * fitted, as in `lockstep import`.
 */
#include "profiler/import/bench_log.h"
#include "sim/collective/alpha_beta_fit.h"
#include "tests/fuzz/fuzz.h"

/* Fits of thousands of points take seconds by design. */
enum { POINTS_MAX = 32 };

static void fit(struct lk_bench *b)
{
    struct lk_cluster c;

    lk_cluster_init(&c);
    c.points = b->points;
    c.n_points = b->n_points;
    b->points = NULL;
    b->n_points = b->capacity = 0;
    (void)lk_alpha_beta_fit_cluster(&c, 1);
    lk_cluster_fini(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lk_bench_hints hints[] = {
        {0}, {.coll = "all_reduce", .ranks = 4, .nodes = 2, .place = LK_BENCH_OUT_OF_PLACE}};

    for (size_t i = 0; i < 2; i++) {
        struct lk_bench b = {0};

        if (lk_bench_read_log(fuzz_file(data, size), &hints[i], &b) == LK_OK &&
            b.n_points <= POINTS_MAX)
            fit(&b);
        lk_bench_fini(&b);
    }
    return 0;
}
