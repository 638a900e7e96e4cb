/*
 * A job has all traffic of its traces: made Kineto traces of a data-parallel job, with collectives
 * beside the gradients' that block forward, run beside backward or follow it. Bytes and exposed
 * time of the trace are those of the job. LOCKSTEP_CASES=100000 makes as many random traces.
 *
 * The host launches a step's work within its first millisecond, and the GPU begins after that. The
 * compute stream waits for a collective that blocks it, and the optimizer for all.
 */
#include "base/array.h"
#include "base/rng.h"
#include "base/units.h"
#include "profiler/analysis/job_build.h"
#include "profiler/import/import.h"
#include "sim/step/volume.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 1000, STEPS = 2, RANKS = 4, OPS_MAX = 64, STEP_US = 40000, GPU_FROM_US = 1000 };

enum where { FORWARD, BACKWARD, AFTER };

/* A collective beside gradients. */
struct extra {
    const char *name, *function; /* Kineto's, and ours */
    enum where where;
    int before;    /* kernel of the pass that is launched next */
    bool blocking; /* that kernel waits for it */
    int elements, us;
};

struct made {
    int n_forward, n_backward, kernel_us, bucket_us;
    struct extra extras[8];
    int n_extras;
};

struct writer {
    char *text;
    size_t n, capacity;
    int host, compute, net, link, t0; /* us: where each is */
    bool busy[STEP_US];               /* of the compute stream, by us of the step */
    struct {
        int from, to, extra; /* -1: of gradients */
    } transfers[OPS_MAX];
    int n_transfers;
};

static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct writer *w, const char *format, ...)
{
    va_list ap;
    int n;

    must(lk_array_grow(&w->text, &w->capacity, w->n + 1024, 1));
    va_start(ap, format);
    n = vsnprintf(w->text + w->n, 1024, format, ap);
    va_end(ap);
    ck_assert(n > 0 && n < 1024);
    w->n += (size_t)n;
}

static void put_range(struct writer *w, const char *cat, const char *name, int thread, int from,
                      int to)
{
    put(w,
        "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":9,\"tid\":%d,\"ts\":%d,\"dur\":%d},",
        cat, name, thread, w->t0 + from, to - from);
}

static void launch(struct writer *w, int thread)
{
    put(w,
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":9,"
        "\"tid\":%d,\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%d}},",
        thread, w->t0 + w->host, ++w->link);
    w->host += 2;
}

static void kernel(struct writer *w, int thread, int us)
{
    launch(w, thread);
    put(w,
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":1,\"tid\":7,\"ts\":%d,\"dur\":%d,"
        "\"args\":{\"device\":1,\"stream\":7,\"correlation\":%d}},",
        w->t0 + w->compute, us, w->link);
    for (int i = 0; i < us; i++)
        w->busy[w->compute + i] = true;
    w->compute += us;
}

static void transfer(struct writer *w, int thread, const char *name, int elements, int us,
                     int extra)
{
    const bool gathers = !strcmp(name, "_allgather_base");
    const bool scatters = !strcmp(name, "_reduce_scatter_base");
    int from = w->compute > w->net ? w->compute : w->net;

    launch(w, thread);
    put(w,
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_Generic(x)\",\"pid\":1,\"tid\":"
        "20,"
        "\"ts\":%d,\"dur\":%d,\"args\":{\"device\":1,\"stream\":20,\"correlation\":%d,"
        "\"Collective name\":\"%s\",\"In msg nelems\":%d,\"Out msg nelems\":%d,\"Group size\":%d,"
        "\"dtype\":\"Float\"}},",
        w->t0 + from, us, w->link, name, gathers ? elements / RANKS : elements,
        scatters ? elements / RANKS : elements, RANKS);
    w->net = from + us;
    w->transfers[w->n_transfers].from = from;
    w->transfers[w->n_transfers].to = w->net;
    w->transfers[w->n_transfers++].extra = extra;
}

