/*
 * lockstep run and replay with hooks, averaged parameters and clipping, end to end: the
 * collectives of the trace, the configuration in job.json, and the forecasts that start from it.
 */
#include "base/array.h"
#include "base/file.h"
#include "facts/job.h"
#include "facts/trace.h"
#include "profiler/analysis/steps.h"
#include "sim/step/config.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8 };

static void read_run(const char *name, struct lk_trace *trace, struct lk_job *job)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s/k2-b8-a1-r0/rank0.trace.json.gz", scratch_dir, name);
    must(lk_trace_read(path, trace));
    snprintf(path, sizeof path, "%s/%s/job.json", scratch_dir, name);
    must(lk_job_read(path, job));
}

/* Train a small mlp on two ranks into the folder `run`, with more options. */
static void train(int steps, const char *options)
{
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run -n2 --model=mlp --layers=2 --channels=16 --context=8 --vocab=32 --steps=%d "
                "--warmup=0 --out=%s/run --force %s",
                steps, scratch_dir, options);
    program_fini(&p);
}

/* Add the bytes of a step's collectives of buckets, or of others, and count them. */
static uint64_t bytes_of(const struct lk_trace *t, uint32_t step, bool buckets, int *out_n)
{
    uint64_t bytes = 0;

    *out_n = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind != LK_SPAN_COLLECTIVE || s->step != step || (s->index >= 0) != buckets)
            continue;
        bytes += s->bytes;
        ++*out_n;
    }
    return bytes;
}

static double counter_of(const struct lk_trace *t, uint32_t step, const char *name)
{
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == LK_SPAN_COUNTER && t->spans[i].span.step == step &&
            !strcmp(lk_trace_span_name(t, &t->spans[i].span), name))
            return t->spans[i].span.value;
    return NAN;
}

/* Layer 1 of the mlp takes 8 inputs, the output layer has 32: matrices (16, 8), (16, 16), (32, 16);
 * one bucket. PowerSGD of rank 1 keeps their 24 + 32 + 48 numbers and the 64 of the biases. */
enum { MATRICES = 16 * 8 + 16 * 16 + 32 * 16, BIASES = 16 + 16 + 32, FACTORS = 24 + 32 + 48 };

static const struct {
    const char *options;
    uint64_t bytes;       /* of gradients, in the last step */
    int n;                /* collectives of them */
    const char *averaged; /* steps in which parameters are averaged */
    struct lk_config config;
} runs[] = {
    {"", 4 * (MATRICES + BIASES), 1, "........", {0}},
    {"--compression=fp16",
     2 * (MATRICES + BIASES),
     1,
     "........",
     {.compression = LK_COMPRESSION_FP16}},
    {"--compression=bf16",
     2 * (MATRICES + BIASES),
     1,
     "........",
     {.compression = LK_COMPRESSION_BF16}},
    {"--compression=powersgd --powersgd-start=4 --powersgd-min-rate=1",
     4 * (FACTORS + BIASES),
     3,
     "........",
     {.compression = LK_COMPRESSION_POWERSGD, .powersgd_rank = 1}},
    {"--sharding=local-sgd --period=3",
     0,
     0,
     "x..x..xx",
     {.sharding = LK_SHARDING_LOCAL_SGD, .averaging_period = 3}},
    {"--sharding=diloco --period=3",
     0,
     0,
     "..x..x.x",
     {.sharding = LK_SHARDING_DILOCO, .averaging_period = 3}},
    {"--sharding=async --staleness=2",
     4 * (MATRICES + BIASES),
     1,
     "........",
     {.sharding = LK_SHARDING_ASYNC, .staleness = 2}},
    {"--algorithm=tree", 4 * (MATRICES + BIASES), 1, "........", {.algo = LK_ALGO_TREE}},
};

