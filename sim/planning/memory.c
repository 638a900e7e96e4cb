/* This file computes the memory of one GPU. */
#include "sim/planning/memory.h"

#include "base/array.h"
#include "base/units.h"
#include "base/words.h"
#include "facts/bounds.h"
#include "sim/planning/economics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const row_texts[LK_MEMORY_COUNT] = {
#define LK_MEMORY_ROW_(row, text) [row] = (text),
    LK_MEMORY_LIST(LK_MEMORY_ROW_)
#undef LK_MEMORY_ROW_
};

static const char *const fit_names[] = {LK_MEMORY_FIT_LIST(LK_WORD_NAME)};

/* Values that an optimizer keeps for each parameter. torch.optim: SGD, SGD with momentum, Adam(W);
 * LARS has a momentum, LAMB what Adam has.
 */
static const struct {
    double value, lo, hi;
} states_of[LK_JOB_OPTIMIZER_COUNT] = {
    [LK_JOB_OPTIMIZER_UNKNOWN] = {2, 0, 2},  [LK_JOB_OPTIMIZER_SGD] = {0, 0, 0},
    [LK_JOB_OPTIMIZER_MOMENTUM] = {1, 1, 1}, [LK_JOB_OPTIMIZER_ADAM] = {2, 2, 2},
    [LK_JOB_OPTIMIZER_ADAMW] = {2, 2, 2},    [LK_JOB_OPTIMIZER_LARS] = {1, 1, 1},
    [LK_JOB_OPTIMIZER_LAMB] = {2, 2, 2},
};

/*
 * X(name, value, lo, hi, source): the memory that a job takes beside its tensors, assumed where it
 * was not measured.
 */
#define ASSUMED_LIST(X)                                                                            \
    X(ASSUMED_CONTEXT, 0.8e9, 0.4e9, 1.4e9,                                                        \
      "CUDA context and kernels 0.8 GB (0.4 to 1.4): 781 MB in pytorch/pytorch#34323")             \
    X(ASSUMED_COLLECTIVES, 0.6e9, 0.1e9, 1.6e9,                                                    \
      "NCCL's buffers 0.6 GB (0.1 to 1.6): 1.6 GB in NVIDIA/nccl#864")                             \
    X(ASSUMED_FRAGMENTS, 0.05, 0, 0.1,                                                             \
      "5 % fragmentation (0 to 10): the ZeRO paper saw 30 % at worst")
/* Bounds of a transformer's activations over the formula, which leaves parts out, and of which
 * fused kernels save some. */
#define SHAPE_LO 0.8
#define SHAPE_HI 1.2

enum { ASSUMED_LIST(LK_WORD_VALUE) ASSUMED_COUNT };

static const struct {
    double value, lo, hi;
} assumed[ASSUMED_COUNT] = {
#define ASSUMED_ROW_(name, value, lo, hi, source) [name] = {value, lo, hi},
    ASSUMED_LIST(ASSUMED_ROW_)
#undef ASSUMED_ROW_
};

const char *lk_memory_assumed(void)
{
#define ASSUMED_TEXT_(name, value, lo, hi, source) "; " source
    return "assumed" ASSUMED_LIST(ASSUMED_TEXT_);
#undef ASSUMED_TEXT_
}

const char *lk_memory_fit_name(enum lk_memory_fit f)
{
    return fit_names[f];
}

static struct lk_estimate scaled(struct lk_estimate e, double factor)
{
    return (struct lk_estimate){e.value * factor, e.lo * factor, e.hi * factor, e.n};
}

/* Return the sum of the first n rows; those that are not known count as 0. */
static struct lk_estimate sum_of(const struct lk_memory *m, int n)
{
    struct lk_estimate sum = {0};

    for (int r = 0; r < n; r++) {
        if (isnan(m->rows[r].value))
            continue;
        sum.value += m->rows[r].value;
        sum.lo += m->rows[r].lo;
        sum.hi += m->rows[r].hi;
    }
    return sum;
}

/* Bytes of all parameters and gradients of the job, and of one value of the optimizer for each. */
struct tensors {
    double parameters, gradients, values, master, largest;
};

static struct tensors add_tensors(const struct lk_job *j, const struct lk_config *c)
{
    struct tensors t = {0};

    for (size_t i = 0; i < j->n_tensors; i++) {
        double elems = (double)j->tensors[i].elems;
        double own = (double)lk_dtype_bytes(j->tensors[i].dtype);
        double given = (double)lk_grad_dtype_bytes(c->grad_dtype);
        double gradient = given > 0 ? given : own;
        double parameter = j->master_weights ? fmin(gradient, 2) : gradient;

        t.parameters += elems * parameter;
        t.gradients += elems * gradient;
        t.master += j->master_weights ? elems * 4 : 0;
        t.values += elems * (j->master_weights ? 4 : parameter);
        t.largest = fmax(t.largest, elems * gradient);
    }
    return t;
}

