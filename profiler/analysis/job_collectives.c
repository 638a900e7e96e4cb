/* The collectives of a job beside gradients. Divisions: collecting, concluding, what no model has.
 */
#include "profiler/analysis/job_collectives.h"

#include "base/array.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fixed time above this share of the step is no detail that a forecast may have wrong. */
static const double FIXED_SHARE = 0.03;

/* Sums over steps and ranks of one collective: a function and group, and a number in the
 * micro-batch.
 */
struct sums {
    const char *name; /* of the trace, borrowed; "": none */
    size_t ordinal;   /* among those of the name in the micro-batch */
    double n, bytes, at, needed, exposed_ns;
};

struct collecting {
    struct sums *of;
    size_t n, capacity;
    size_t next;          /* the sums that a collective is likely of */
    uint64_t *exposed_ns; /* of a step's collectives */
    size_t *ordinals;     /* by name of the trace: how many of it the micro-batch had */
    size_t exposed_capacity, ordinals_capacity;
    double steps; /* times ranks */
    int accumulation;
};

/* ---- Collecting ---- */

static const char *name_of(const struct lk_trace *t, const struct lk_collective *x)
{
    return x->name ? t->names[x->name - 1] : "";
}

/* Find or add the sums of a name and ordinal; *out is valid until the next one is added. */
static enum lk_status sums_of(struct collecting *c, const char *name, size_t ordinal,
                              struct sums **out)
{
    size_t tried = 0, i = c->next < c->n ? c->next : 0;

    while (tried < c->n && (c->of[i].ordinal != ordinal || strcmp(c->of[i].name, name) != 0)) {
        i = i + 1 < c->n ? i + 1 : 0;
        tried++;
    }
    if (tried == c->n) {
        i = c->n;
        LK_PASS(lk_array_grow(&c->of, &c->capacity, c->n + 1, sizeof *c->of));
        c->of[c->n++] = (struct sums){.name = name, .ordinal = ordinal};
    }
    c->next = i + 1;
    *out = &c->of[i];
    return LK_OK;
}

/* Add collective i of a step, the ordinal-th of its name in the micro-batch. */
static enum lk_status add(struct collecting *c, const struct lk_trace *t,
                          const struct lk_rank_steps *r, const struct lk_step *p, size_t i,
                          double at, size_t ordinal)
{
    const struct lk_collective *x = &r->collectives[p->first_collective + i];
    double needed = at < 2 ? 2 : 3;
    struct sums *s;
    int unused;

    LK_PASS(sums_of(c, name_of(t, x), ordinal, &s));
    if (c->exposed_ns[i] > 0)
        needed = lk_step_position(r, p, x->end_ns - 1, &unused);
    s->n++;
    s->bytes += (double)x->bytes;
    s->at += at;
    s->needed += fmax(at, needed);
    s->exposed_ns += (double)c->exposed_ns[i];
    return LK_OK;
}

static enum lk_status add_step(struct collecting *c, const struct lk_trace *t,
                               const struct lk_rank_steps *r, const struct lk_step *p)
{
    int now = -1;

    LK_PASS(lk_array_grow(&c->exposed_ns, &c->exposed_capacity, p->n_collectives + 1,
                          sizeof *c->exposed_ns));
    LK_PASS(
        lk_array_grow(&c->ordinals, &c->ordinals_capacity, t->n_names + 1, sizeof *c->ordinals));
    lk_step_blocked(r, p, c->exposed_ns);
    for (size_t i = 0; i < p->n_collectives; i++) {
        const struct lk_collective *x = &r->collectives[p->first_collective + i];
        int micro_batch;
        double at;

        if (x->unit >= 0) /* of gradients, or of the sharding that forecasts know */
            continue;
        at = lk_step_position(r, p, x->ready_ns ? x->ready_ns : x->start_ns, &micro_batch);
        if (micro_batch != now)
            memset(c->ordinals, 0, (t->n_names + 1) * sizeof *c->ordinals);
        now = micro_batch;
        LK_PASS(add(c, t, r, p, i, at, c->ordinals[x->name]++));
    }
    c->steps++;
    return LK_OK;
}

static enum lk_status collect(struct collecting *c, const struct lk_run *run)
{
    for (size_t k = 0; k < run->n; k++)
        for (size_t s = 0; s < run->n_steps; s++)
            LK_PASS(add_step(c, &run->traces[k], &run->ranks[k],
                             lk_rank_step(&run->ranks[k], run->steps[s])));
    return LK_OK;
}