START_TEST(a_run_says_what_it_exchanges)
{
    struct lk_trace t = {0};
    struct lk_job job = {0};
    struct lk_config current;
    char options[256];
    int n;

    snprintf(options, sizeof options, "--check-every=1 %s", runs[_i].options);
    train(STEPS, options);
    read_run("run", &t, &job);
    ck_assert_uint_eq(bytes_of(&t, STEPS - 1, true, &n), runs[_i].bytes);
    ck_assert_int_eq(n, runs[_i].n);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t bytes = bytes_of(&t, step, false, &n);

        /* Weights are padded to 64 bytes a tensor. */
        ck_assert_int_eq(n, runs[_i].averaged[step] == 'x');
        ck_assert_uint_ge(bytes, (uint64_t)n * 4 * (MATRICES + BIASES));
    }
    ck_assert_uint_eq(job.n_runs, 1);
    current = lk_config_current(&job);
    ck_assert_int_eq(current.compression, runs[_i].config.compression);
    ck_assert_int_eq(current.powersgd_rank, runs[_i].config.powersgd_rank);
    ck_assert_int_eq(current.sharding, runs[_i].config.sharding);
    ck_assert_int_eq(current.averaging_period, runs[_i].config.averaging_period);
    ck_assert_int_eq(current.staleness, runs[_i].config.staleness);
    ck_assert_int_eq(current.algo, runs[_i].config.algo);
    ck_assert(lk_config_same_scheme(&current, &job.runs[0].config));
    ck_assert_uint_eq(job.n_collectives, 0);
    ck_assert_uint_eq(job.tensors[0].rows, 16);
    lk_trace_fini(&t);
    lk_job_fini(&job);
}
END_TEST

/* The norm is in the trace, and what is left of the gradients is seen in the next step's: a run
 * that clips hard learns less. */
START_TEST(clipping_is_in_the_trace)
{
    struct lk_trace t = {0};
    struct lk_job job = {0};
    struct program p;

    train(STEPS, "--noise-every=1 --clip-norm=0.01");
    read_run("run", &t, &job);
    for (uint32_t step = 0; step < STEPS; step++) {
        double norm = counter_of(&t, step, "gradient norm before clipping");

        ck_assert_double_gt(norm, 0.01);
        ck_assert_double_eq_tol(norm, counter_of(&t, step, "gradient norm"), 1e-5 * norm);
    }
    program_run(&p, scratch_dir, 0, "analyze %s/run", scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.out, "about the critical batch"));
    program_fini(&p);
    lk_trace_fini(&t);
    lk_job_fini(&job);
}
END_TEST

/* The second step overflows on one rank: the answer, the trace and the result say so, and the job
 * has gradients of 16 bits, which the buckets' bytes are. */
START_TEST(skipped_steps_are_said)
{
    struct lk_trace t = {0};
    struct lk_job job = {0};
    struct program p;
    char path[512], *text = NULL;
    size_t size;
    int buckets;

    program_run(&p, scratch_dir, 0,
                "run -n2 --model=mlp --layers=2 --channels=16 --context=8 --vocab=32 --steps=%d "
                "--warmup=0 --out=%s/run --dtype=fp16 --growth-interval=3 --lr-warmup=5 "
                "--learning-rate=0.05 --verify --plant=overflow",
                STEPS, scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.out, "loss scale at the end: 131072; 1 step overflowed"));
    program_fini(&p);
    read_run("run", &t, &job);
    for (uint32_t step = 0; step < STEPS; step++) {
        static const double scales[STEPS] = {65536, 65536, 32768, 32768,
                                             32768, 65536, 65536, 65536};
        uint32_t applied = step < 2 ? step : step - 1;

        ck_assert_double_eq(counter_of(&t, step, "loss scale"), scales[step]);
        ck_assert_double_eq(counter_of(&t, step, "skipped steps"), step > 0);
        /* The schedule counts steps that were applied. */
        ck_assert_double_eq_tol(counter_of(&t, step, "learning rate"),
                                0.05 * fmin(1, (applied + 1) / 5.0), 1e-12);
    }
    ck_assert_int_eq(job.tensors[0].dtype, LK_F16);
    ck_assert(job.master_weights && job.global_norm);
    ck_assert_uint_eq(job.n_collectives, 0);
    ck_assert_uint_eq(bytes_of(&t, 3, true, &buckets), lk_job_gradient_bytes(&job));
    snprintf(path, sizeof path, "%s/run/k2-b8-a1-r0/result.json", scratch_dir);
    must(lk_file_read_max(path, SIZE_MAX, &text, &size));
    ck_assert_ptr_nonnull(strstr(text, "\"loss_scale\": 131072"));
    ck_assert_ptr_nonnull(strstr(text, "\"skipped_steps\": 1"));
    free(text);
    lk_trace_fini(&t);
    lk_job_fini(&job);
}
END_TEST

