/* Findings about what goes from the GPU to the host: checkpoints, results that are read. Divisions:
 * copies, checkpoints, results. */
#include "base/array.h"
#include "profiler/analysis/analysis_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A checkpoint copies at least this share of the bytes of all parameters. */
static const double all_parameters = 0.9;
/* A result that is printed is small: a loss, a norm, a few counts. */
enum { RESULT_BYTES = 4096 };
static const double every_step = 0.9; /* of the steps */

/* ---- Copies ---- */

/* Tell a copy from the GPU to the host by its name: CUPTI's and Kineto's, ROCm's. */
static bool is_to_host(const struct lk_trace *t, const struct lk_span *s)
{
    const char *name = lk_trace_span_name(t, s);

    return s->kind == LK_SPAN_COPY && (strstr(name, "DtoH") || strstr(name, "DeviceToHost"));
}

/* ---- Checkpoints ---- */

static uint64_t parameter_bytes(const struct lk_run_info *info)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < info->n_tensors; i++)
        sum += info->tensors[i].elems * lk_dtype_bytes(info->tensors[i].dtype);
    return sum;
}

/* A dump is what a rank copies to the host behind the last backward of a step. */
struct dump {
    uint64_t bytes, first_ns, last_ns;
};

static uint64_t backward_end(const struct lk_rank_steps *r, const struct lk_step *p)
{
    uint64_t end = 0;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++)
        if (r->ranges[i].kind == LK_SPAN_BACKWARD && r->ranges[i].end_ns > end)
            end = r->ranges[i].end_ns;
    return end;
}

/* Sum the copies of each of the run's steps; dumps: n_steps of them, zeroed. */
static void find_dumps(const struct lk_analysis *a, size_t k, struct dump *dumps)
{
    const struct lk_trace *t = &a->run->traces[k];

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        uint64_t start = lk_clock_apply(&t->clock, s->start_ns);
        size_t at = lk_step_index_(a->run, s->step);

        if (!is_to_host(t, s) || at == a->run->n_steps ||
            start < backward_end(&a->run->ranks[k], lk_rank_step(&a->run->ranks[k], s->step)))
            continue;
        if (!dumps[at].bytes)
            dumps[at].first_ns = start;
        dumps[at].bytes += s->bytes;
        dumps[at].last_ns = lk_clock_apply(&t->clock, s->end_ns);
    }
}

/* The checkpoints of the ranks. */
struct checkpoints {
    size_t ranks;     /* that have some */
    size_t rank;      /* index of the one with most */
    size_t steps;     /* that have one, on that rank */
    uint64_t bytes;   /* of the largest */
    double copying_s; /* of a step, on that rank */
};

static enum lk_status find_checkpoints(const struct lk_analysis *a, uint64_t parameters,
                                       struct checkpoints *out)
{
    struct dump *dumps = NULL;

    LK_PASS(lk_alloc(&dumps, a->run->n_steps, sizeof *dumps));
    for (size_t k = 0; k < a->run->n; k++) {
        struct checkpoints of = {0};

        memset(dumps, 0, a->run->n_steps * sizeof *dumps);
        find_dumps(a, k, dumps);
        for (size_t i = 0; i < a->run->n_steps; i++) {
            if ((double)dumps[i].bytes < all_parameters * (double)parameters)
                continue;
            of.steps++;
            of.bytes = dumps[i].bytes > of.bytes ? dumps[i].bytes : of.bytes;
            of.copying_s += lk_ns_to_s_(dumps[i].last_ns - dumps[i].first_ns);
        }
        if (!of.steps)
            continue;
        out->ranks++;
        out->bytes = of.bytes > out->bytes ? of.bytes : out->bytes;
        if (of.steps <= out->steps)
            continue;
        out->rank = k;
        out->steps = of.steps;
        out->copying_s = of.copying_s;
    }
    out->copying_s /= (double)a->run->n_steps;
    free(dumps);
    return LK_OK;
}