/* ---- Concluding ---- */

static enum lk_status set_function(const char *name, int world_size, struct lk_job_collective *out)
{
    int ranks = world_size;
    size_t n = lk_coll_split(name, &ranks);

    if (ranks < world_size)
        out->ranks = ranks;
    return *name ? lk_strndup(&out->function, name, n) : lk_strdup(&out->function, "unknown");
}

/* Make a collective of its sums; its bytes and time a step are those of the traces. */
static enum lk_status conclude(const struct collecting *c, const struct sums *s, int world_size,
                               const char *source, struct lk_job_collective *out)
{
    double times = c->accumulation, bytes = s->bytes / c->steps;
    enum lk_coll coll;

    out->exposed_s = lk_quantity_none();
    LK_PASS(set_function(s->name, world_size, out));
    out->at = s->at / s->n;
    out->needed = s->needed / s->n;
    /* Each micro-batch has it, on most steps. With one, those before the end of backward do. */
    out->every_micro_batch =
        c->accumulation > 1 ? s->n / c->steps > c->accumulation - 0.5 : out->at < 2;
    if (out->every_micro_batch) {
        out->at = fmin(out->at, 2);
        out->needed = fmin(out->needed, 2);
        bytes /= times;
    }
    if (lk_coll_find(out->function, strlen(out->function), &coll) && coll == LK_ALL_GATHER)
        bytes /= out->ranks ? out->ranks : world_size;
    out->bytes = (uint64_t)llround(bytes);
    return lk_quantity_set(&out->exposed_s, s->exposed_ns / c->steps / (double)LK_NS_PER_S, NAN,
                           NAN, (uint64_t)c->steps, "%s", source);
}

static int by_position(const void *x, const void *y)
{
    const struct lk_job_collective *a = x, *b = y;

    return (a->at > b->at) - (a->at < b->at);
}

/* ---- What no model has ---- */

/* Return true if x comes behind y in a list by time; of equals the first comes first. */
static bool costs_less(const struct lk_job_collective *x, const struct lk_job_collective *y)
{
    return x->exposed_s.value < y->exposed_s.value ||
           (x->exposed_s.value == y->exposed_s.value && x > y);
}

/* Write "all_to_all 9.0 ms, broadcast of unknown size 1.0 ms": the longest first, as many as fit.
 */
static void list_fixed(const struct lk_job *j, char *buf, size_t size)
{
    const struct lk_job_collective *last = NULL;
    size_t at = 0;

    for (const struct lk_job_collective *next; at + 1 < size; last = next) {
        enum lk_coll coll;
        char time[32];

        next = NULL;
        for (size_t i = 0; i < j->n_collectives; i++)
            if (!lk_job_collective_placed(&j->collectives[i], &coll) &&
                (!last || costs_less(&j->collectives[i], last)) &&
                (!next || costs_less(next, &j->collectives[i])))
                next = &j->collectives[i];
        if (!next)
            break;
        lk_units_format(LK_DIM_TIME, next->exposed_s.value, time, sizeof time);
        at += (size_t)snprintf(buf + at, size - at, "%s%s%s %s", at ? ", " : "", next->function,
                               next->bytes ? "" : " of unknown size", time);
    }
}

static enum lk_status add_fixed(const struct lk_run *run, struct lk_job *j)
{
    double fixed_s = 0, step_s = 0;
    enum lk_coll coll;
    char list[160] = "", time[32];

    for (size_t i = 0; i < j->n_collectives; i++)
        if (!lk_job_collective_placed(&j->collectives[i], &coll))
            fixed_s += j->collectives[i].exposed_s.value;
    if (!(fixed_s > 0))
        return LK_OK;
    for (size_t s = 0; s < run->n_steps; s++)
        step_s +=
            lk_step_window_s(lk_rank_step(&run->ranks[0], run->steps[s])) / (double)run->n_steps;
    list_fixed(j, list, sizeof list);
    lk_units_format(LK_DIM_TIME, fixed_s, time, sizeof time);
    if (fixed_s > FIXED_SHARE * step_s)
        return lk_fail(LK_EEVIDENCE,
                       "%s: of a step, %s (%.0f %%) are collectives beside the gradients' that no "
                       "model has (%s): what they take on other GPUs is not known, and a forecast "
                       "without them would be of another job",
                       run->dir, time, 100 * fixed_s / step_s, list);
    for (size_t i = 0; i < j->n_compute; i++) {
        struct lk_quantity *gap = &j->compute[i].gap_s;

        LK_PASS(lk_quantity_set(gap, gap->value + fixed_s, gap->lo + fixed_s, gap->hi + fixed_s,
                                gap->n, "%s; with %s of collectives that no model has: %s",
                                gap->source, time, list));
    }
    return LK_OK;
}