/* The warm-up of an epoch: 96 samples at 2 ranks of 8 are 6 steps. */
START_TEST(the_rate_grows_over_an_epoch)
{
    struct lk_trace t = {0};
    struct lk_job job = {0};

    train(STEPS, "--samples=96 --lr-warmup=1epoch --learning-rate=0.01 --reference-batch=4 "
                 "--lr-scaling=sqrt");
    read_run("run", &t, &job);
    for (uint32_t step = 0; step < STEPS; step++)
        ck_assert_double_eq_tol(counter_of(&t, step, "learning rate"),
                                0.02 * fmin(1, (step + 1) / 6.0), 1e-12);
    lk_trace_fini(&t);
    lk_job_fini(&job);
}
END_TEST

/* A replay has the words of a run, and its collectives: of a job with known matrices. */
START_TEST(a_replay_has_the_words)
{
    static const struct {
        const char *options;
        uint64_t bytes; /* of gradients, in the last step */
    } rows[] = {{"", 4 * 65536},
                {"--compression=bf16", 2 * 65536},
                {"--sharding=diloco", 0},
                /* The job has no shapes: 4 of 128 x 128, for the run as for forecasts. */
                {"--compression=powersgd --powersgd-start=2", 4 * 4 * (128 + 128)}};
    struct lk_trace t = {0};
    struct lk_job job = {0};
    struct program p;
    int n;

    program_run(&p, scratch_dir, 0,
                "replay tests/data/slow_link.job.json -n2 --steps=3 --warmup=0 --out=%s/run "
                "--force %s",
                scratch_dir, rows[_i].options);
    program_fini(&p);
    read_run("run", &t, &job);
    ck_assert_uint_eq(bytes_of(&t, 2, true, &n), rows[_i].bytes);
    lk_trace_fini(&t);
    lk_job_fini(&job);
}
END_TEST

/* A job of runs with a scheme is replayed with it, unless another one is asked for. */
static const struct {
    const char *run, *replay;
    uint64_t bytes; /* of gradients in the last step */
    int period;     /* of averaging */
    int staleness;
    enum lk_algo algo; /* of the all-reduce */
} taken[] = {
    {"--compression=bf16", "", 2 * (MATRICES + BIASES), 0, 0, LK_ALGO_AUTO},
    {"--compression=bf16", "--compression=none", 4 * (MATRICES + BIASES), 0, 0, LK_ALGO_AUTO},
    {"--sharding=local-sgd --period=2", "", 0, 2, 0, LK_ALGO_AUTO},
    {"--sharding=local-sgd --period=2", "--sharding=ddp", 4 * (MATRICES + BIASES), 0, 0,
     LK_ALGO_AUTO},
    {"--sharding=async --staleness=2", "", 4 * (MATRICES + BIASES), 0, 2, LK_ALGO_AUTO},
    {"--sharding=async", "--sharding=ddp", 4 * (MATRICES + BIASES), 0, 0, LK_ALGO_AUTO},
    {"", "--sharding=async", 4 * (MATRICES + BIASES), 0, 1, LK_ALGO_AUTO},
    {"", "--sharding=async --staleness=3", 4 * (MATRICES + BIASES), 0, 3, LK_ALGO_AUTO},
    {"--compression=powersgd --powersgd-start=2 --powersgd-min-rate=1",
     "--powersgd-start=2 --powersgd-min-rate=1", 4 * (FACTORS + BIASES), 0, 0, LK_ALGO_AUTO},
    {"--algorithm=tree", "", 4 * (MATRICES + BIASES), 0, 0, LK_ALGO_TREE},
    {"--algorithm=tree", "--algorithm=ring", 4 * (MATRICES + BIASES), 0, 0, LK_ALGO_RING}};

