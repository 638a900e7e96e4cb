/*
 * lockstep run --sharding, end to end: what trace, analysis and job.json say of it, the forecast of
 * the run itself, and its replay.
 */
#include "base/array.h"
#include "facts/job.h"
#include "facts/trace.h"
#include "profiler/analysis/steps.h"
#include "sim/step/volume.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A perceptron whose gradients become ready in the reverse of registration order, as its units are:
 * forecasts cut the same units. */
#define TINY                                                                                       \
    "--model=mlp --layers=3 --channels=24 --context=8 --vocab=32 --samples=4096 --no-pin -b4 "     \
    "--bucket-cap=2KiB --steps=4 --warmup=2 "

static const struct row {
    const char *options;
    int ranks, group, accumulation;
    enum lk_sharding sharding;
    enum lk_reduction reduce;
    int element;    /* bytes of a gradient's */
    int norm_bytes; /* of what ranks tell each other of all gradients, in a step */
} rows[] = {
    {"--sharding=zero1", 2, 0, 2, LK_SHARDING_ZERO1, LK_REDUCTION_LAST, 4, 0},
    {"--sharding=zero2", 2, 0, 1, LK_SHARDING_ZERO2, LK_REDUCTION_LAST, 4, 0},
    {"--sharding=zero3", 3, 0, 2, LK_SHARDING_ZERO3, LK_REDUCTION_EVERY, 4, 0},
    {"--sharding=zero3 --reduce=last", 2, 0, 2, LK_SHARDING_ZERO3, LK_REDUCTION_LAST, 4, 0},
    {"--sharding=shard-grad-op", 2, 0, 2, LK_SHARDING_GRAD_OP, LK_REDUCTION_EVERY, 4, 0},
    {"--sharding=hsdp --shard-group=2", 4, 2, 2, LK_SHARDING_HSDP, LK_REDUCTION_EVERY, 4, 0},
    {"--sharding=hsdp --shard-group=2 --reduce=scatter", 4, 2, 2, LK_SHARDING_HSDP,
     LK_REDUCTION_SCATTER, 4, 0},
    {"--sharding=hsdp --shard-group=2 --reduce=last", 4, 2, 2, LK_SHARDING_HSDP, LK_REDUCTION_LAST,
     4, 0},
    {"--sharding=zero1 --dtype=bf16", 2, 0, 2, LK_SHARDING_ZERO1, LK_REDUCTION_LAST, 2, 0},
    {"--sharding=zero2 --dtype=fp16", 2, 0, 1, LK_SHARDING_ZERO2, LK_REDUCTION_LAST, 2, 4},
    {"--sharding=zero3 --clip-norm=0.1", 3, 0, 2, LK_SHARDING_ZERO3, LK_REDUCTION_EVERY, 4, 4},
    {"--sharding=hsdp --shard-group=2 --dtype=fp16", 4, 2, 2, LK_SHARDING_HSDP, LK_REDUCTION_EVERY,
     2, 4},
};

static char *in_run(const struct row *r, const char *name)
{
    char *path;

    must(lk_asprintf(&path, "%s/run/k%d-b4-a%d-r0/%s", scratch_dir, r->ranks, r->accumulation,
                     name));
    return path;
}

/* Sum the bytes of a step's collectives by function: all of the sharding, units of both kinds;
 * apart those of the all-reduce of a number of all gradients. */
static void sum_bytes(const struct lk_trace *t, double bytes[LK_COLL_COUNT], double *norm)
{
    double steps = (double)(t->info.steps - t->info.warmup_steps);

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        const char *name = lk_trace_span_name(t, s);
        enum lk_coll c;

        if (s->kind != LK_SPAN_COLLECTIVE || s->step < t->info.warmup_steps)
            continue;
        if (s->index < 0) { /* of all gradients */
            *norm += (double)s->bytes / steps;
            continue;
        }
        ck_assert(lk_coll_find(name, strcspn(name, " "), &c));
        bytes[c] += (double)s->bytes / steps;
    }
}