/* ---- SyncBatchNorm ---- */

/* Return the first collective of this kind and size in [from, to) of a step; NULL: there is none.
 */
static struct lk_job_collective *find(struct lk_job *j, enum lk_coll coll, uint64_t bytes,
                                      double from, double to)
{
    for (size_t i = 0; i < j->n_collectives; i++) {
        struct lk_job_collective *c = &j->collectives[i];
        enum lk_coll is;

        if (lk_job_collective_placed(c, &is) && is == coll && c->bytes == bytes && !c->ranks &&
            c->at >= from && c->at < to)
            return c;
    }
    return NULL;
}

static void take_out(struct lk_job *j, struct lk_job_collective *c)
{
    size_t i = (size_t)(c - j->collectives);

    free(c->function);
    lk_quantity_fini(&c->exposed_s);
    memmove(c, c + 1, (--j->n_collectives - i) * sizeof *c);
}

/* Take the collectives of SyncBatchNorm's layers out of the list, and put the layers where they
 * were. pre: the list is sorted by position. */
static void place_sync_bn(struct lk_job *j)
{
    for (size_t i = 0; i < j->n_sync_bn; i++) {
        uint64_t channels = (uint64_t)j->sync_bn[i].channels;
        struct lk_job_collective *gather =
            find(j, LK_ALL_GATHER, (2 * channels + 1) * sizeof(float), 0, 1);
        struct lk_job_collective *reduce;

        if (gather) {
            j->sync_bn[i].at = gather->at;
            take_out(j, gather);
        }
        reduce = find(j, LK_ALL_REDUCE, 2 * channels * sizeof(float), 1, 2);
        if (reduce)
            take_out(j, reduce);
    }
}

/* Take the all-reduce of the gradients' norm out of the list: forecasts know it by the job. */
static void take_norm_out(struct lk_job *j)
{
    for (size_t i = 0; i < j->n_collectives && j->global_norm; i++) {
        struct lk_job_collective *c = &j->collectives[i];
        enum lk_coll is;

        if (lk_job_collective_placed(c, &is) && is == LK_ALL_REDUCE && c->bytes == sizeof(float) &&
            c->at >= 2) {
            take_out(j, c);
            return;
        }
    }
}

/* ---- All ---- */

enum lk_status lk_job_collectives_fill(const struct lk_run_set *set, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    struct collecting c = {0};
    size_t first = 0, end;
    int ranks;

    while (first < set->n && lk_run_world_size(&set->runs[first]) < 2)
        first++;
    if (first == set->n)
        return LK_OK;
    /* The average of parameters is the scheme's, of which the run's configuration tells. */
    if (lk_run_about(&set->runs[first])->period)
        return LK_OK;
    ranks = lk_run_world_size(&set->runs[first]);
    c.accumulation = lk_run_about(&set->runs[first])->accumulation;
    for (end = first; end < set->n && lk_run_world_size(&set->runs[end]) == ranks &&
                      lk_run_about(&set->runs[end])->accumulation == c.accumulation;
         end++)
        LK_TRY(collect(&c, &set->runs[end]));
    LK_TRY(lk_alloc(&j->collectives, c.n, sizeof *j->collectives));
    for (; j->n_collectives < c.n; j->n_collectives++)
        LK_TRY(conclude(&c, &c.of[j->n_collectives], ranks, set->runs[first].dir,
                        &j->collectives[j->n_collectives]));
    if (c.n)
        qsort(j->collectives, c.n, sizeof *j->collectives, by_position);
    place_sync_bn(j);
    take_norm_out(j);
    LK_TRY(add_fixed(&set->runs[first], j));
out:
    free(c.of);
    free(c.ordinals);
    free(c.exposed_ns);
    return st;
}