static void put_extras(struct writer *w, const struct made *m, enum where where, int before,
                       int thread)
{
    for (int i = 0; i < m->n_extras; i++) {
        const struct extra *x = &m->extras[i];

        if (x->where != where || x->before != before)
            continue;
        transfer(w, thread, x->name, x->elements, x->us, i);
        if (x->blocking)
            w->compute = w->net;
    }
}

static void put_step(struct writer *w, const struct made *m, int number)
{
    int from;

    w->t0 = number * STEP_US;
    w->host = 10;
    w->compute = w->net = GPU_FROM_US;
    w->n_transfers = 0;
    memset(w->busy, 0, sizeof w->busy);
    from = w->host;
    for (int i = 0; i < m->n_forward; i++) {
        put_extras(w, m, FORWARD, i, 5);
        kernel(w, 5, m->kernel_us);
    }
    put_range(w, "user_annotation", "DistributedDataParallel.forward", 5, from, w->host);
    for (int i = 0; i < m->n_backward; i++) {
        from = w->host;
        put_extras(w, m, BACKWARD, i, 6);
        kernel(w, 6, m->kernel_us);
        if (i == m->n_backward / 2 || i == m->n_backward - 1)
            transfer(w, 6, "allreduce", 1000 + (i == m->n_backward - 1), m->bucket_us, -1);
        put_range(w, "cpu_op", "autograd::engine::evaluate_function: B", 6, from, w->host);
    }
    w->host += 10;
    put_extras(w, m, AFTER, 0, 5);
    w->compute = w->net > w->compute ? w->net : w->compute;
    w->host += 10;
    from = w->host;
    kernel(w, 5, m->kernel_us);
    put_range(w, "user_annotation", "Optimizer.step#SGD.step", 5, from, w->host);
    put_range(w, "user_annotation", number ? "ProfilerStep#2" : "ProfilerStep#1", 5, 0,
              w->host + 5);
    ck_assert_int_lt(w->host, GPU_FROM_US);
    ck_assert_int_lt(w->compute, STEP_US);
}

/* Return the us of a step in which an extra moves and compute idles. */
static int exposed_us(const struct writer *w, int extra)
{
    int sum = 0;

    for (int k = 0; k < w->n_transfers; k++)
        for (int i = w->transfers[k].from; w->transfers[k].extra == extra && i < w->transfers[k].to;
             i++)
            sum += !w->busy[i];
    return sum;
}

/* Write the trace, import it, and make its job; keep the writer's state for what is expected. */
static enum lk_status make_job(const struct made *m, struct writer *w, struct lk_job *out)
{
    char *path;
    struct lk_import run = {0};
    struct lk_run_set set = {0};
    enum lk_status st;

    *w = (struct writer){0};
    put(w, "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 1, \"name\": \"X\"}],"
           "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 4, "
           "\"pg_config\": null}, \"traceEvents\": [");
    for (int i = 0; i < STEPS; i++)
        put_step(w, m, i);
    put(w, "{}], \"baseTimeNanoseconds\": 1000000000000}");
    path = scratch_put("rank1.json", w->text, w->n);
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    must(lk_alloc(&set.runs, 1, sizeof *set.runs));
    must(lk_run_take("imported", run.traces, 1, &set.runs[0]));
    run.traces = NULL;
    set.n = 1;
    st = lk_job_build(&set, out);
    lk_run_set_fini(&set);
    lk_import_fini(&run);
    free(path);
    free(w->text);
    return st;
}

static int below(struct lk_rng *g, int n)
{
    return (int)lk_rng_below(g, (uint64_t)n);
}