/* The run moves what forecasts of it count, up to the padding of a unit to equal shards: at most an
 * element a rank, of 4 bytes, of each collective. */
static void check_volume(const struct row *r, const struct lk_job *j, const struct lk_trace *t)
{
    const struct lk_config c = {.world_size = r->ranks,
                                .nodes = 1,
                                .accumulation = r->accumulation,
                                .reduce = j->reduce,
                                .first_bytes = j->first_bytes,
                                .cap_bytes = j->cap_bytes,
                                .sharding = j->sharding,
                                .shard_group = j->shard_group};
    double run[LK_COLL_COUNT] = {0}, forecast[LK_COLL_COUNT] = {0}, padding[LK_COLL_COUNT] = {0};
    struct lk_volume v;
    double norm = 0;

    sum_bytes(t, run, &norm);
    ck_assert_double_eq(norm, r->norm_bytes);
    ck_assert_int_eq(j->global_norm, r->norm_bytes > 0);
    ck_assert_int_eq(j->tensors[0].dtype == LK_F32, r->element != 2);
    must(lk_volume_init(&v, j, &c));
    for (size_t i = 0; i < v.n; i++) {
        int times = v.steps[i].every_micro_batch ? r->accumulation : 1;

        if (v.steps[i].coll == LK_ALL_REDUCE && v.steps[i].bucket < 0) {
            ck_assert_uint_eq(v.steps[i].bytes, (uint64_t)r->norm_bytes);
            ck_assert_int_eq(v.colls[i].ranks, r->group ? r->group : r->ranks);
            ck_assert_double_eq(v.steps[i].ready, LK_STEP_OPTIMIZER);
            norm -= (double)v.steps[i].bytes;
            continue;
        }
        forecast[v.steps[i].coll] += (double)v.steps[i].bytes * times;
        padding[v.steps[i].coll] += 4.0 * r->ranks * times * (v.steps[i].bucket < 0 ? 8 : 1);
    }
    lk_volume_fini(&v);
    ck_assert_double_eq(norm, 0);
    for (int i = 0; i < LK_COLL_COUNT; i++)
        ck_assert_msg(fabs(run[i] - forecast[i]) <= padding[i],
                      "%s: %s of %g bytes a step, forecast %g", r->options,
                      lk_coll_name((enum lk_coll)i), run[i], forecast[i]);
    ck_assert_double_gt(run[LK_ALL_GATHER], 0);
}

START_TEST(says_what_ranks_divide)
{
    const struct row *r = &rows[_i];
    char *out = scratch_path(scratch_dir, "run"), *path;
    char *job = scratch_path(scratch_dir, "run/job.json");
    struct lk_trace t = {0};
    struct lk_job j = {0};
    struct program p;

    program_run(&p, scratch_dir, 0, "run -n%d -a%d --out=%s " TINY "%s", r->ranks, r->accumulation,
                out, r->options);
    program_fini(&p);
    path = in_run(r, "rank0.trace.json.gz");
    must(lk_trace_read(path, &t));
    ck_assert_int_eq(t.info.sharding, r->sharding);
    ck_assert_int_eq(t.info.shard_group, r->group);
    ck_assert_ptr_nonnull(lk_run_info_value(&t.info, "optimizer_state_bytes"));
    must(lk_job_read(job, &j));
    ck_assert_int_eq(j.sharding, r->sharding);
    ck_assert_int_eq(j.shard_group, r->group);
    ck_assert_int_eq(j.reduce, r->reduce);
    ck_assert_int_eq(j.runs[0].config.sharding, r->sharding);
    ck_assert_uint_eq(j.n_collectives, 0); /* those of the sharding are no others */
    check_volume(r, &j, &t);
    lk_trace_fini(&t);
    lk_job_fini(&j);
    free(path);
    free(job);
    free(out);
}
END_TEST

