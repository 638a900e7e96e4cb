/* Measure co-location, and overlap by threads of the host; repeat the measurement of overlap, on
 * threads or streams, and convert times to slowdowns. See the headers. */
#include "runtime/probe/probe_impl.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/units.h"

#include <math.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Compute on the calling thread, and co-location ---- */

enum {
    BUILTIN_ELEMS = 4096, /* 16 KiB: stays in the first-level cache */
    BUILTIN_PASSES = 300,
    PILOT_UNITS = 8,
};

/* A stretch of compute on the calling thread. */
struct compute {
    struct lk_probe_work work;
    float *own;   /* data of the built-in unit */
    size_t units; /* units of a timed stretch: the same on all ranks, from the fastest */
};

/* Run the built-in unit: multiply-adds on numbers that stay bounded (|a| < 1). */
static void builtin_unit(void *ctx)
{
    float *restrict x = ctx;

    for (int pass = 0; pass < BUILTIN_PASSES; pass++)
        for (size_t i = 0; i < BUILTIN_ELEMS; i++)
            x[i] = 0.75F * x[i] + 0.125F;
}

static uint64_t compute_ns(const struct compute *c, size_t units)
{
    uint64_t start_ns = lk_now_ns();

    for (size_t i = 0; i < units; i++)
        c->work.unit(c->work.ctx);
    return lk_now_ns() - start_ns;
}

static enum lk_status compute_init(struct compute *c, struct lk_comm *comm,
                                   const struct lk_probe_compute_config *config)
{
    double unit_s;

    *c = (struct compute){.work = config->work};
    if (!c->work.unit) {
        LK_PASS(lk_alloc(&c->own, BUILTIN_ELEMS, sizeof *c->own));
        c->work = (struct lk_probe_work){builtin_unit, c->own};
    }
    (void)compute_ns(c, PILOT_UNITS);
    unit_s = lk_s_from_ns(compute_ns(c, PILOT_UNITS)) / PILOT_UNITS;
    LK_PASS(lk_probe_extreme(comm, false, unit_s, &unit_s));
    c->units = unit_s > 0 ? (size_t)(config->unit_target_s / unit_s) : 1;
    c->units = c->units ? c->units : 1;
    return LK_OK;
}

static void compute_fini(struct compute *c)
{
    free(c->own);
    *c = (struct compute){0};
}

/* Run one stretch alone, in turn, and one together; mine = {alone, together}. */
static enum lk_status time_colocation(struct lk_comm *comm, const struct compute *c, double *mine)
{
    for (int r = 0; r < lk_comm_world_size(comm); r++) {
        LK_PASS(lk_comm_barrier(comm)); /* the others wait here, without using a core */
        if (r == lk_comm_rank(comm))
            mine[0] = lk_s_from_ns(compute_ns(c, c->units));
    }
    LK_PASS(lk_comm_barrier(comm));
    mine[1] = lk_s_from_ns(compute_ns(c, c->units));
    return lk_comm_barrier(comm);
}

enum lk_status lk_probe_colocation(struct lk_comm *comm,
                                   const struct lk_probe_compute_config *config,
                                   struct lk_probe_colocation *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm),
           n = config->effort.warmup + config->effort.repetitions;
    struct lk_probe_colocation s = {.ranks = (int)world, .warmup = config->effort.warmup};
    struct compute c = {0};
    uint64_t start_ns = lk_now_ns();
    double *all = NULL, mine[3];

    LK_TRY(lk_alloc(&all, 3 * world, sizeof *all));
    LK_TRY(lk_alloc(&s.alone_s, n * world, sizeof *s.alone_s));
    LK_TRY(lk_alloc(&s.together_s, n * world, sizeof *s.together_s));
    LK_TRY(compute_init(&c, comm, config));
    do {
        LK_TRY(time_colocation(comm, &c, mine));
        mine[2] = lk_s_from_ns(lk_now_ns() - start_ns);
        LK_TRY(lk_comm_gather(comm, LK_F64, mine, 3, all));
        for (size_t r = 0; r < world; r++) {
            s.alone_s[s.n * world + r] = all[3 * r];
            s.together_s[s.n * world + r] = all[3 * r + 1];
        }
    } while (!lk_probe_over(&config->effort, ++s.n, LK_PROBE_SAMPLES_MIN, all[2]));
    *out = s;
    s = (struct lk_probe_colocation){0};
