/*
 * cluster.json: any bytes are read or refused. An accepted file gives the cost of a collective and
 * a forecast of two ranks, and is written and read again.
 */
#include "facts/cluster.h"
#include "sim/collective/coll_cost.h"
#include "tests/fuzz/fuzz.h"

/* Fits of thousands of points take seconds by design. */
enum { POINTS_MAX = 32 };

static const char job_text[] =
    "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"f\",\n"
    " \"gradients\": [{\"name\": \"a\", \"elements\": 300000, \"dtype\": \"float32\"}],\n"
    " \"compute\": [{\"local_batch\": 8,\n"
    "  \"forward\": {\"value\": 25, \"unit\": \"ms\", \"source\": \"f\"},\n"
    "  \"backward\": {\"value\": 50, \"unit\": \"ms\", \"source\": \"f\"}}]}\n";

static const struct lk_job *job(void)
{
    static struct fuzz_file f;
    static struct lk_job j;

    if (!j.name)
        fuzz_must(lk_job_read(fuzz_file_put(&f, job_text, sizeof job_text - 1), &j));
    return &j;
}

static void cost(const struct lk_cluster *c)
{
    static const uint64_t bytes[] = {1024, 1 << 20};
    struct lk_cost_model *m;
    struct lk_cost out[2];

    if (lk_cost_model_create(c, NULL, NULL, &m) != LK_OK)
        return;
    for (int coll = 0; coll < LK_COLL_MODELLED; coll++)
        (void)lk_cost_eval(m, (enum lk_coll)coll, LK_ALGO_AUTO, 16, 2, bytes, 2, out);
    lk_cost_model_destroy(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_cluster c, again;

    if (lk_cluster_read(fuzz_file(data, size), &c) != LK_OK)
        return 0;
    fuzz_must(lk_cluster_write(fuzz_output(), &c));
    fuzz_must(lk_cluster_read(fuzz_output(), &again));
    lk_cluster_fini(&again);
    if (c.n_points <= POINTS_MAX) {
        cost(&c);
        fuzz_forecast(job(), &c);
    }
    lk_cluster_fini(&c);
    return 0;
}