/* A run's replay moves the same bytes, and its own job says the same sharding. */
START_TEST(is_replayed)
{
    const struct row *r = &rows[_i];
    char *job = scratch_path(scratch_dir, "run/job.json"), *out = scratch_path(scratch_dir, "run");
    char *again = scratch_path(scratch_dir, "again"), *path = in_run(r, "rank0.trace.json.gz");
    double run[LK_COLL_COUNT] = {0}, replay[LK_COLL_COUNT] = {0}, of_run = 0, of_replay = 0;
    struct lk_trace a = {0}, b = {0};
    struct program p;
    char *other;

    program_run(&p, scratch_dir, 0, "run -n%d -a%d --out=%s " TINY "%s", r->ranks, r->accumulation,
                out, r->options);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "replay %s -n%d --steps=3 --warmup=1 --no-pin --out=%s", job,
                r->ranks, again);
    program_fini(&p);
    must(lk_asprintf(&other, "%s/k%d-b4-a%d-r0/rank0.trace.json.gz", again, r->ranks,
                     r->accumulation));
    must(lk_trace_read(path, &a));
    must(lk_trace_read(other, &b));
    ck_assert_int_eq(b.info.sharding, r->sharding);
    ck_assert_int_eq(b.info.shard_group, r->group);
    if (r->accumulation > 1) /* else there is no difference */
        ck_assert_int_eq(lk_run_info_reduction(&b.info), lk_run_info_reduction(&a.info));
    sum_bytes(&a, run, &of_run);
    sum_bytes(&b, replay, &of_replay);
    ck_assert_double_eq(of_run, of_replay);
    for (int i = 0; i < LK_COLL_COUNT; i++)
        ck_assert_double_eq_tol(run[i], replay[i], 0.5);
    lk_trace_fini(&a);
    lk_trace_fini(&b);
    free(other);
    free(path);
    free(again);
    free(out);
    free(job);
}
END_TEST

/* Fill the values of a column of a table of CSV, as many rows as there are; return how many. */
static int column_of(const char *csv, const char *column, double *out, int most)
{
    size_t commas = 0, length = strlen(column);
    const char *at = csv, *line = strchr(csv, '\n');
    int n = 0;

    ck_assert_ptr_nonnull(line);
    while (strncmp(at, column, length) != 0 || !strchr(",\n", at[length])) {
        at = strchr(at, ',');
        ck_assert_msg(at && at < line, "no column %s: %s", column, csv);
        at++;
        commas++;
    }
    for (; line && line[1]; line = strchr(line + 1, '\n')) {
        const char *cell = line + 1;

        for (size_t i = 0; i < commas; i++)
            cell = strchr(cell, ',') + 1;
        ck_assert_int_lt(n, most);
        out[n++] = strchr(",\n", *cell) ? NAN : strtod(cell, NULL);
    }
    return n;
}

/* Of what a rank's ring sends for a unit's gradients the bus bandwidth is made: a reduce-scatter's,
 * of the group. */
START_TEST(bus_bandwidth_is_of_what_gradients_take)
{
    enum { ROWS = 64 };
    const struct row *r = &rows[_i];
    double bucket[ROWS], algbw[ROWS], busbw[ROWS], sharers = r->group ? r->group : r->ranks;
    char *out = scratch_path(scratch_dir, "run");
    struct program p;
    int n, units = 0;

    program_run(&p, scratch_dir, 0, "run -n%d -a%d --out=%s " TINY "%s", r->ranks, r->accumulation,
                out, r->options);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze %s --table=buckets --format=csv", out);
    n = column_of(p.out, "bucket", bucket, ROWS);
    ck_assert_int_eq(column_of(p.out, "algbw_Bps", algbw, ROWS), n);
    ck_assert_int_eq(column_of(p.out, "busbw_Bps", busbw, ROWS), n);
    for (int i = 0; i < n; i++) {
        if (bucket[i] < 0)
            continue;
        ck_assert_double_eq_tol(busbw[i] / algbw[i], (sharers - 1) / sharers, 1e-9);
        units++;
    }
    ck_assert_int_gt(units, 1);
    program_fini(&p);
    free(out);
}
END_TEST