/*
 * Report copies of all parameters to the host behind the backward. The cost is that of the copies
 * alone: what the host does with them is in the trace only where the next step waits for it.
 */
enum lk_status lk_find_checkpoints_(struct lk_analysis *a)
{
    uint64_t parameters = parameter_bytes(lk_run_about(a->run));
    struct checkpoints c = {0};
    char bytes[32], who[128];

    if (!parameters)
        return LK_OK;
    LK_PASS(find_checkpoints(a, parameters, &c));
    if (!c.steps || c.copying_s < LK_FINDING_HOST_SHARE * a->step_s)
        return LK_OK;
    if (c.ranks == 1)
        (void)snprintf(who, sizeof who, "%s copies", lk_rank_text_(a, c.rank).buf);
    else
        (void)snprintf(who, sizeof who, "%zu of %zu ranks copy", c.ranks, a->run->n);
    return lk_finding_add_(
        a, LK_FINDING_CHECKPOINTS, c.ranks == 1 ? (int)c.rank : -1, c.copying_s,
        "checkpoints: %s all parameters (%s) to the host behind the backward in %zu of %zu steps, "
        "%s a step%s",
        who, lk_units_format(LK_DIM_BYTES, (double)c.bytes, bytes, sizeof bytes), c.steps,
        a->run->n_steps, lk_time_text_(c.copying_s).buf,
        c.ranks == 1 && a->run->n > 1 ? "; the others wait at the next collective" : "");
}

/* ---- Results ---- */

/* Waits for the GPU in mid-step that fetch a small result: sums over ranks. */
struct reads {
    size_t n, ranks;
    uint64_t idle_ns, most_bytes;
    bool always; /* on each rank that has some, in nearly every step */
};

/* Sum up the waits of a rank, each of which comes behind the copies since the last one. */
static void add_reads(const struct lk_analysis *a, size_t k, struct reads *sum)
{
    const struct lk_trace *t = &a->run->traces[k];
    size_t next = 0, n = 0, steps = 0;
    struct lk_wait wait;
    uint32_t last = UINT32_MAX;
    uint64_t bytes = 0;

    for (struct lk_wait_walk w = {0}; lk_next_wait_(a->run, t, &w, &wait);) {
        bool small = false;

        for (; next < t->n_spans && t->spans[next].span.start_ns < wait.sync->end_ns; next++) {
            const struct lk_span *s = &t->spans[next].span;

            if (!is_to_host(t, s) || s->end_ns > wait.sync->end_ns || s->step != wait.sync->step)
                continue;
            small = s->bytes <= RESULT_BYTES;
            bytes = s->bytes;
        }
        if (!small)
            continue;
        n++;
        steps += wait.sync->step != last;
        last = wait.sync->step;
        sum->idle_ns += wait.idle_ns;
        sum->most_bytes = bytes > sum->most_bytes ? bytes : sum->most_bytes;
    }
    sum->n += n;
    sum->ranks += n > 0;
    sum->always = sum->always && (!n || (double)steps >= every_step * (double)a->run->n_steps);
}

/* Report results that are read in every step, as for logging, while the GPU waits. */
enum lk_status lk_find_logging_(struct lk_analysis *a)
{
    double steps = (double)(a->run->n_steps * a->run->n), cost;
    struct reads sum = {.always = true};
    char bytes[32];

    for (size_t k = 0; k < a->run->n; k++)
        add_reads(a, k, &sum);
    cost = lk_ns_to_s_(sum.idle_ns) / steps;
    if (!sum.n || !sum.always || cost < LK_FINDING_HOST_SHARE * a->step_s)
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_LOGGING, -1, cost,
        "logging: in every step, on %zu of %zu ranks, the host reads a small result (at most %s) "
        "from the GPU and waits for it",
        sum.ranks, a->run->n,
        lk_units_format(LK_DIM_BYTES, (double)sum.most_bytes, bytes, sizeof bytes));
}