out:
    lk_probe_colocation_fini(&s);
    compute_fini(&c);
    free(all);
    return st;
}

/* ---- Overlap: repetitions and slowdowns ---- */

enum {
    CALLS_MAX = 1000, /* most calls of a timed stretch */
    CALLS_PILOT = 4,
    ATTEMPTS = 6 /* attempts at a repetition; each doubles the margins of the one before */
};

double lk_overlap_unit_s(const uint64_t *points_ns, size_t n_points, uint64_t from_ns,
                         uint64_t to_ns)
{
    size_t first = 0, last;

    if (n_points < 2 || points_ns[n_points - 1] < to_ns)
        return NAN;
    while (first < n_points && points_ns[first] < from_ns)
        first++;
    last = first;
    while (last + 1 < n_points && points_ns[last + 1] <= to_ns)
        last++;
    if (last == first)
        return NAN;
    return lk_s_from_ns(points_ns[last] - points_ns[first]) / (double)(last - first);
}

bool lk_overlap_keep(struct lk_probe_overlap *s, const double *all, size_t world, size_t late,
                     size_t calls)
{
    double wait = 0, wire = 0, delta = 0, traffic = 0;
    size_t waited = 0;

    for (size_t r = 0; r < world; r++) {
        const double *v = all + r * LK_OVERLAP_PHASES;

        if (r != late) {
            wait += v[LK_OVERLAP_WAIT] / v[LK_OVERLAP_QUIET] - 1;
            waited++;
        }
        wire += v[LK_OVERLAP_BOTH_COMPUTE] / v[LK_OVERLAP_QUIET] - 1;
        delta += v[LK_OVERLAP_BOTH] / v[LK_OVERLAP_TRAFFIC] - 1;
        traffic += v[LK_OVERLAP_TRAFFIC];
    }
    if (!isfinite(wait) || !isfinite(wire) || !isfinite(delta))
        return false;
    s->gamma_wait[s->n] = wait / (double)waited;
    s->gamma_wire[s->n] = wire / (double)world;
    s->delta[s->n] = delta / (double)world;
    s->call_s[s->n] = traffic / (double)world / (double)calls;
    s->n++;
    return true;
}

struct measure {
    struct lk_comm *comm;
    const struct lk_overlap_ops *ops;
    void *ctx;
    size_t calls; /* calls of a stretch */
};

/* Choose how many calls take target_s, the same number on all ranks. */
static enum lk_status choose_calls(struct measure *m, double target_s, double *all)
{
    double mine = 0, n;

    LK_PASS(m->ops->traffic(m->ctx, CALLS_PILOT, &mine)); /* the first call also warms up */
    LK_PASS(m->ops->traffic(m->ctx, CALLS_PILOT, &mine));
    LK_PASS(lk_comm_gather(m->comm, LK_F64, &mine, 1, all));
    n = all[0] > 0 ? CALLS_PILOT * target_s / all[0] : CALLS_MAX;
    m->calls = (size_t)(n < 1 ? 1 : n > CALLS_MAX ? CALLS_MAX : n);
    return LK_OK;
}

static enum lk_status time_once(struct measure *m, int late, double mine[LK_OVERLAP_PHASES])
{
    LK_PASS(m->ops->quiet(m->ctx, &mine[LK_OVERLAP_QUIET]));
    LK_PASS(m->ops->wait(m->ctx, late, &mine[LK_OVERLAP_WAIT]));
    LK_PASS(m->ops->traffic(m->ctx, m->calls, &mine[LK_OVERLAP_TRAFFIC]));
    return m->ops->both(m->ctx, m->calls, &mine[LK_OVERLAP_BOTH], &mine[LK_OVERLAP_BOTH_COMPUTE]);
}

static enum lk_status too_short(void)
{
    return lk_fail(LK_EEVIDENCE,
                   "overlap: in %d attempts compute and collectives did not last as "
                   "long as each other: what else runs on this machine?",
                   (int)ATTEMPTS);
}

