/* The grid of a run and its results; see the header. */
#include "commands/run_grid.h"

#include "base/array.h"
#include "base/file.h"
#include "base/member.h"
#include "base/rng.h"
#include "base/stats.h"
#include "commands/ledger_score.h"
#include "profiler/analysis/job_build.h"
#include "reports/print.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRID_REPETITIONS = 3,
    BLOCK_STEPS = 5, /* of the bootstrap: over so many steps they are assumed to be correlated */
    RESAMPLES = 2000
};
#define LEVEL 0.90

/* ---- Plan ---- */

static enum lk_status add_point(struct run_grid *s, size_t *capacity, struct run_point p)
{
    enum lk_status st;

    for (size_t i = 0; i < s->n_points; i++)
        if (lk_config_equal(&s->points[i].config, &p.config)) {
            s->points[i].on_curve |= p.on_curve;
            return LK_OK;
        }
    st = lk_array_grow(&s->points, capacity, s->n_points + 1, sizeof *s->points);
    if (st == LK_OK)
        s->points[s->n_points++] = p;
    return st;
}

/* Choose the largest micro-batch that divides a rank's share of the global batch. */
static enum lk_status strong_point(const struct run_options *o, int64_t smallest, int64_t ranks,
                                   struct run_point *out)
{
    int64_t global = smallest * o->local_batch.v[0] * o->train.reducer.accumulation;
    int64_t share = global / ranks;
    int64_t batch = o->local_batch.v[0];

    if (global % ranks)
        return lk_fail(LK_EUSAGE,
                       "--strong: the global batch of %lld does not divide by %lld ranks",
                       (long long)global, (long long)ranks);
    while (share % batch)
        batch--;
    out->config.local_batch = (int)batch;
    out->config.accumulation = (int)(share / batch);
    return LK_OK;
}

/* Return the point of an index into the lists; an empty one has the option's own value. */
static struct run_point point_of(const struct run_options *o, int64_t ranks, int64_t local_batch,
                                 int accumulation, int cap)
{
    return (struct run_point){
        .config = {.world_size = (int)ranks,
                   .local_batch = (int)local_batch,
                   .accumulation = (int)(o->accumulations.n ? o->accumulations.v[accumulation]
                                                            : o->train.reducer.accumulation),
                   .cap_bytes =
                       o->bucket_caps.n ? o->bucket_caps.v[cap] : o->train.reducer.cap_bytes}};
}

/* Add a count of the scaling curve: every accumulation, and every bucket cap where ranks reduce. */
static enum lk_status add_count(const struct run_options *o, int64_t smallest, int64_t ranks,
                                struct run_grid *s, size_t *capacity)
{
    for (int a = 0; !a || a < o->accumulations.n; a++)
        for (int c = 0; !c || (c < o->bucket_caps.n && ranks > 1); c++) {
            struct run_point p = point_of(o, ranks, o->local_batch.v[0], a, c);

            p.on_curve = true;
            LK_PASS(run_options_set_batches(o, &p.config));
            if (o->strong)
                LK_PASS(strong_point(o, smallest, ranks, &p));
            LK_PASS(add_point(s, capacity, p));
        }
    return LK_OK;
}

static enum lk_status plan_points(const struct run_options *o, struct run_grid *s)
{
    struct lk_ints one = {.n = 1, .v = {o->ranks ? o->ranks : 1}};
    const struct lk_ints *ranks = o->scaling.n ? &o->scaling : &one;
    bool others = o->scaling.n || o->accumulations.n || o->bucket_caps.n;
    int64_t smallest = INT_MAX;
    size_t capacity = 0;

    for (int i = 0; i < ranks->n; i++)
        smallest = ranks->v[i] < smallest ? ranks->v[i] : smallest;
    for (int i = 0; i < ranks->n && (others || !o->local_batches.n); i++)
        LK_PASS(add_count(o, smallest, ranks->v[i], s, &capacity));
    for (int i = 0; i < o->local_batches.n; i++)
        LK_PASS(add_point(s, &capacity, point_of(o, smallest, o->local_batches.v[i], 0, 0)));
    return LK_OK;
}

