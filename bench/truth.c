/*
 * Check that the waterfall of a real run shows what was done to it: runs on the timed device
 * (compute is a wait of known length, collectives are real), with a slow rank, loader or link, are
 * analysed against one rank alone, row by row.
 *
 *     build/bench/truth [LOCKSTEP]       the program to run; default build/lockstep
 *
 * Exit 1 when a row is off by more than 3 % of the step.
 */
#include "bench/lib/truth.h"
#include "base/array.h"
#include "profiler/analysis/job_build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMED                                                                                      \
    "--device=timed --timed-flops=2e9 --timed-bandwidth=4GB/s --local-batch=8 --steps=25 "         \
    "--warmup=3 --bucket-cap=96KiB --first-bucket=96KiB"

/*
 * Changes to a run of two ranks. The first run, without any, tells what the real collectives cost.
 */
static const struct truth_case {
    const char *name, *words;
    double slow;     /* rank 1 computes this much longer */
    double input_s;  /* a batch takes this long to prepare; 0: no time */
    double link_Bps; /* rate of a link; 0: as fast as it is */
} cases[] = {
    {"nothing", "", 0, 0, 0},
    {"slow rank", "--slow-rank=1:1.3", 0.3, 0, 0},
    {"slow loader", "--input-delay=250ms", 0, 250e-3, 0},
    {"slow link", "--fault=slow:rate=3MB/s", 0, 0, 3e6},
    {"slow link and slow rank",
     "--fault=slow:rate=3MB/s "
     "--slow-rank=1:1.2",
     0.2, 0, 3e6},
};

static enum lk_status run(const char *program, const char *dir, const char *name, int ranks,
                          const char *words, struct truth_run *out)
{
    enum lk_status st = LK_OK;
    char *all = NULL;

    LK_TRY(lk_asprintf(&all, "-n %d " TIMED " %s", ranks, words));
    LK_TRY(truth_run(program, dir, name, all, &out->set));
out:
    free(all);
    return st;
}

/* Exposed straggler wait and wire of slow links, means over two ranks, by the definitions. */
static enum lk_status follow_links(const struct truth_case *c, const struct lk_job *job,
                                   const struct lk_step_split *one, double *wait_s, double *wire_s)
{
    enum lk_status st = LK_OK;
    struct lk_bucket_plan plan = {0};
    const double pace[] = {1, 1 + c->slow};
    double end = 0;

    LK_TRY(lk_job_buckets(job, job->first_bytes, job->cap_bytes, &plan));
    *wait_s = *wire_s = 0;
    for (size_t b = 0; b < plan.n_buckets; b++) {
        double share = 0, arrival[2], begin = 0, before = end;

        for (size_t i = plan.first[b]; i < plan.first[b + 1]; i++)
            share = fmax(share, job->tensors[plan.index[i]].ready);
        for (int k = 0; k < 2; k++) {
            arrival[k] = fmax(
                before, pace[k] * (one->s[LK_PART_FORWARD] + share * one->s[LK_PART_BACKWARD]));
            begin = fmax(begin, arrival[k]);
        }
        /* A ring of two: each rank sends the bucket once. */
        end = begin + (double)plan.bytes[b] / c->link_Bps;
        for (int k = 0; k < 2; k++) {
            double done = pace[k] * (one->s[LK_PART_FORWARD] + one->s[LK_PART_BACKWARD]);

            *wait_s += fmax(0, begin - fmax(arrival[k], done)) / 2;
            *wire_s += fmax(0, end - fmax(begin, done)) / 2;
        }
    }
out:
    lk_bucket_plan_fini(&plan);
    return st;
}

/*
 * The rows as they must be, from the analysis of one rank alone and that of two ranks to whom
 * nothing was done. A rank that computes longer is slow itself, and the other waits for it as long.
 * A loader slower than the step makes the step as long as a batch takes. That is extra input; but
 * the loaders of two ranks are not in phase, and a rank may get its batch while the other still
 * waits: then it waits for the other, so the two rows are one here.
 */
static enum lk_status expect(const struct truth_case *c, const struct lk_job *job,
                             const struct lk_analysis *ref, const struct lk_analysis *base,
                             double *row)
{
    const struct lk_step_split *one = &ref->ranks[0].split;
    double compute_s = one->s[LK_PART_FORWARD] + one->s[LK_PART_BACKWARD];

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        row[i] = base->losses_s[i];
    row[LK_LOSS_SLOW_RANK] += c->slow * compute_s / 2;
    row[LK_LOSS_OPTIMIZER] += c->slow * one->s[LK_PART_OPTIMIZER] / 2;
    if (c->link_Bps > 0)
        return follow_links(c, job, one, &row[LK_LOSS_STRAGGLER], &row[LK_LOSS_WIRE]);
    row[LK_LOSS_STRAGGLER] += c->slow * compute_s / 2;
    if (c->input_s > base->step_s)
        row[LK_LOSS_INPUT] += c->input_s - base->step_s;
    return LK_OK;
}

/* Puts the straggler wait to the input, where they cannot be told apart. */
static void join_input(const struct truth_case *c, double *row)
{
    if (c->input_s <= 0)
        return;
    row[LK_LOSS_INPUT] += row[LK_LOSS_STRAGGLER];
    row[LK_LOSS_STRAGGLER] = 0;
}

static int compare(const struct truth_case *c, const struct lk_analysis *a, double *row)
{
    double found[LK_LOSS_COUNT];

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        found[i] = a->losses_s[i];
    join_input(c, found);
    join_input(c, row);
    return truth_compare(c->name, a->step_s, found, row);
}

static enum lk_status check_all(const char *dir, char **argv)
{
    const char *program = argv[1] ? argv[1] : "build/lockstep";
    enum lk_status st = LK_OK;
    struct truth_run one = {0};
    struct truth_run *two = NULL;
    const struct lk_run *ref;
    struct lk_job job = {0};
    int wrong = 0;

    LK_TRY(lk_alloc(&two, LK_COUNT(cases), sizeof *two));
    LK_TRY(run(program, dir, "one", 1, "", &one));
    ref = &one.set.runs[0];
    LK_TRY(lk_analyze(ref, &ref, 1, &one.a));
    LK_TRY(lk_job_build(&one.set, &job));
    for (size_t i = 0; i < LK_COUNT(cases); i++) {
        double row[LK_LOSS_COUNT];
        char name[16];

        snprintf(name, sizeof name, "case%zu", i);
        LK_TRY(run(program, dir, name, 2, cases[i].words, &two[i]));
        LK_TRY(lk_analyze(&two[i].set.runs[0], &ref, 1, &two[i].a));
        LK_TRY(expect(&cases[i], &job, &one.a, &two[0].a, row));
        wrong += compare(&cases[i], &two[i].a, row);
    }
    LK_TRY(truth_verdict(wrong));
out:
    for (size_t i = 0; two && i < LK_COUNT(cases); i++)
        truth_run_fini(&two[i]);
    free(two);
    lk_job_fini(&job);
    truth_run_fini(&one);
    return st;
}

int main(int argc, char **argv)
{
    (void)argc;
    return truth_main("bench/truth", check_all, argv);
}