/* Repeat, alike on all ranks, until there are enough repetitions or the time is up. */
static enum lk_status repeat(struct measure *m, const struct lk_overlap_plan *plan, double *all,
                             struct lk_probe_overlap *s)
{
    size_t world = (size_t)lk_comm_world_size(m->comm);
    uint64_t start_ns = lk_now_ns();
    double mine[LK_OVERLAP_PHASES];
    int attempts = 0;

    do {
        size_t late = world > 1 ? s->n % world : SIZE_MAX;

        LK_PASS(time_once(m, world > 1 ? (int)late : -1, mine));
        mine[LK_OVERLAP_ELAPSED] = lk_s_from_ns(lk_now_ns() - start_ns);
        LK_PASS(lk_comm_gather(m->comm, LK_F64, mine, LK_OVERLAP_PHASES, all));
        if (lk_overlap_keep(s, all, world, late, m->calls)) {
            attempts = 0;
            continue;
        }
        if (!m->ops->lengthen || ++attempts == ATTEMPTS)
            return too_short();
        m->ops->lengthen(m->ctx);
    } while (attempts ||
             !lk_probe_over(&plan->effort, s->n, LK_PROBE_SAMPLES_MIN, all[LK_OVERLAP_ELAPSED]));
    return LK_OK;
}

enum lk_status lk_overlap_measure(struct lk_comm *comm, const struct lk_overlap_ops *ops, void *ctx,
                                  const struct lk_overlap_plan *plan, struct lk_probe_overlap *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm),
           n = plan->effort.warmup + plan->effort.repetitions;
    struct lk_probe_overlap s = {.bytes = plan->bytes, .warmup = plan->effort.warmup};
    struct measure m = {.comm = comm, .ops = ops, .ctx = ctx};
    double *all = NULL;

    LK_TRY(lk_alloc(&all, LK_OVERLAP_PHASES * world, sizeof *all));
    LK_TRY(lk_alloc(&s.gamma_wait, n, sizeof *s.gamma_wait));
    LK_TRY(lk_alloc(&s.gamma_wire, n, sizeof *s.gamma_wire));
    LK_TRY(lk_alloc(&s.delta, n, sizeof *s.delta));
    LK_TRY(lk_alloc(&s.call_s, n, sizeof *s.call_s));
    LK_TRY(choose_calls(&m, plan->target_s, all));
    LK_TRY(repeat(&m, plan, all, &s));
    *out = s;
    s = (struct lk_probe_overlap){0};
out:
    lk_probe_overlap_fini(&s);
    free(all);
    return st;
}

/* ---- Overlap by threads: compute on the calling one, collectives on another ---- */

/* A thread that runs all-reduces, as a stream would. */
struct traffic {
    pthread_t thread;
    struct lk_comm *comm;
    struct lk_coll_call call;
    size_t calls;
    sem_t begun;       /* posted when the calls begin, after a barrier */
    sem_t *late;       /* this rank waits for it before it enters; NULL: it does not wait */
    atomic_bool ended; /* the calls are over */
    uint64_t ns;
    enum lk_status status;
    char text[1024];
};

static enum lk_status run_traffic(struct traffic *t)
{
    enum lk_status st = lk_comm_barrier(t->comm);
    uint64_t start_ns = lk_now_ns();

    sem_post(&t->begun);
    if (st == LK_OK && t->late)
        while (sem_wait(t->late))
            ; /* a signal came */
    for (size_t i = 0; st == LK_OK && i < t->calls; i++)
        st = lk_comm_run(t->comm, &t->call);
    t->ns = lk_now_ns() - start_ns;
    return st;
}

static void *traffic_thread(void *arg)
{
    struct traffic *t = arg;

    t->status = run_traffic(t);
    if (t->status != LK_OK)
        snprintf(t->text, sizeof t->text, "%s", lk_error_text());
    atomic_store(&t->ended, true);
    return NULL;
}

static enum lk_status start_traffic(struct traffic *t)
{
    enum lk_status st;

    if (sem_init(&t->begun, 0, 0))
        return lk_fail(LK_EIO, "cannot make a semaphore");
    atomic_init(&t->ended, false);
    st = lk_thread_start(&t->thread, traffic_thread, t, "collectives");
    if (st != LK_OK) {
        sem_destroy(&t->begun);
        return st;
    }
    while (sem_wait(&t->begun))
        ; /* a signal came */
    return LK_OK;
}