static enum lk_status plan_parts(struct run_grid *s, int repetitions, bool several_caps)
{
    LK_PASS(lk_alloc(&s->parts, s->n_points * (size_t)repetitions, sizeof *s->parts));
    for (int r = 0; r < repetitions; r++)
        for (size_t i = 0; i < s->n_points; i++) {
            size_t point = r % 2 ? s->n_points - 1 - i : i;
            const struct run_point *p = &s->points[point];
            struct run_part *part = &s->parts[s->n_parts];
            char cap[32] = "", batch[LK_RANK_BATCHES_TEXT];

            snprintf(batch, sizeof batch, "%d", p->config.local_batch);
            if (several_caps)
                snprintf(cap, sizeof cap, "-c%" PRIu64, p->config.cap_bytes);
            LK_PASS(lk_asprintf(&part->dir, "k%d-b%s-a%d%s-r%d", p->config.world_size,
                                *p->config.batches ? p->config.batches : batch,
                                p->config.accumulation, cap, r));
            part->point = point;
            part->repetition = r;
            s->n_parts++;
        }
    return LK_OK;
}

enum lk_status run_grid_plan(const struct run_options *o, struct run_grid *out)
{
    bool many = run_options_measure_several(o);
    struct run_grid s = {0};
    enum lk_status st = LK_OK;

    LK_TRY(plan_points(o, &s));
    LK_TRY(plan_parts(&s,
                      o->repetitions ? (int)o->repetitions
                      : many         ? GRID_REPETITIONS
                                     : 1,
                      o->bucket_caps.n > 1));
    *out = s;
    s = (struct run_grid){0};
out:
    run_grid_fini(&s);
    return st;
}

void run_grid_fini(struct run_grid *s)
{
    for (size_t i = 0; i < s->n_parts; i++) {
        free(s->parts[i].dir);
        lk_train_result_fini(&s->parts[i].result);
    }
    free(s->parts);
    free(s->points);
    *s = (struct run_grid){0};
}

/* ---- Index ---- */

/* One run of the index. */
struct indexed {
    char *dir;
    char local_batches[LK_RANK_BATCHES_TEXT];
    int world_size, local_batch, accumulation, repetition;
    uint64_t cap_bytes;
};
struct index {
    struct indexed *runs;
    size_t n;
};

