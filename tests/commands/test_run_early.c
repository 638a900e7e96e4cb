/*
 * lockstep run --fuse=optimizer, end to end: the updates in the trace, the optimizer's time in the
 * split and in job.json, and the forecast of the run itself.
 */
#include "base/array.h"
#include "facts/job.h"
#include "facts/trace.h"
#include "profiler/analysis/steps.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *device;
    int ranks, accumulation;
} runs[] = {{"cpu", 1, 1}, {"cpu", 2, 2}, {"timed", 1, 1}, {"timed", 2, 1}};

static bool is_update(const struct lk_trace *t, const struct lk_trace_span *s)
{
    if (s->span.kind != LK_SPAN_OPTIMIZER)
        return false;
    ck_assert_int_eq(t->tracks[s->track].kind, LK_TRACK_UPDATE);
    return true;
}

/* Return the collective of a bucket in a step's last micro-batch. */
static const struct lk_span *last_collective(const struct lk_trace *t, uint32_t step,
                                             int32_t bucket)
{
    const struct lk_span *found = NULL;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind == LK_SPAN_COLLECTIVE && s->step == step && s->index == bucket &&
            (!found || s->seq > found->seq))
            found = s;
    }
    ck_assert_ptr_nonnull(found);
    return found;
}

/* Every bucket is updated once a step, behind its all-reduce; what the step's split says of the
 * optimizer, and what is hidden, are together all of these times, on the common clock. Return the
 * mean time a step after the warm-up, in s, that is hidden: 0 where the machine found no moment for
 * it. */
static double check_trace(const struct lk_trace *t)
{
    struct lk_rank_steps r;
    unsigned n_after = 0;
    double hidden_s = 0;

    must(lk_rank_steps_read(t, &r));
    ck_assert_uint_gt(r.n_steps, 0);
    for (size_t k = 0; k < r.n_steps; k++) {
        const struct lk_step *p = &r.steps[k];
        struct lk_step_split x;
        uint64_t sum_ns = 0;
        int32_t next = 0, most = 0;
        double parts_s = 0;

        for (size_t i = 0; i < t->n_spans; i++) {
            const struct lk_span *s = &t->spans[i].span;

            if (s->step != p->step)
                continue;
            if (s->kind == LK_SPAN_COLLECTIVE)
                most = s->index > most ? s->index : most;
            if (!is_update(t, &t->spans[i]))
                continue;
            next++;
            sum_ns += lk_clock_apply(&t->clock, s->end_ns) - lk_clock_apply(&t->clock, s->start_ns);
            ck_assert_uint_ge(s->start_ns, last_collective(t, s->step, s->index)->end_ns);
        }
        ck_assert_int_eq(next, most + 1);
        lk_step_split(&r, p, NULL, &x);
        for (int part = 0; part < LK_PART_COUNT; part++)
            parts_s += x.s[part];
        ck_assert_double_eq_tol(parts_s, lk_step_window_s(p), 1e-12);
        /* each time is a whole number of nanoseconds */
        ck_assert_double_eq_tol(x.s[LK_PART_OPTIMIZER] + 1e-9 * (double)p->hidden_ns,
                                1e-9 * (double)sum_ns, 1e-9 * (double)next + 1e-12);
        if (p->step < t->info.warmup_steps)
            continue;
        hidden_s += 1e-9 * (double)p->hidden_ns;
        n_after++;
    }
    lk_rank_steps_fini(&r);
    ck_assert_uint_gt(n_after, 0);
    return hidden_s / n_after;
}

static double value_of(const struct program *p, const char *name)
{
    char key[64];
    const char *at;

    snprintf(key, sizeof key, "{\"name\": \"%s\",", name);
    at = strstr(p->out, key);
    ck_assert_ptr_nonnull(at);
    at = strstr(at, "\"value\": ");
    ck_assert_ptr_nonnull(at);
    return strtod(at + 9, NULL);
}

START_TEST(updates_beside_backward)
{
    struct lk_trace *traces = NULL;
    struct lk_job job = {0};
    struct program p;
    double step_s = 0, hidden_s = 0;
    char text[512];
    size_t n;

    program_run(&p, scratch_dir, 0,
                "run -n%d -a%d -b2 --device=%s --fuse=optimizer --bucket-cap=4KiB --steps=8 "
                "--warmup=2 --model=gpt --layers=2 --heads=2 --channels=16 --context=8 --vocab=32 "
                "--samples=4096 --no-pin --out=%s/run",
                runs[_i].ranks, runs[_i].accumulation, runs[_i].device, scratch_dir);
    program_fini(&p);
    snprintf(text, sizeof text, "%s/run/k%d-b2-a%d-r0", scratch_dir, runs[_i].ranks,
             runs[_i].accumulation);
    must(lk_traces_read(text, &traces, &n));
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(lk_run_info_value(&traces[i].info, "parameter_update"),
                         "by bucket, beside backward");
        hidden_s += check_trace(&traces[i]) / (double)n;
    }
    lk_traces_free(traces, n);
    snprintf(text, sizeof text, "%s/run/job.json", scratch_dir);
    must(lk_job_read(text, &job));
    ck_assert_int_eq(lk_quantity_known(&job.compute[0].optimizer_hidden_s), hidden_s > 0);
    if (hidden_s > 0)
        ck_assert_double_eq_tol(job.compute[0].optimizer_hidden_s.value, hidden_s, 1e-9);
    for (size_t i = 0; i < job.runs[0].n_steps; i++)
        step_s += job.runs[0].step_s[i] / (double)job.runs[0].n_steps;
    lk_job_fini(&job);
    if (runs[_i].ranks > 1) /* the cluster would be this machine's */
        return;
    program_run(&p, scratch_dir, 0, "predict %s/run/job.json ethernet-10g --gpus=1 --format=json",
                scratch_dir);
    printf("%s: optimizer beside backward: %.3f ms a step, its own forecast %.3f ms\n",
           runs[_i].device, 1e3 * step_s, 1e3 * value_of(&p, "step_s"));
    program_fini(&p);
}
END_TEST

SUITE(run_early, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, updates_beside_backward, 0, LK_COUNT(runs));
}