static enum lk_status end_traffic(struct traffic *t)
{
    pthread_join(t->thread, NULL);
    sem_destroy(&t->begun);
    return t->status == LK_OK ? LK_OK : lk_fail(t->status, "%s", t->text);
}

struct overlap {
    struct lk_comm *comm;
    struct compute compute;
    struct lk_coll_call call;
};

/* Run compute on all ranks with nothing beside it. */
static enum lk_status time_quiet(void *ctx, double *out_s)
{
    struct overlap *o = ctx;
    enum lk_status st = lk_comm_barrier(o->comm);

    *out_s = lk_s_from_ns(compute_ns(&o->compute, o->compute.units));
    return st;
}

/* Run compute while the comm thread waits in a collective for the late rank. */
static enum lk_status time_wait(void *ctx, int late, double *out_s)
{
    struct overlap *o = ctx;
    struct traffic t = {.comm = o->comm, .call = o->call, .calls = 1};
    enum lk_status st = LK_OK;
    uint64_t ns;
    sem_t gate;

    if (sem_init(&gate, 0, 0))
        return lk_fail(LK_EIO, "cannot make a semaphore");
    if (lk_comm_rank(o->comm) == late)
        t.late = &gate;
    LK_TRY(start_traffic(&t));
    ns = compute_ns(&o->compute, o->compute.units);
    /* The others may be slower: wait as long again. */
    if (t.late)
        lk_sleep_until_ns(lk_monotonic_ns() + ns);
    sem_post(&gate);
    st = end_traffic(&t);
    *out_s = lk_s_from_ns(ns);
out:
    sem_destroy(&gate);
    return st;
}

/* Run traffic on all ranks with nothing beside it. */
static enum lk_status time_traffic(void *ctx, size_t calls, double *out_s)
{
    struct overlap *o = ctx;
    struct traffic t = {.comm = o->comm, .call = o->call, .calls = calls};
    enum lk_status st = start_traffic(&t);

    if (st == LK_OK)
        st = end_traffic(&t);
    *out_s = lk_s_from_ns(t.ns);
    return st;
}

/* Run both at once: time the traffic, and a stretch of compute at the rate that it had meanwhile.
 */
static enum lk_status time_both(void *ctx, size_t calls, double *out_traffic_s,
                                double *out_compute_s)
{
    struct overlap *o = ctx;
    struct traffic t = {.comm = o->comm, .call = o->call, .calls = calls};
    enum lk_status st = start_traffic(&t);
    uint64_t start_ns = lk_now_ns();
    size_t units = 0;

    if (st != LK_OK)
        return st;
    do {
        o->compute.work.unit(o->compute.work.ctx);
        units++;
    } while (!atomic_load(&t.ended));
    *out_compute_s =
        lk_s_from_ns(lk_now_ns() - start_ns) * (double)o->compute.units / (double)units;
    st = end_traffic(&t);
    *out_traffic_s = lk_s_from_ns(t.ns);
    return st;
}

static const struct lk_overlap_ops by_threads = {
    .quiet = time_quiet, .wait = time_wait, .traffic = time_traffic, .both = time_both};

enum lk_status lk_probe_overlap(struct lk_comm *comm, const struct lk_probe_compute_config *config,
                                uint64_t bytes, struct lk_probe_overlap *out)
{
    enum lk_status st = LK_OK;
    struct overlap o = {.comm = comm};
    struct lk_overlap_plan plan = {
        .effort = config->effort, .target_s = config->unit_target_s, .bytes = bytes};

    if (lk_comm_world_size(comm) < 2)
        return lk_fail(LK_EUSAGE, "overlap is measured on two ranks or more");
    o.call = (struct lk_coll_call){.coll = LK_ALL_REDUCE,
                                   .dtype = LK_F32,
                                   .count = (size_t)bytes / sizeof(float),
                                   .index = -1};
    LK_TRY(lk_alloc(&o.call.buf, o.call.count, sizeof(float)));
    LK_TRY(compute_init(&o.compute, comm, config));
    LK_TRY(lk_overlap_measure(comm, &by_threads, &o, &plan, out));
out:
    free(o.call.buf);
    compute_fini(&o.compute);
    return st;
}