/*
 * Units at work in a sharded step: FSDP gathers a unit's parameters while the one before computes,
 * and holds the unit's whole gradient until it is reduced. A unit is taken to be as large as a
 * bucket may be, or as the largest tensor.
 */
static double units_bytes(const struct lk_config *c, const struct tensors *t)
{
    double unit = fmax(t->largest, fmin((double)c->cap_bytes, t->gradients));
    bool parameters = lk_sharding_traits(c->sharding)->parameters;

    return parameters ? 2 * unit * t->parameters / t->gradients + unit : unit;
}

static void set_states(const struct lk_job *j, const struct lk_config *c, struct lk_memory *m)
{
    const struct lk_sharding_traits *s = lk_sharding_traits(c->sharding);
    struct tensors t = add_tensors(j, c);
    double n = lk_config_sharers(c), copies = s->copies;
    double keep = s->states ? 1 / n : 1;
    bool view = j->gradient_as_bucket_view;
    bool reduced = s->buckets || c->shard_group > 1;
    bool feedback = c->compression == LK_COMPRESSION_POWERSGD;

    m->rows[LK_MEMORY_PARAMETERS] = lk_economics_known(t.parameters / (s->parameters ? n : 1));
    m->rows[LK_MEMORY_GRADIENTS] =
        lk_economics_known(t.gradients / (s->gradients && !lk_config_keeps_gradients(c) ? n : 1));
    m->rows[LK_MEMORY_BUCKETS] = lk_economics_known(
        (reduced && !s->units && !view && lk_config_replicas(c) > 1 ? t.gradients : 0) +
        (feedback ? t.gradients : 0) + c->staleness * t.gradients);
    m->rows[LK_MEMORY_MASTER] = lk_economics_known(t.master * keep);
    m->rows[LK_MEMORY_STATES] =
        (struct lk_estimate){t.values * (states_of[j->optimizer].value * keep + copies),
                             t.values * (states_of[j->optimizer].lo * keep + copies),
                             t.values * (states_of[j->optimizer].hi * keep + copies), 0};
    m->rows[LK_MEMORY_GATHERED] = lk_economics_known(s->units && n > 1 ? units_bytes(c, &t) : 0);
    m->optimizer_assumed = j->optimizer == LK_JOB_OPTIMIZER_UNKNOWN;
}

double lk_memory_transformer_bytes(const struct lk_job_transformer *t)
{
    double s = t->sequence, h = t->hidden, w = t->activation_bytes;
    double linear = s * h * (16 * w + 2), scores = (2 * w + 1) * t->heads * s * s;
    double ends = s * h + 2 * w * s * h + 4 * s * t->vocabulary;

    switch (t->recompute) {
    case LK_JOB_RECOMPUTE_SELECTIVE:
        return t->layers * linear + ends;
    case LK_JOB_RECOMPUTE_FULL:
        return t->layers * w * s * h + linear + scores + ends;
    default:
        return t->layers * (linear + scores) + ends;
    }
}

/*
 * Activations of a sample: measured, else by the shape of a transformer, else from what layers
 * move. What a layer keeps for backward it wrote once in forward and reads once
 * in backward: at most half of what it moves; with recomputation none. Half of that is the
 * estimate.
 */
static void set_activations(const struct lk_job *j, const struct lk_config *c, struct lk_memory *m)
{
    double moved = 0;
    bool known = j->n_layers > 0;

    m->per_sample = lk_economics_unknown();
    if (lk_quantity_known(&j->memory_per_sample_bytes)) {
        m->per_sample = lk_economics_input(0, &j->memory_per_sample_bytes);
    } else if (j->transformer.layers) {
        double bytes = lk_memory_transformer_bytes(&j->transformer);

        m->per_sample = (struct lk_estimate){bytes, SHAPE_LO * bytes, SHAPE_HI * bytes, 0};
        m->activations_of_shape = true;
    } else {
        for (size_t i = 0; i < j->n_layers; i++) {
            known &= lk_quantity_known(&j->layers[i].bytes);
            moved += j->layers[i].bytes.value;
        }
        if (known) {
            m->per_sample = (struct lk_estimate){moved / 4, 0, moved / 2, 0};
            m->activations_assumed = true;
        }
    }
    m->rows[LK_MEMORY_ACTIVATIONS] = scaled(m->per_sample, c->local_batch);
}

/* The measured fixed part less the states of plain DDP is the runtime's, at any sharding. */
static void set_runtime_measured(const struct lk_job *j, const struct lk_config *c,
                                 struct lk_memory *m)
{
    struct lk_estimate fixed = lk_economics_input(0, &j->memory_fixed_bytes), states, *row;
    struct lk_config plain = *c;
    struct lk_memory ddp = {0};