START_TEST(a_replay_does_as_the_job)
{
    struct lk_trace t = {0};
    struct lk_job job = {0};
    struct program p;
    int n;

    train(4, taken[_i].run);
    program_run(&p, scratch_dir, 0,
                "replay %s/run/job.json -n2 --steps=4 --warmup=0 --out=%s/again --force %s",
                scratch_dir, scratch_dir, taken[_i].replay);
    program_fini(&p);
    read_run("again", &t, &job);
    ck_assert_uint_eq(bytes_of(&t, 3, true, &n), taken[_i].bytes);
    ck_assert_int_eq(job.averaging_period, taken[_i].period);
    ck_assert_int_eq(job.staleness, taken[_i].staleness);
    ck_assert_int_eq(job.algo, taken[_i].algo);
    lk_trace_fini(&t);
    lk_job_fini(&job);
}
END_TEST

/* A run corrects the forecast of its own algorithm, and not that of another: asked for in words, it
 * is the current configuration, with the time that was measured. */
START_TEST(a_run_is_of_its_algorithm)
{
    static const char *const asked[] = {
        "predict %1$s/run %1$s/here.json --gpus=2 --anyway --csv=%1$s/csv",
        "whatif %1$s/run %1$s/here.json --gpus=2 --anyway "
        "--algorithm=tree --csv=%1$s/csv"};
    char measured[2][64] = {"", ""};
    struct program p;

    train(STEPS, "--algorithm=tree");
    program_run(&p, scratch_dir, 0,
                "calibrate -n2 --sizes=4KiB --repetitions=3 --budget=1s --no-overlap "
                "--no-colocation --out=%s/here.json",
                scratch_dir);
    program_fini(&p);
    for (size_t i = 0; i < LK_COUNT(asked); i++) {
        char *csv, *at;
        size_t column = 0;

        program_run(&p, scratch_dir, 0, asked[i], scratch_dir);
        program_fini(&p);
        csv = scratch_read(scratch_dir, "csv");
        at = strstr(csv, "measured_step_s");
        ck_assert_msg(at != NULL, "%s", csv);
        for (const char *c = csv; c < at; c++)
            column += *c == ',';
        at = strchr(csv, '\n');
        for (; column > 0; column--)
            at = strchr(at + 1, ',');
        snprintf(measured[i], sizeof measured[i], "%.*s", (int)strcspn(at + 1, ",\n"), at + 1);
        ck_assert_msg(strtod(measured[i], NULL) > 0, "%s: no time of the run: %s", asked[i], csv);
        free(csv);
    }
    ck_assert_str_eq(measured[0], measured[1]);
}
END_TEST

/* Return the first instant of a step's updates, and the last of its collectives. */
static void ends_of(const struct lk_trace *t, uint32_t step, uint64_t *update, uint64_t *reduced)
{
    *update = UINT64_MAX;
    *reduced = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->step == step && s->kind == LK_SPAN_OPTIMIZER && s->start_ns < *update)
            *update = s->start_ns;
        if (s->step == step && s->kind == LK_SPAN_COLLECTIVE && s->end_ns > *reduced)
            *reduced = s->end_ns;
    }
}

/* An update comes behind the gradients that it takes, two steps old, and not behind newer ones. A
 * step's window ends without its own collectives, and has the wait at the bound. */