#define ROW(field, ...) LK_MEMBER(struct indexed, field, #field, __VA_ARGS__)
static const struct lk_member indexed_rows[] = {
    ROW(dir, TEXT, REQUIRED, .help = "folder of the run, below the index"),
    ROW(world_size, INT, REQUIRED, .min = 1, .help = "ranks"),
    ROW(local_batch, INT, REQUIRED, .min = 1, .help = "samples a micro-batch and rank"),
    ROW(local_batches, CHARS, SPARSE, .help = "of ranks whose batches differ, in order",
        .without = "all have `local_batch`, else the largest of them"),
    ROW(accumulation, INT, REQUIRED, .min = 1, .help = "micro-batches a step"),
    ROW(cap_bytes, UINT, REQUIRED, .max = INT64_MAX, .help = "gradient bytes that close a bucket"),
    ROW(repetition, INT, REQUIRED, .help = "of the configuration, from 0"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record indexed_record = {
    .size = sizeof(struct indexed), .rows = indexed_rows, .one_line = true};
static const struct lk_member index_rows[] = {
    LK_MEMBER(struct index, runs, "runs", LIST, REQUIRED, .of = &indexed_record,
              .count = offsetof(struct index, n), .help = "the runs that are done"),
    LK_MEMBER_END,
};
const struct lk_record run_index_record = {
    .size = sizeof(struct index), .rows = index_rows, .schema = "lockstep-run", .version = 1};

enum lk_status run_grid_write_index(const struct run_grid *s, const char *path)
{
    enum lk_status st = LK_OK;
    struct index index = {0};

    LK_TRY(lk_alloc(&index.runs, s->n_parts, sizeof *index.runs));
    for (size_t i = 0; i < s->n_parts; i++) {
        const struct run_part *part = &s->parts[i];
        const struct lk_config *c = &s->points[part->point].config;

        if (!part->done)
            continue;
        index.runs[index.n] = (struct indexed){.dir = part->dir,
                                               .world_size = c->world_size,
                                               .local_batch = c->local_batch,
                                               .accumulation = c->accumulation,
                                               .repetition = part->repetition,
                                               .cap_bytes = c->cap_bytes};
        memcpy(index.runs[index.n++].local_batches, c->batches, sizeof c->batches);
    }
    st = lk_record_save(&run_index_record, path, &index);
out:
    free(index.runs); /* its texts are the parts' */
    return st;
}

/* ---- Summary ---- */

/* Estimate the mean step time of a point over its repetitions, with its interval. */
static enum lk_status step_time(const struct run_grid *s, size_t point, struct lk_estimate *out)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("step time", point));
    struct lk_series *series = NULL;
    size_t n = 0;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&series, s->n_parts, sizeof *series));
    for (size_t i = 0; i < s->n_parts; i++) {
        const struct lk_train_result *r = &s->parts[i].result;

        if (s->parts[i].point == point)
            series[n++] = (struct lk_series){r->step_s + r->skipped, (size_t)(r->n - r->skipped)};
    }
    LK_TRY(lk_stats_repeated_mean(series, n, BLOCK_STEPS, RESAMPLES, LEVEL, &g, out));
out:
    free(series);
    return st;
}

/* Return the mean loss of the last tenth of the steps, over the repetitions. */
static double final_loss(const struct run_grid *s, size_t point)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_parts; i++) {
        const struct lk_train_result *r = &s->parts[i].result;
        size_t tail = (size_t)(r->n + 9) / 10, ran = (size_t)(r->n - r->course.first_step);

        if (s->parts[i].point != point)
            continue;
        tail = tail < ran ? tail : ran;
        sum += lk_stats_mean(r->loss + (size_t)r->n - tail, tail);
        n++;
    }
    return sum / (double)n;
}

struct reference {
    const struct lk_config *config; /* NULL: none */
    double step_s;
};

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define COLUMNS(X)                                                                                 \
    X("ranks",         "ranks",        LK_DIM_NONE, -1, p->config.world_size)                            \
    X("local_batch",   "local batch",  LK_DIM_NONE, -1, p->config.local_batch)                     \
    X("accumulation",  "accumulation", LK_DIM_NONE, -1, p->config.accumulation)                    \
    X("global_batch",  "global batch", LK_DIM_NONE, -1, lk_config_samples(&p->config))             \
    X("runs",          "runs",         LK_DIM_NONE, -1, (double)(s->n_parts / s->n_points))        \
    X("step_s",        "step",         LK_DIM_TIME, 0,  step->value)                               \
    X("step_lo_s",     "90 % from",    LK_DIM_TIME, 0,  step->lo)                                  \
    X("step_hi_s",     "to",           LK_DIM_TIME, 0,  step->hi)                                  \
    X("samples_per_s", "samples/s",    LK_DIM_NONE, 1,  throughput)                                \
    X("efficiency",    "efficiency",   LK_DIM_NONE, LK_TABLE_PERCENT, efficiency)                  \
    X("loss",          "final loss",   LK_DIM_NONE, 4,  final_loss(s, i))                          \
    X("learning_rate", "l.r.",         LK_DIM_NONE, 6,  rate)                                      \
    X("epoch_s",       "an epoch",     LK_DIM_TIME, 0,  epoch / throughput)                        \
    X("bucket_cap",    "bucket cap",   LK_DIM_BYTES, -1, (double)p->config.cap_bytes)

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status add_row(const struct run_grid *s, const struct run_options *o, size_t i,
                              const struct lk_estimate *step, const struct reference *ref,
                              struct lk_table *t)
{
    const struct run_point *p = &s->points[i];
    const bool trains = o->device != RUN_DEVICE_TIMED;
    double batch = lk_config_samples(&p->config);
    double throughput =
        run_grid_samples(s, i) / step->value; /* the last of an epoch may have fewer */
    /* In force after the warm-up of the rate; the size of a text is not known here. */
    double rate =
        trains ? lk_optim_rate(&o->train.optim, o->train.optim.warmup_steps, (int64_t)batch) : NAN;
    double epoch = trains && !o->train.data ? (double)o->train.samples : NAN;
    double efficiency = ref->config && p->on_curve ? lk_scaling_efficiency(&p->config, step->value,
                                                                           ref->config, ref->step_s)
                                                   : NAN;
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

/* Find the curve's point with fewest ranks; none when the curve has one point. */
static struct reference find_reference(const struct run_grid *s, const struct lk_estimate *steps)
{
    struct reference ref = {0};
    size_t on_curve = 0;