    plain.sharding = LK_SHARDING_DDP;
    plain.grad_dtype = LK_GRAD_OWN;
    plain.compression = LK_COMPRESSION_NONE;
    set_states(j, &plain, &ddp);
    states = sum_of(&ddp, LK_MEMORY_ACTIVATIONS);
    row = &m->rows[LK_MEMORY_RUNTIME];
    row->value = fmax(0, fixed.value - states.value);
    row->lo = fmin(row->value, fmax(0, fixed.lo - states.hi));
    row->hi = fmax(row->value, fixed.hi - states.lo);
}

static void set_runtime_assumed(const struct lk_config *c, struct lk_memory *m)
{
    struct lk_estimate rest = sum_of(m, LK_MEMORY_RUNTIME);

#define PART(bound)                                                                                \
    (assumed[ASSUMED_CONTEXT].bound +                                                              \
     (c->world_size > 1 ? assumed[ASSUMED_COLLECTIVES].bound : 0) +                                \
     assumed[ASSUMED_FRAGMENTS].bound * rest.bound)
    m->rows[LK_MEMORY_RUNTIME] = (struct lk_estimate){PART(value), PART(lo), PART(hi), 0};
#undef PART
    m->runtime_assumed = true;
}

void lk_memory_of(const struct lk_job *j, const struct lk_config *c, struct lk_memory *out)
{
    struct lk_memory m = {0};

    set_states(j, c, &m);
    set_activations(j, c, &m);
    if (lk_quantity_known(&j->memory_fixed_bytes))
        set_runtime_measured(j, c, &m);
    else
        set_runtime_assumed(c, &m);
    m.total = sum_of(&m, LK_MEMORY_COUNT);
    if (isnan(m.per_sample.value))
        m.total.hi = INFINITY;
    *out = m;
}

double lk_memory_checkpoint_bytes(const struct lk_job *j, const struct lk_config *c)
{
    struct tensors t = add_tensors(j, c);

    return t.parameters + t.master + t.values * states_of[j->optimizer].value;
}

enum lk_memory_fit lk_memory_fit(const struct lk_memory *m, double device_bytes)
{
    if (m->total.value > device_bytes)
        return LK_MEMORY_TOO_LARGE;
    if (isinf(m->total.hi))
        return LK_MEMORY_FIT_UNKNOWN;
    return m->total.hi > device_bytes ? LK_MEMORY_TIGHT : LK_MEMORY_FITS;
}

int lk_memory_largest_batch(const struct lk_memory *m, double device_bytes, bool surely)
{
    double sample = surely ? m->per_sample.hi : m->per_sample.value, rest, n;
    double fragments = surely ? assumed[ASSUMED_FRAGMENTS].hi : assumed[ASSUMED_FRAGMENTS].value;
    const struct lk_estimate *held = &m->rows[LK_MEMORY_ACTIVATIONS];

    if (isnan(sample))
        return -1;
    if (m->runtime_assumed)
        sample *= 1 + fragments;
    rest = surely ? m->total.hi - held->hi * (m->runtime_assumed ? 1 + fragments : 1)
                  : m->total.value - held->value * (m->runtime_assumed ? 1 + fragments : 1);
    if (device_bytes < rest)
        return 0;
    n = floor((device_bytes - rest) / sample * (1 + 1e-12));
    return n < LK_BATCH_MAX ? (int)n : LK_BATCH_MAX;
}

bool lk_memory_sharding_that_fits(const struct lk_job *j, const struct lk_config *c,
                                  double device_bytes, enum lk_sharding *out)
{
    static const enum lk_sharding stages[] = {LK_SHARDING_ZERO1, LK_SHARDING_ZERO2,
                                              LK_SHARDING_ZERO3};
    struct lk_config sharded = *c;
    struct lk_memory m;

    for (size_t i = 0; i < LK_COUNT(stages); i++) {
        enum lk_memory_fit fit;

        lk_config_shard(&sharded, stages[i], c->reduce);
        sharded.compression = LK_COMPRESSION_NONE;
        lk_memory_of(j, &sharded, &m);
        fit = lk_memory_fit(&m, device_bytes);
        if (fit == LK_MEMORY_FITS || fit == LK_MEMORY_TIGHT) {
            *out = stages[i];
            return true;
        }
    }
    return false;
}

/* ---- Plans and tables ---- */

void lk_memory_set_plan(const struct lk_job *job, const struct lk_config *c, double device_bytes,
                        struct lk_plan *out)
{
    struct lk_memory m;
    enum lk_memory_fit fit;
    enum lk_sharding sharding;
    int batch;