static void make_random(uint64_t number, struct made *m)
{
    static const char *const names[][2] = {{"_allgather_base", "all_gather"},
                                           {"_reduce_scatter_base", "reduce_scatter"},
                                           {"broadcast", "broadcast"},
                                           {"allreduce", "all_reduce"}};
    struct lk_rng g = lk_rng_init(29, number);

    *m = (struct made){.n_forward = 2 + below(&g, 5),
                       .n_backward = 2 + below(&g, 5),
                       .kernel_us = 50 + below(&g, 400),
                       .bucket_us = 10 + below(&g, 1000),
                       .n_extras = below(&g, 7)};
    for (int i = 0; i < m->n_extras; i++) {
        struct extra *x = &m->extras[i];
        /* In backward, an all-reduce is a bucket's. */
        int where = below(&g, 3), name = below(&g, where == BACKWARD ? 3 : 4);

        *x = (struct extra){.name = names[name][0],
                            .function = names[name][1],
                            .where = (enum where)where,
                            .blocking = below(&g, 2),
                            .elements = RANKS * (1 + below(&g, 100000)),
                            .us = 1 + below(&g, 500)};
        /* Before the first kernel the host is late, which counts as late launch. */
        if (where != AFTER)
            x->before = 1 + below(&g, (where == FORWARD ? m->n_forward : m->n_backward) - 1);
    }
}

/* The job moves and exposes of a function what the trace does. */
static void check_function(uint64_t number, const struct made *m, const struct writer *w,
                           const struct lk_job *j, const char *function)
{
    double bytes = 0, exposed_s = 0, has_bytes = 0, has_s = 0;
    bool gathers = !strcmp(function, "all_gather");
    int n = 0, has = 0;

    for (int i = 0; i < m->n_extras; i++)
        if (!strcmp(m->extras[i].function, function)) {
            bytes += 4.0 * m->extras[i].elements / (gathers ? RANKS : 1);
            exposed_s += exposed_us(w, i) * 1e-6;
            n++;
        }
    for (size_t i = 0; i < j->n_collectives; i++) {
        const struct lk_job_collective *c = &j->collectives[i];

        if (strcmp(c->function, function) != 0)
            continue;
        ck_assert_int_eq(c->ranks, 0);
        ck_assert(0 <= c->at && c->at <= c->needed && c->needed <= 3);
        has_bytes += (double)c->bytes;
        has_s += c->exposed_s.value;
        has++;
    }
    ck_assert_msg(n == has && bytes == has_bytes && fabs(exposed_s - has_s) < 1e-12,
                  "case %llu, %s: %d of %g bytes, %g s exposed; the job has %d of %g, %g s",
                  (unsigned long long)number, function, n, bytes, exposed_s, has, has_bytes, has_s);
}

START_TEST(bytes_and_time_are_conserved)
{
    static const char *const functions[] = {"all_gather", "reduce_scatter", "broadcast",
                                            "all_reduce"};
    struct writer *w = NULL;

    must(lk_alloc(&w, 1, sizeof *w));
    for (uint64_t i = 0; i < cases_or(CASES); i++) {
        struct made m;
        struct lk_job j;

        make_random(i, &m);
        ck_assert_msg(make_job(&m, w, &j) == LK_OK, "case %llu: %s", (unsigned long long)i,
                      lk_error_text());
        ck_assert_uint_eq(j.n_collectives, (size_t)m.n_extras);
        for (size_t k = 0; k < LK_COUNT(functions); k++)
            check_function(i, &m, w, &j, functions[k]);
        lk_job_fini(&j);
    }
    free(w);
}
END_TEST

static const struct made plain = {
    .n_forward = 4, .n_backward = 4, .kernel_us = 1000, .bucket_us = 500};

/* Blocking: ready and needed in the middle of forward; beside backward: needed at its end; behind
 * autograd: at its end. */