    for (size_t i = 0; i < s->n_points; i++)
        on_curve += s->points[i].on_curve;
    if (on_curve < 2)
        return ref;

    for (size_t i = 0; i < s->n_points; i++)
        if (s->points[i].on_curve &&
            (!ref.config || s->points[i].config.world_size < ref.config->world_size))
            ref = (struct reference){&s->points[i].config, steps[i].value};
    return ref;
}

static enum lk_status add_scale_note(const struct run_part *part, struct lk_page *page)
{
    const struct lk_train_result *r = &part->result;
    long long skipped = r->overflown;

    if (!(r->loss_scale > 0))
        return LK_OK;
    if (!skipped)
        return lk_page_note(page, "loss scale at the end: %g; no step overflowed", r->loss_scale);
    return lk_page_note(page,
                        "loss scale at the end: %g; %lld step%s overflowed and %s not applied, on "
                        "any rank",
                        r->loss_scale, skipped, skipped == 1 ? "" : "s",
                        skipped == 1 ? "was" : "were");
}

static enum lk_status add_notes(const struct run_grid *s, const struct run_options *o,
                                const struct reference *ref, struct lk_table *t,
                                struct lk_page *page)
{
    const struct run_part *most = &s->parts[0];
    double worst = -1, allowed = 0;

