/* Plans as tables: the memory of a GPU, and what fits on which. */
#include "sim/plan_state.h"

#include "base/array.h"
#include "base/units.h"
#include "sim/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SCHEME_COLUMN(name)                                                                        \
    {                                                                                              \
        name "_bytes", name, LK_DIM_BYTES, -1                                                      \
    }
static const struct lk_column memory_columns[] = {
    {"part", "part", LK_DIM_NONE, -1},
    SCHEME_COLUMN("ddp"),
    SCHEME_COLUMN("zero1"),
    SCHEME_COLUMN("zero2"),
    SCHEME_COLUMN("zero3"),
};
#undef SCHEME_COLUMN

enum { N_SCHEMES = 4 };
static const enum lk_sharding memory_schemes[N_SCHEMES] = {LK_SHARDING_DDP, LK_SHARDING_ZERO1,
                                                           LK_SHARDING_ZERO2, LK_SHARDING_ZERO3};

static enum lk_status memory_row(struct lk_table *t, const char *part, const double v[N_SCHEMES])
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "part", "%s", part));
    for (int s = 0; s < N_SCHEMES; s++)
        LK_TRY(lk_table_number(t, memory_columns[1 + s].name, v[s]));
out:
    return st;
}

static enum lk_status memory_notes(struct lk_table *t, double device_bytes,
                                   const struct lk_memory m[N_SCHEMES])
{
    enum lk_status st = LK_OK;
    char size[32];

    if (isnan(device_bytes))
        return lk_table_note(t, "what fits: --device-memory, or \"memory\" of \"device\" in the "
                                "cluster file, says what a GPU has");
    lk_units_format(LK_DIM_BYTES, device_bytes, size, sizeof size);
    for (int s = 0; s < N_SCHEMES; s++) {
        int batch = lk_memory_largest_batch(&m[s], device_bytes, false);
        int sure = lk_memory_largest_batch(&m[s], device_bytes, true);

        LK_TRY(lk_table_note(t, "%s fits in %s: %s", lk_sharding_name(memory_schemes[s]), size,
                             lk_memory_fit_name(lk_memory_fit(&m[s], device_bytes))));
        if (batch > 0)
            LK_TRY(lk_table_note(t, "%s: largest local batch %d, surely %d",
                                 lk_sharding_name(memory_schemes[s]), batch, sure));
    }
out:
    return st;
}

enum lk_status lk_plan_memory_table(const struct lk_job *job, const struct lk_cluster *cluster,
                                    const struct lk_plan_request *request,
                                    const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_config c = lk_config_of_point(&f->points[0], job);
    double device_bytes = lk_plan_input(request->device_bytes, &cluster->device.memory_bytes).value;
    struct lk_memory m[N_SCHEMES];
    struct lk_table *t = NULL;
    double v[N_SCHEMES];
    char title[128];

    for (int s = 0; s < N_SCHEMES; s++) {
        c.sharding = memory_schemes[s];
        lk_memory_of(job, &c, &m[s]);
    }
    snprintf(title, sizeof title, "Memory of a GPU: %d GPUs, local batch %d", c.gpus,
             c.local_batch);
    LK_TRY(lk_table_create(title, memory_columns, LK_COUNT(memory_columns), &t));
    for (int r = 0; r < LK_MEMORY_COUNT; r++) {
        for (int s = 0; s < N_SCHEMES; s++)
            v[s] = m[s].rows[r].value;
        LK_TRY(memory_row(t, lk_memory_text((enum lk_memory_row)r), v));
    }
#define TOTAL_ROW(text, bound)                                                                     \
    for (int s = 0; s < N_SCHEMES; s++)                                                            \
        v[s] = isfinite(m[s].total.bound) ? m[s].total.bound : NAN;                                \
    LK_TRY(memory_row(t, text, v));
    TOTAL_ROW("total", value)
    TOTAL_ROW("from", lo)
    TOTAL_ROW("to", hi)
#undef TOTAL_ROW
    LK_TRY(memory_notes(t, device_bytes, m));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

static const struct lk_column device_columns[] = {
    {"gpu",           "GPU",            LK_DIM_NONE,  -1},
    {"device_bytes",  "memory",         LK_DIM_BYTES, -1},
    {"memory_fit",    "fits",           LK_DIM_NONE,  -1},
    {"largest_batch", "largest batch",  LK_DIM_NONE,  -1},
    {"fits_with",     "would fit with", LK_DIM_NONE,  -1},
};

/* Was this GPU, with this memory, in an earlier cluster? */
static bool seen_before(const struct lk_cluster *clusters, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(clusters[k].gpu, clusters[i].gpu) &&
            lk_quantity_known(&clusters[k].device.memory_bytes) &&
            clusters[k].device.memory_bytes.value == clusters[i].device.memory_bytes.value)
            return true;
    return false;
}

static enum lk_status device_row(struct lk_table *t, const struct lk_job *job,
                                 const struct lk_config *c, const struct lk_cluster *cluster)
{
    enum lk_status st = LK_OK;
    struct lk_plan plan = lk_plan_none;
    double device_bytes = cluster->device.memory_bytes.value;

    lk_plan_set_memory(job, c, device_bytes, &plan);
    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "gpu", "%s", cluster->gpu));
    LK_TRY(lk_table_number(t, "device_bytes", device_bytes));
    LK_TRY(lk_table_text(t, "memory_fit", "%s", plan.memory_fit));
    LK_TRY(lk_table_number(t, "largest_batch", plan.largest_batch));
    if (*plan.fits_with)
        LK_TRY(lk_table_text(t, "fits_with", "%s", plan.fits_with));
out:
    return st;
}

enum lk_status lk_plan_device_table(const struct lk_job *job, const struct lk_cluster *clusters,
                                    size_t n, const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_config c = lk_config_of_point(&f->points[0], job);
    struct lk_table *t = NULL;
    char title[128];

    snprintf(title, sizeof title, "What fits on which GPU: plain data parallelism, local batch %d",
             c.local_batch);
    *out = NULL;
    LK_TRY(lk_table_create(title, device_columns, LK_COUNT(device_columns), &t));
    for (size_t i = 0; i < n; i++)
        if (lk_quantity_known(&clusters[i].device.memory_bytes) && !seen_before(clusters, i))
            LK_TRY(device_row(t, job, &c, &clusters[i]));
    if (t->n_rows) {
        *out = t;
        t = NULL;
    }
out:
    lk_table_destroy(t);
    return st;
}