    if (isnan(device_bytes))
        return;
    lk_memory_of(job, c, &m);
    fit = lk_memory_fit(&m, device_bytes);
    batch = lk_memory_largest_batch(&m, device_bytes, false);
    out->memory_bytes = m.total.value;
    out->memory_lo_bytes = m.total.lo;
    out->memory_hi_bytes = isfinite(m.total.hi) ? m.total.hi : NAN;
    out->largest_batch = batch >= 0 ? (double)batch : NAN;
    snprintf(out->memory_fit, sizeof out->memory_fit, "%s", lk_memory_fit_name(fit));
    if (fit == LK_MEMORY_TOO_LARGE && lk_memory_sharding_that_fits(job, c, device_bytes, &sharding))
        snprintf(out->fits_with, sizeof out->fits_with, "%s", lk_sharding_name(sharding));
}

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
    LK_PASS(lk_table_row(t));
    LK_PASS(lk_table_text(t, "part", "%s", part));
    for (int s = 0; s < N_SCHEMES; s++)
        LK_PASS(lk_table_number(t, memory_columns[1 + s].name, v[s]));
    return LK_OK;
}

static enum lk_status memory_notes(struct lk_table *t, double device_bytes,
                                   const struct lk_memory m[N_SCHEMES])
{
    char size[32];

    if (isnan(device_bytes))
        return lk_table_note(t, "what fits: --device-memory, or \"memory\" of \"device\" in the "
                                "cluster file, says what a GPU has");
    lk_units_format(LK_DIM_BYTES, device_bytes, size, sizeof size);
    for (int s = 0; s < N_SCHEMES; s++) {
        int batch = lk_memory_largest_batch(&m[s], device_bytes, false);
        int sure = lk_memory_largest_batch(&m[s], device_bytes, true);

        LK_PASS(lk_table_note(t, "%s fits in %s: %s", lk_sharding_name(memory_schemes[s]), size,
                              lk_memory_fit_name(lk_memory_fit(&m[s], device_bytes))));
        if (batch > 0)
            LK_PASS(lk_table_note(t, "%s: largest local batch %d, surely %d",
                                  lk_sharding_name(memory_schemes[s]), batch, sure));
    }
    return LK_OK;
}

enum lk_status lk_memory_table(const struct lk_job *job, double device_bytes,
                               const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_config c = f->points[0].config;
    const enum lk_reduction own = c.reduce;
    struct lk_memory m[N_SCHEMES];
    struct lk_table *t = NULL;
    double v[N_SCHEMES];
    char title[128];

    for (int s = 0; s < N_SCHEMES; s++) {
        lk_config_shard(&c, memory_schemes[s], own);
        lk_memory_of(job, &c, &m[s]);
    }
    snprintf(title, sizeof title, "Memory of a GPU: %d GPUs, local batch %d", c.world_size,
             c.local_batch);
    LK_TRY(lk_table_create(title, memory_columns, LK_COUNT(memory_columns), &t));
    for (int r = 0; r < LK_MEMORY_COUNT; r++) {
        for (int s = 0; s < N_SCHEMES; s++)
            v[s] = m[s].rows[r].value;
        LK_TRY(memory_row(t, row_texts[r], v));
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

/* X(name, heading, dimension, digits, value): a GPU that the job may fit on. */
#define DEVICE_COLUMNS(X)                                                                          \
    X("gpu", "GPU", LK_DIM_NONE, -1, cluster->gpu)                                                 \
    X("device_bytes", "memory", LK_DIM_BYTES, -1, cluster->device.memory_bytes.value)              \
    X("memory_fit", "fits", LK_DIM_NONE, -1, plan.memory_fit)                                      \
    X("largest_batch", "largest batch", LK_DIM_NONE, -1, plan.largest_batch)                       \
    X("fits_with", "would fit with", LK_DIM_NONE, -1, *plan.fits_with ? plan.fits_with : NULL)

static const struct lk_column device_columns[] = {DEVICE_COLUMNS(LK_TABLE_COLUMN)};

/* Return true if an earlier cluster has this GPU with this memory. */
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

    lk_memory_set_plan(job, c, cluster->device.memory_bytes.value, &plan);
    LK_TRY(lk_table_row(t));
    DEVICE_COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status lk_memory_device_table(const struct lk_job *job, const struct lk_cluster *clusters,
                                      size_t n, const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    const struct lk_config *c = &f->points[0].config;
    struct lk_table *t = NULL;
    char title[128];

    snprintf(title, sizeof title, "What fits on which GPU: plain data parallelism, local batch %d",
             c->local_batch);
    *out = NULL;
    LK_TRY(lk_table_create(title, device_columns, LK_COUNT(device_columns), &t));
    for (size_t i = 0; i < n; i++)
        if (lk_quantity_known(&clusters[i].device.memory_bytes) && !seen_before(clusters, i))
            LK_TRY(device_row(t, job, c, &clusters[i]));
    if (t->n_rows) {
        *out = t;
        t = NULL;
    }
out:
    lk_table_destroy(t);
    return st;
}