START_TEST(positions)
{
    struct made m = plain;
    struct writer *w = NULL;
    struct lk_job j, again;
    char *path;

    must(lk_alloc(&w, 1, sizeof *w));
    m.extras[0] = (struct extra){"_allgather_base", "all_gather", FORWARD, 2, true, 400, 300};
    m.extras[1] =
        (struct extra){"_reduce_scatter_base", "reduce_scatter", BACKWARD, 1, false, 800, 300};
    m.extras[2] = (struct extra){"allreduce", "all_reduce", AFTER, 0, false, 1, 200};
    m.n_extras = 3;
    must(make_job(&m, w, &j));
    ck_assert_uint_eq(j.n_collectives, 3);
    ck_assert_double_eq_tol(j.collectives[0].at, 0.5, 1e-9);
    ck_assert_double_eq_tol(j.collectives[0].needed, 0.5, 1e-3);
    ck_assert(j.collectives[0].every_micro_batch);
    ck_assert_uint_eq(j.collectives[0].bytes, 400);
    ck_assert_double_eq_tol(j.collectives[0].exposed_s.value, 300e-6, 1e-12);
    ck_assert_double_eq_tol(j.collectives[1].at, 1.25, 1e-9);
    ck_assert_double_eq_tol(j.collectives[1].needed, 2, 1e-9);
    ck_assert_double_eq_tol(j.collectives[1].exposed_s.value, 0, 1e-12);
    ck_assert_double_eq_tol(j.collectives[2].at, 2, 1e-9);
    ck_assert_double_eq_tol(j.collectives[2].needed, 2, 1e-9);
    ck_assert(!j.collectives[2].every_micro_batch);
    ck_assert_double_eq_tol(j.collectives[2].exposed_s.value, 200e-6, 1e-12);
    path = scratch_put("job.json", "", 0);
    must(lk_job_write(path, &j));
    must(lk_job_read(path, &again));
    ck_assert_uint_eq(again.n_collectives, 3);
    ck_assert_str_eq(again.collectives[1].function, "reduce_scatter");
    ck_assert_double_eq(again.collectives[1].at, j.collectives[1].at);
    lk_job_fini(&again);
    lk_job_fini(&j);
    free(path);
    free(w);
}
END_TEST

/* The volume has them: on as many ranks, an all-gather of all their parts, in each micro-batch. */
START_TEST(the_volume_has_them)
{
    struct made m = plain;
    struct writer *w = NULL;
    struct lk_job j;
    struct lk_volume v;
    struct lk_config c;
    size_t found = 0;

    must(lk_alloc(&w, 1, sizeof *w));
    m.extras[0] = (struct extra){"_allgather_base", "all_gather", FORWARD, 2, true, 400, 300};
    m.extras[1] = (struct extra){"allreduce", "all_reduce", AFTER, 0, false, 1, 200};
    m.n_extras = 2;
    must(make_job(&m, w, &j));
    c = (struct lk_config){.world_size = 16,
                           .nodes = 2,
                           .local_batch = 1,
                           .accumulation = 2,
                           .first_bytes = j.first_bytes,
                           .cap_bytes = j.cap_bytes};
    must(lk_volume_init(&v, &j, &c));
    for (size_t i = 0; i < v.n; i++) {
        if (v.steps[i].bucket >= 0)
            continue;
        found++;
        ck_assert_int_eq(v.colls[i].ranks, 16);
        if (v.steps[i].coll == LK_ALL_GATHER) {
            ck_assert_uint_eq(v.steps[i].bytes, 16 * 400);
            ck_assert(v.steps[i].every_micro_batch);
        } else {
            ck_assert_uint_eq(v.steps[i].bytes, 4);
            ck_assert(!v.steps[i].every_micro_batch);
        }
    }
    ck_assert_uint_eq(found, 2);
    lk_volume_fini(&v);
    lk_job_fini(&j);
    free(w);
}
END_TEST

/* Two traces of one job, of which the second has more traffic, are forecast apart: by what blocks.
 */
