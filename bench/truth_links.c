/*
 * Check that the waterfall of a run with slow links and slow ranks shows what was put into it.
 * Compute is a job replayed on the timed device, links are a planted fault
 * (runtime/comm/comm_fault.h): the truth is known from the command line alone, and computed here
 * from the step of docs/model.md, on its own. bench/truth.c is the same for real collectives, whose
 * cost it takes from a run.
 *
 *     build/bench/truth_links [LOCKSTEP [JOB]]
 *
 * from the repository's root; defaults build/lockstep and tests/data/slow_link.job.json. What else
 * runs on the machine only ever adds time, so of three runs the one with the shortest mean step
 * counts. Exit 1 when a row of it is off by more than 3 % of the step.
 */
#include "base/array.h"
#include "bench/lib/truth.h"
#include "facts/bucket.h"
#include "facts/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, BUCKETS_MAX = 16, SETTLE_STEPS = 20, TRIES = 3 };

/* Links of so many bytes/s and s; a rank 1 that takes so many times as long. */
static const struct truth_case {
    const char *name;
    double rate_Bps, latency_s, slow;
} cases[] = {
    {"slow rank", 16e6, 0, 1.2},
    {"slow link, hidden partly", 5e6, 2e-3, 1},
    {"slow link, bound by it", 1.5e6, 2e-3, 1},
    {"slow rank and slow link", 3e6, 2e-3, 1.2},
};

/* ---- The truth ---- */

struct step {
    double forward_s, backward_s, optimizer_s;
    int n_buckets;
    double ready[BUCKETS_MAX]; /* shares of the backward */
    double wire_s[BUCKETS_MAX];
};

static enum lk_status read_step(const char *path, const struct truth_case *c, struct step *out)
{
    enum lk_status st = LK_OK;
    struct lk_job job = {0};
    struct lk_bucket_plan plan = {0};

    *out = (struct step){0};
    LK_TRY(lk_job_read(path, &job));
    LK_TRY(lk_job_buckets(&job, job.first_bytes, job.cap_bytes, &plan));
    if (plan.n_buckets > BUCKETS_MAX)
        LK_TRY(lk_fail(LK_EUSAGE, "%s: %zu buckets are too many", path, plan.n_buckets));
    out->forward_s = job.compute[0].forward_s.value;
    out->backward_s = job.compute[0].backward_s.value;
    out->optimizer_s = job.compute[0].optimizer_s.value;
    out->n_buckets = (int)plan.n_buckets;
    for (size_t b = 0; b < plan.n_buckets; b++) {
        for (size_t i = plan.first[b]; i < plan.first[b + 1]; i++)
            out->ready[b] = fmax(out->ready[b], job.tensors[plan.index[i]].ready);
        /* A ring of 2: two steps, each of half the bytes. */
        out->wire_s[b] = 2 * c->latency_s + (double)plan.bytes[b] / c->rate_Bps;
    }
out:
    lk_bucket_plan_fini(&plan);
    lk_job_fini(&job);
    return st;
}

static double after(double from, double to, double t)
{
    return fmax(0, to - fmax(from, t));
}

/* One step: start[] moves on to the next; adds the exposed wait and wire to row. */
static void run_step(const struct step *p, const double *slow, double *start, double *row)
{
    double own_end[RANKS], ended = 0;

    for (int r = 0; r < RANKS; r++)
        own_end[r] = start[r] + slow[r] * (p->forward_s + p->backward_s);
    for (int b = 0; b < p->n_buckets; b++) {
        double arrival[RANKS], begin = 0, end;

        for (int r = 0; r < RANKS; r++) {
            double ready = start[r] + slow[r] * (p->forward_s + p->ready[b] * p->backward_s);

            arrival[r] = fmax(ready, ended);
            begin = fmax(begin, arrival[r]);
        }
        end = begin + p->wire_s[b];
        for (int r = 0; r < RANKS; r++) {
            row[LK_LOSS_STRAGGLER] += after(arrival[r], begin, own_end[r]) / RANKS;
            row[LK_LOSS_WIRE] += after(begin, end, own_end[r]) / RANKS;
        }
        ended = end;
    }
    for (int r = 0; r < RANKS; r++)
        start[r] = fmax(own_end[r], ended) + slow[r] * p->optimizer_s;
}