/* By the ring's formulas ZeRO 1 sends what an all-reduce does, full sharding half as much again. */
static const struct sent {
    const char *options;
    int ranks;
    double of_ddp;
} sent[] = {
    {"--sharding=zero1", 2, 1},
    {"--sharding=zero3", 3, 1.5},
    /* in a group 3/2 of the parameters, and an all-reduce of the shards, 1/2, against 3/2 */
    {"--sharding=hsdp --shard-group=2", 4, 4.0 / 3},
    {"--compression=bf16", 2, 0.5}};

START_TEST(sends_by_the_rings_formula)
{
    const struct sent *s = &sent[_i];
    char *plain = scratch_path(scratch_dir, "plain"), *out = scratch_path(scratch_dir, "run");
    double bytes[2];
    struct program p;

    program_run(&p, scratch_dir, 0, "run -n%d --out=%s " TINY, s->ranks, plain);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "run -n%d --out=%s " TINY "%s", s->ranks, out, s->options);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze %s %s --table=configurations --format=csv", plain,
                out);
    ck_assert_int_eq(column_of(p.out, "sent_bytes", bytes, 2), 2);
    ck_assert_double_eq_tol(fmax(bytes[0], bytes[1]) / fmin(bytes[0], bytes[1]),
                            fmax(s->of_ddp, 1 / s->of_ddp), 0.03); /* units are padded */
    program_fini(&p);
    free(plain);
    free(out);
}
END_TEST

/*
 * The gradients of a step were ready before their collective began, however many steps compute is
 * ahead of it, and no span is lost where every tensor is a bucket of its own.
 */
static const char *const late[] = {"--staleness=1", "--staleness=3", "--staleness=2 --overlap=none",
                                   "--staleness=2 --overlap=partial"};

START_TEST(late_gradients_are_ready_before_they_are_reduced)
{
    char *out = scratch_path(scratch_dir, "run"), *path;
    struct row r = {.ranks = 2, .accumulation = 1};
    struct lk_trace t = {0};
    struct program p;
    size_t n = 0;

    program_run(&p, scratch_dir, 0,
                "run -n2 --model=mlp --layers=6 --channels=24 --context=8 --vocab=32 --no-pin -b4 "
                "--warmup=0 --steps=120 --bucket-cap=tensor --out=%s --sharding=async %s "
                "--fault=slow:rate=20MB/s,latency=100us",
                out, late[_i]);
    program_fini(&p);
    path = in_run(&r, "rank0.trace.json.gz");
    must(lk_trace_read(path, &t));
    ck_assert_uint_eq(t.dropped, 0);
    for (size_t i = 0; i < t.n_spans; i++) {
        const struct lk_span *s = &t.spans[i].span;

        if (s->kind != LK_SPAN_COLLECTIVE || s->index < 0)
            continue;
        ck_assert_msg(s->ready_ns <= s->start_ns, "bucket %d of step %u was ready %g us too late",
                      (int)s->index, (unsigned)s->step,
                      ((double)s->ready_ns - (double)s->start_ns) / 1e3);
        n++;
    }
    ck_assert_uint_gt(n, 120);
    lk_trace_fini(&t);
    free(path);
    free(out);
}
END_TEST

SUITE(run_sharded, t)
{
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, says_what_ranks_divide, 0, (int)LK_COUNT(rows));
    tcase_add_loop_test(t, is_replayed, 0, (int)LK_COUNT(rows));
    tcase_add_loop_test(t, bus_bandwidth_is_of_what_gradients_take, 0, (int)LK_COUNT(rows));
    tcase_add_loop_test(t, sends_by_the_rings_formula, 0, (int)LK_COUNT(sent));
    tcase_add_loop_test(t, late_gradients_are_ready_before_they_are_reduced, 0,
                        (int)LK_COUNT(late));
}