    for (size_t i = 0; i < s->n_parts; i++) {
        if (s->points[s->parts[i].point].config.world_size >
            s->points[most->point].config.world_size)
            most = &s->parts[i];
        if (s->parts[i].result.verify_max_error > worst) {
            worst = s->parts[i].result.verify_max_error;
            allowed = s->parts[i].result.verify_allowed;
        }
    }
    if (ref->config)
        LK_PASS(lk_table_note(t, "%s scaling; efficiency is against %d rank%s",
                              o->strong ? "strong" : "weak", ref->config->world_size,
                              ref->config->world_size == 1 ? "" : "s"));
    if (!isnan(most->result.noise.value))
        LK_PASS(lk_page_note(page,
                             "gradient noise scale at %d ranks: %.3g samples, 90 %% interval "
                             "%.3g to %.3g, from %zu steps",
                             s->points[most->point].config.world_size, most->result.noise.value,
                             most->result.noise.lo, most->result.noise.hi, most->result.noise.n));
    if (o->train.verify)
        LK_PASS(lk_page_note(page,
                             "verified: largest gradient error %.2g of the float64 reference, "
                             "where %.2g is allowed; parameters bit-identical on all ranks",
                             worst, allowed));
    if (*s->points[most->point].config.batches)
        LK_PASS(lk_page_note(page,
                             "samples of a micro-batch on each rank: %s; the table has the most",
                             s->points[most->point].config.batches));
    return add_scale_note(most, page);
}

enum lk_status run_grid_table(const struct run_grid *s, const struct run_options *o,
                              struct lk_page *page, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_estimate *steps = NULL;
    struct lk_table *t = NULL;
    struct reference ref;

    LK_TRY(lk_table_create("Measured steps", columns, LK_COUNT(columns), &t));
    LK_TRY(lk_alloc(&steps, s->n_points, sizeof *steps));
    for (size_t i = 0; i < s->n_points; i++)
        LK_TRY(step_time(s, i, &steps[i]));
    ref = find_reference(s, steps);
    for (size_t i = 0; i < s->n_points; i++)
        LK_TRY(add_row(s, o, i, &steps[i], &ref, t));
    LK_TRY(add_notes(s, o, &ref, t, page));
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    free(steps);
    return st;
}

/* ---- The end of a run ---- */

/* Write the job of the runs, and score its forecasts by them; of several caps and accumulations the
 * first that was asked for is its own. */
static enum lk_status write_job(const struct run_grid *s, const struct run_options *o,
                                const struct lk_run_set *runs, const char *out,
                                struct lk_page *page)
{
    const struct lk_config *first = &s->points[0].config;
    struct lk_job job = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_job_build(runs, &job));
    job.cap_bytes = first->cap_bytes;
    job.accumulation = first->accumulation;
    LK_TRY(lk_path_join(&path, out, "job.json"));
    LK_TRY(lk_job_write(path, &job));
    LK_TRY(ledger_score(out, &job, runs, o->train.model.job, page));
out:
    free(path);
    lk_job_fini(&job);
    return st;
}

enum lk_status run_finish(const struct run_grid *s, const struct run_options *o,
                          const struct lk_run_set *runs, const char *out, struct lk_page *page)
{
    static const struct lk_view_column view[] = {LK_VIEW("ranks"),
                                                 LK_VIEW("local_batch"),
                                                 LK_VIEW("accumulation"),
                                                 LK_VIEW("bucket_cap"),
                                                 LK_VIEW_RANGE("step_s", "step_lo_s", "step_hi_s"),
                                                 LK_VIEW("samples_per_s"),
                                                 LK_VIEW("efficiency"),
                                                 LK_VIEW("loss")};
    struct lk_table *table = NULL;
    enum lk_status st = LK_OK;
    bool job = o->trace;

    LK_TRY(run_grid_table(s, o, page, &table));
    LK_TRY(run_answer(table, o, page));
    if (o->trace) {
        st = write_job(s, o, runs, out, page);
        job = st == LK_OK;
        if (st == LK_EEVIDENCE)
            st = lk_page_note(page, "no job.json: %s", lk_error_text());
        LK_TRY(st);
        LK_TRY(run_note_load(runs, page));
    }
    LK_TRY(lk_page_table(page, "runs", LK_PAGE_MAIN, view, LK_COUNT(view), &table));
    LK_TRY(lk_page_next(page, "run directory: %s%s", out, job ? ", with the job in job.json" : ""));
    if (o->trace)
        LK_TRY(lk_page_next(page, "next: lockstep analyze %s", out));
out:
    lk_table_destroy(table);
    return st;
}

enum lk_status run_finish_single(const struct run_options *given, int ranks,
                                 const struct lk_run_set *runs, const char *out,
                                 struct lk_page *page)
{
    struct run_options o = *given;
    struct run_grid s = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    o.ranks = ranks;
    LK_TRY(run_grid_plan(&o, &s));
    LK_TRY(lk_path_join(&path, out, "result.json"));
    LK_TRY(run_result_read(path, &s.parts[0].result));
    s.parts[0].done = true;
    LK_TRY(run_finish(&s, &o, runs, out, page));
out:
    free(path);
    run_grid_fini(&s);
    return st;
}