/* Rows of a step in steady state. */
static void expect(const struct step *p, double factor, double *row)
{
    const double slow[RANKS] = {1, factor};
    double start[RANKS] = {0}, compute_s = p->forward_s + p->backward_s;

    for (int i = 0; i < SETTLE_STEPS; i++) {
        for (int k = 0; k < LK_LOSS_COUNT; k++)
            row[k] = 0;
        run_step(p, slow, start, row);
    }
    row[LK_LOSS_IDEAL] = compute_s + p->optimizer_s;
    row[LK_LOSS_SLOW_RANK] = (factor - 1) * compute_s / RANKS;
    row[LK_LOSS_OPTIMIZER] = (factor - 1) * p->optimizer_s / RANKS;
}

/* ---- The run ---- */

static enum lk_status run(const char *program, const char *job, const char *dir, const char *name,
                          const char *words, struct lk_run_set *out)
{
    enum lk_status st = LK_OK;
    char *all = NULL;

    LK_TRY(lk_asprintf(&all,
                       "--device=timed --model=replay --job='%s' --local-batch=8 --steps=20 "
                       "--warmup=5 --bucket-cap=64KiB %s",
                       job, words));
    LK_TRY(truth_run(program, dir, name, all, out));
out:
    free(all);
    return st;
}

/* The run of TRIES with the shortest mean step; ref NULL: analysed against itself. */
static enum lk_status measure(const char *program, const char *job, const char *dir,
                              const char *name, const char *words, const struct lk_run *ref,
                              struct truth_run *out)
{
    enum lk_status st = LK_OK;
    struct truth_run tries[TRIES] = {0};
    size_t best = 0;

    for (size_t k = 0; k < TRIES; k++) {
        char numbered[32];
        const struct lk_run *against;

        snprintf(numbered, sizeof numbered, "%s-%zu", name, k);
        LK_TRY(run(program, job, dir, numbered, words, &tries[k].set));
        against = ref ? ref : &tries[k].set.runs[0];
        LK_TRY(lk_analyze(&tries[k].set.runs[0], &against, 1, &tries[k].a));
        if (tries[k].a.step_s < tries[best].a.step_s)
            best = k;
    }
    *out = tries[best];
    tries[best] = (struct truth_run){0};
out:
    for (size_t k = 0; k < TRIES; k++)
        truth_run_fini(&tries[k]);
    return st;
}

static enum lk_status check_case(const char *program, const char *job, const char *dir, size_t i,
                                 const struct lk_run *ref, int *wrong)
{
    const struct truth_case *c = &cases[i];
    enum lk_status st = LK_OK;
    struct truth_run two = {0};
    double row[LK_LOSS_COUNT];
    char name[16], words[160];
    struct step p;

    snprintf(name, sizeof name, "case%zu", i);
    snprintf(words, sizeof words,
             "-n %d --slow-rank=1:%g --fault='slow:rate=%.0fB/s,latency=%.0fus'", RANKS, c->slow,
             c->rate_Bps, 1e6 * c->latency_s);
    LK_TRY(read_step(job, c, &p));
    expect(&p, c->slow, row);
    LK_TRY(measure(program, job, dir, name, words, ref, &two));
    *wrong += truth_compare(c->name, two.a.step_s, two.a.losses_s, row);
out:
    truth_run_fini(&two);
    return st;
}

static enum lk_status check_all(const char *dir, char **argv)
{
    const char *program = argv[1] ? argv[1] : "build/lockstep";
    const char *job = argv[1] && argv[2] ? argv[2] : "tests/data/slow_link.job.json";
    enum lk_status st = LK_OK;
    struct truth_run one = {0};
    int wrong = 0;

    LK_TRY(measure(program, job, dir, "one", "-n 1", NULL, &one));
    for (size_t i = 0; i < LK_COUNT(cases); i++)
        LK_TRY(check_case(program, job, dir, i, &one.set.runs[0], &wrong));
    LK_TRY(truth_verdict(wrong));
out:
    truth_run_fini(&one);
    return st;
}

int main(int argc, char **argv)
{
    (void)argc;
    return truth_main("bench/truth_links", check_all, argv);
}
