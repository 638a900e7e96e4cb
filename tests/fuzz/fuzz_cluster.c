/* cluster.json: any bytes are read or refused; what was read costs something or is refused. */
#include "base/cluster.h"
#include "sim/coll_cost.h"
#include "tests/fuzz/fuzz.h"

/* Fits of thousands of points take seconds by design. */
enum { POINTS_MAX = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t bytes[] = {1024, 1 << 20};
    struct lk_cluster c;
    struct lk_cost_model *m;
    struct lk_cost cost[2];

    if (lk_cluster_read(fuzz_file(data, size), &c) != LK_OK)
        return 0;
    if (c.n_points <= POINTS_MAX && lk_cost_model_create(&c, NULL, &m) == LK_OK) {
        (void)lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, 16, 2, bytes, 2, cost);
        lk_cost_model_destroy(m);
    }
    lk_cluster_fini(&c);
    return 0;
}