START_TEST(other_traffic_is_forecast)
{
    static struct lk_axis_value count = {.count = 4, .text = "4"};
    const struct lk_forecast_request request = {
        .axes[LK_AXIS_GPUS] = {&count, 1}, .level = 0.9, .draws = 40, .seed = 1};
    struct made m = plain;
    struct writer *w = NULL;
    struct lk_cluster cluster;
    struct lk_forecast f[2];
    double wire_s;

    must(lk_alloc(&w, 1, sizeof *w));
    sim_truth_cluster(&sim_truth_default, 1, &cluster);
    m.extras[0] =
        (struct extra){"_reduce_scatter_base", "reduce_scatter", FORWARD, 2, true, 400000, 300};
    m.extras[1] = (struct extra){"allreduce", "all_reduce", AFTER, 0, false, 900000, 200};
    for (int i = 0; i < 2; i++) {
        struct lk_job j;
        size_t runs;

        m.n_extras = 2 * i;
        must(make_job(&m, w, &j));
        runs = j.n_runs;
        j.n_runs = 0; /* both are modelled, and none measured */
        must(sim_predict(&j, &cluster, &request, &f[i]));
        j.n_runs = runs;
        lk_job_fini(&j);
    }
    /* 4 ranks, a host each: 1.2 MB once and 2.7 MB twice over three quarters of a ring. */
    wire_s = (4 * 400000.0 * 0.75 + 4 * 900000.0 * 1.5) / sim_truth_default.rate_Bps;
    ck_assert_double_gt(f[1].points[0].step_s - f[0].points[0].step_s, 0.8 * wire_s);
    ck_assert_double_lt(f[1].points[0].step_s - f[0].points[0].step_s, 3 * wire_s);
    lk_forecast_fini(&f[0]);
    lk_forecast_fini(&f[1]);
    lk_cluster_fini(&cluster);
    free(w);
}
END_TEST

/* No model has an all-to-all: a short one is fixed time, of which the gap's source tells; a long
 * one is refused by name. */
START_TEST(what_no_model_has_is_fixed_or_refused)
{
    struct made m = plain;
    struct writer *w = NULL;
    struct lk_job j, without;

    must(lk_alloc(&w, 1, sizeof *w));
    must(make_job(&m, w, &without));
    m.extras[0] = (struct extra){"all_to_all", "all_to_all", FORWARD, 2, true, 400, 200};
    m.n_extras = 1;
    must(make_job(&m, w, &j));
    ck_assert_uint_eq(j.n_collectives, 1);
    /* The second of two steps begins where the first ends, 200 us later: it idles for less. */
    ck_assert_double_eq_tol(j.compute[0].gap_s.value - without.compute[0].gap_s.value,
                            200e-6 - 200e-6 / STEPS, 1e-9);
    ck_assert_ptr_nonnull(
        strstr(j.compute[0].gap_s.source, "that no model has: all_to_all 200 us"));
    lk_job_fini(&j);
    m.extras[0].us = 5000;
    ck_assert_int_eq(make_job(&m, w, &j), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "no model has (all_to_all 5.00 ms)"));
    lk_job_fini(&without);
    free(w);
}
END_TEST

/* Of ranks that divide the optimizer's work the job has the whole of it, and what they divide. */
START_TEST(job_of_shards_has_the_whole_update)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 2});
    double whole = NAN;

    for (int i = 0; i < 2; i++) {
        struct lk_trace *traces = NULL;
        struct lk_run_set set = {.n = 1};
        struct lk_job j;

        ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
        for (int k = 0; k < m.ranks && i; k++)
            traces[k].info.sharding = LK_SHARDING_ZERO1;
        ck_assert_int_eq(lk_alloc(&set.runs, 1, sizeof *set.runs), LK_OK);
        ck_assert_int_eq(lk_run_take("x", traces, 2, &set.runs[0]), LK_OK);
        ck_assert_msg(lk_job_build(&set, &j) == LK_OK, "%s", lk_error_text());
        if (i)
            ck_assert_double_eq_tol(j.compute[0].optimizer_s.value, 2 * whole, 1e-12);
        whole = j.compute[0].optimizer_s.value;
        ck_assert_int_eq(j.sharding, i ? LK_SHARDING_ZERO1 : LK_SHARDING_DDP);
        ck_assert_int_eq(j.runs[0].config.sharding, j.sharding);
        ck_assert_uint_eq(j.n_collectives, 0);
        lk_job_fini(&j);
        lk_run_set_fini(&set);
    }
}
END_TEST

SUITE(job_collectives, tests)
{
    tcase_add_test(tests, job_of_shards_has_the_whole_update);
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_test(tests, bytes_and_time_are_conserved);
    tcase_add_test(tests, positions);
    tcase_add_test(tests, the_volume_has_them);
    tcase_add_test(tests, other_traffic_is_forecast);
    tcase_add_test(tests, what_no_model_has_is_fixed_or_refused);
}
