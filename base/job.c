/* The job artefact: its quantities, memory, totals, buckets. job_io.c reads and writes it. */
#include "base/job.h"

#include "base/array.h"
#include "base/job_rows.h"

#include <stdlib.h>

const char *const lk_job_optimizer_names[LK_JOB_OPTIMIZER_COUNT] = {
#define LK_JOB_OPTIMIZER_NAME_(optimizer, name) [optimizer] = name,
    LK_JOB_OPTIMIZER_LIST(LK_JOB_OPTIMIZER_NAME_)
#undef LK_JOB_OPTIMIZER_NAME_
};

const char *const lk_job_recompute_names[LK_JOB_RECOMPUTE_COUNT] = {
#define LK_JOB_RECOMPUTE_NAME_(recompute, name) [recompute] = name,
    LK_JOB_RECOMPUTE_LIST(LK_JOB_RECOMPUTE_NAME_)
#undef LK_JOB_RECOMPUTE_NAME_
};

const struct lk_quantity_row lk_job_root_rows[] = {
    LK_QUANTITY_ROW(struct lk_job, flops_per_sample, "flops_per_sample", LK_DIM_FLOP, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_job, memory_fixed_bytes, "memory_fixed", LK_DIM_BYTES, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_job, memory_per_sample_bytes, "memory_per_sample", LK_DIM_BYTES,
                    OPTIONAL),
    LK_QUANTITY_ROW(struct lk_job, noise_scale, "noise_scale", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_job, target_samples, "target_samples", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_ROW(struct lk_job, learning_rate, "learning_rate", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_job_compute_rows[] = {
    LK_QUANTITY_ROW(struct lk_job_compute, forward_s, "forward", LK_DIM_TIME, REQUIRED),
    LK_QUANTITY_ROW(struct lk_job_compute, backward_s, "backward", LK_DIM_TIME, REQUIRED),
    LK_QUANTITY_ROW(struct lk_job_compute, input_s, "input", LK_DIM_TIME, ZERO),
    LK_QUANTITY_ROW(struct lk_job_compute, optimizer_s, "optimizer", LK_DIM_TIME, ZERO),
    LK_QUANTITY_ROW(struct lk_job_compute, gap_s, "gap", LK_DIM_TIME, ZERO),
    LK_QUANTITY_ROW(struct lk_job_compute, transient, "transient", LK_DIM_NONE, OPTIONAL),
    LK_QUANTITY_END,
};
const struct lk_quantity_row lk_job_layer_rows[] = {
    LK_QUANTITY_ROW(struct lk_job_layer, flops, "flops", LK_DIM_FLOP, REQUIRED),
    LK_QUANTITY_ROW(struct lk_job_layer, bytes, "bytes", LK_DIM_BYTES, OPTIONAL),
    LK_QUANTITY_END,
};

static void run_fini(struct lk_job_run *r)
{
    free(r->source);
    free(r->step_s);
    free(r->rank_compute_s);
}

void lk_job_init(struct lk_job *j)
{
    *j = (struct lk_job){0};
    lk_quantity_rows_clear(lk_job_root_rows, j);
}

void lk_job_fini(struct lk_job *j)
{
    for (size_t i = 0; i < j->n_tensors; i++)
        free(j->tensors[i].name);
    for (size_t i = 0; i < j->n_compute; i++)
        lk_quantity_rows_fini(lk_job_compute_rows, &j->compute[i]);
    for (size_t i = 0; i < j->n_runs; i++)
        run_fini(&j->runs[i]);
    for (size_t i = 0; i < j->n_layers; i++) {
        free(j->layers[i].name);
        lk_quantity_rows_fini(lk_job_layer_rows, &j->layers[i]);
    }
    lk_quantity_rows_fini(lk_job_root_rows, j);
    free(j->sync_bn);
    free(j->layers);
    free(j->tensors);
    free(j->ready_order);
    free(j->compute);
    free(j->runs);
    free(j->name);
    free(j->sample_unit);
    *j = (struct lk_job){0};
}

static uint64_t tensor_bytes(const struct lk_job_tensor *t)
{
    return t->elems * lk_dtype_bytes(t->dtype);
}

uint64_t lk_job_gradient_bytes(const struct lk_job *j)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < j->n_tensors; i++)
        sum += tensor_bytes(&j->tensors[i]);
    return sum;
}

enum lk_status lk_job_bucket_tensors(const struct lk_job *j, struct lk_bucket_tensor **out)
{
    enum lk_status st = LK_OK;
    struct lk_bucket_tensor *v;

    LK_TRY(lk_alloc(&v, j->n_tensors, sizeof *v));
    for (size_t i = 0; i < j->n_tensors; i++)
        v[i] = (struct lk_bucket_tensor){tensor_bytes(&j->tensors[i]), j->tensors[i].dtype};
    *out = v;
out:
    return st;
}

enum lk_status lk_job_buckets(const struct lk_job *j, uint64_t first_bytes, uint64_t cap_bytes,
                              struct lk_bucket_plan *out)
{
    enum lk_status st = LK_OK;
    struct lk_bucket_tensor *tensors = NULL;

    LK_TRY(lk_job_bucket_tensors(j, &tensors));
    LK_TRY(lk_bucket_rebuilt(tensors, j->n_tensors, j->ready_order, first_bytes, cap_bytes, out));
out:
    free(tensors);
    return st;
}

int lk_job_usual_batch(const struct lk_job *j)
{
    int best = j->n_compute ? j->compute[0].local_batch : 1;
    size_t most = 0;

    for (size_t i = 0; i < j->n_compute; i++) {
        size_t n = 0;

        for (size_t r = 0; r < j->n_runs; r++)
            n += j->runs[r].local_batch == j->compute[i].local_batch;
        if (n > most) {
            most = n;
            best = j->compute[i].local_batch;
        }
    }
    return best;
}
