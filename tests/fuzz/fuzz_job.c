/*
 * job.json: any bytes are read or refused. An accepted file is forecast on two ranks,
 * and written and read again.
 */
#include "facts/job.h"
#include "tests/fuzz/fuzz.h"

/* A forecast takes longer with more of these, by design; the reader has no such limit. */
enum { TENSORS_MAX = 64, ROWS_MAX = 16, STEPS_MAX = 64 };

static const char cluster_text[] =
    "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"name\": \"f\", \"preset\": true,\n"
    " \"nodes\": 0, \"gpus_per_node\": 8, \"gpu\": \"g\",\n"
    " \"device\": {\"flops\": {\"value\": 1, \"unit\": \"Tflop/s\", \"source\": \"f\"},\n"
    "            \"memory\": {\"value\": 8, \"unit\": \"GiB\", \"source\": \"f\"}},\n"
    " \"intra\": {\"latency\": {\"value\": 2, \"unit\": \"us\", \"source\": \"f\"},\n"
    "           \"bandwidth\": {\"value\": 20, \"unit\": \"GB/s\", \"source\": \"f\"}},\n"
    " \"inter\": {\"latency\": {\"value\": 9, \"unit\": \"us\", \"source\": \"f\"},\n"
    "           \"bandwidth\": {\"value\": 1, \"unit\": \"GB/s\", \"source\": \"f\"}}}\n";

static const struct lk_cluster *cluster(void)
{
    static struct fuzz_file f;
    static struct lk_cluster c;

    if (!c.name)
        fuzz_must(lk_cluster_read(fuzz_file_put(&f, cluster_text, sizeof cluster_text - 1), &c));
    return &c;
}

static bool cheap(const struct lk_job *j)
{
    size_t steps = 0;

    for (size_t i = 0; i < j->n_runs; i++)
        steps += j->runs[i].n_steps;
    return j->n_tensors <= TENSORS_MAX && j->n_compute <= ROWS_MAX && j->n_layers <= ROWS_MAX &&
           j->n_sync_bn <= ROWS_MAX && steps <= STEPS_MAX && j->accumulation <= ROWS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_job job, again;

    if (lk_job_read(fuzz_file(data, size), &job) != LK_OK)
        return 0;
    fuzz_must(lk_job_write(fuzz_output(), &job));
    fuzz_must(lk_job_read(fuzz_output(), &again));
    lk_job_fini(&again);
    if (cheap(&job))
        fuzz_forecast(&job, cluster());
    lk_job_fini(&job);
    return 0;
}