START_TEST(late_gradients_are_in_the_trace)
{
    enum { LATE = 2 };
    struct lk_trace t = {0};
    struct lk_job job = {0};
    struct lk_rank_steps s = {0};
    uint64_t update, reduced, unused;
    double waited = 0;
    int newer = 0;

    train(STEPS, "--sharding=async --staleness=2 --fault=slow:rate=1MB/s");
    read_run("run", &t, &job);
    for (uint32_t step = LATE; step < STEPS; step++) {
        ends_of(&t, step, &update, &unused);
        ends_of(&t, step - LATE, &unused, &reduced);
        ck_assert_uint_le(reduced, update);
        ends_of(&t, step - 1, &unused, &reduced);
        newer += reduced > update;
    }
    ck_assert_int_gt(newer, 0);
    ck_assert_int_eq(lk_rank_steps_read(&t, &s), LK_OK);
    ck_assert_uint_eq(s.n_steps, STEPS);
    for (size_t i = 0; i < s.n_steps; i++) {
        struct lk_step_split x;
        double sum = 0;

        lk_step_split(&s, &s.steps[i], NULL, &x);
        for (size_t p = 0; p < LK_PART_COUNT; p++)
            sum += x.s[p];
        ck_assert_double_eq_tol(sum, lk_step_window_s(&s.steps[i]), 1e-9);
        waited += x.s[LK_PART_WIRE];
        ck_assert_double_le(x.exposed_s, x.comm_s + 1e-12);
    }
    ck_assert_double_gt(waited, 0);
    lk_rank_steps_fini(&s);
    lk_trace_fini(&t);
    lk_job_fini(&job);
}
END_TEST

/* Measured steps before PowerSGD's first, or an averaging's, are not of the scheme: the answer
 * counts them. */
static const struct {
    const char *options, *says; /* NULL: nothing is to be said */
} early[] = {
    {"--compression=powersgd --steps=10 --warmup=5", "5 of 10 measured steps all-reduce whole"},
    {"--compression=powersgd --steps=3 --warmup=5", "3 of 3 measured steps all-reduce whole"},
    {"--compression=powersgd --steps=3 --warmup=10", NULL},
    {"--compression=powersgd --steps=3 --warmup=5 --ranks=1", NULL},
    {"--sharding=local-sgd --averaging-warmup=4 --steps=3 --warmup=2", "2 of 3 measured steps"},
    {"--compression=bf16 --steps=3 --warmup=2", NULL},
};

START_TEST(plain_steps_that_are_measured_are_counted)
{
    struct program p;
    const char *said;
    bool one = strstr(early[_i].options, "--ranks") != NULL;

    program_run(&p, scratch_dir, 0,
                "run --model=mlp --layers=2 --channels=16 --context=8 --vocab=32 --quiet "
                "--out=%s/run --force %s %s",
                scratch_dir, early[_i].options, one ? "" : "--ranks=2");
    said = strstr(p.out, "measured steps");
    ck_assert_msg((said != NULL) == (early[_i].says != NULL), "%s", p.out);
    if (early[_i].says)
        ck_assert_msg(strstr(p.out, early[_i].says) != NULL, "%s", p.out);
    program_fini(&p);
}
END_TEST

SUITE(run_schemes, tc)
{
    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tc, a_run_says_what_it_exchanges, 0, LK_COUNT(runs));
    tcase_add_test(tc, clipping_is_in_the_trace);
    tcase_add_test(tc, skipped_steps_are_said);
    tcase_add_test(tc, the_rate_grows_over_an_epoch);
    tcase_add_loop_test(tc, a_replay_has_the_words, 0, 4);
    tcase_add_test(tc, a_run_is_of_its_algorithm);
    tcase_add_loop_test(tc, plain_steps_that_are_measured_are_counted, 0, LK_COUNT(early));
    tcase_add_loop_test(tc, a_replay_does_as_the_job, 0, LK_COUNT(taken));
    tcase_add_test(tc, late_gradients_are_in_the_trace);
}
