/* Co-location and overlap; see the header. */
#include "runtime/sweep.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/sweep_impl.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUILTIN_ELEMS = 4096, /* 16 KiB: stays in the first-level cache */
    BUILTIN_PASSES = 300,
    PILOT_UNITS = 8,
    CALLS_MAX = 1000, /* all-reduces of one timed stretch */
};

/* The built-in unit: multiply-adds on numbers that stay bounded (|a| < 1). */
static void builtin_unit(void *ctx)
{
    float *restrict x = ctx;

    for (int pass = 0; pass < BUILTIN_PASSES; pass++)
        for (size_t i = 0; i < BUILTIN_ELEMS; i++)
            x[i] = 0.75F * x[i] + 0.125F;
}

struct compute {
    struct lk_sweep_work work;
    float *own;   /* of the built-in unit */
    size_t units; /* of a timed stretch */
};

static uint64_t compute_ns(const struct compute *c, size_t units)
{
    uint64_t start_ns = lk_now_ns();

    for (size_t i = 0; i < units; i++)
        c->work.unit(c->work.ctx);
    return lk_now_ns() - start_ns;
}

/* Chooses how many units a stretch has: the same on all ranks, from the fastest. */
static enum lk_status prepare(struct compute *c, struct lk_comm *comm,
                              const struct lk_sweep_compute_config *config)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm);
    double *all = NULL, mine, fastest;

    c->work = config->work;
    LK_TRY(lk_alloc(&all, world, sizeof *all));
    if (!c->work.unit) {
        LK_TRY(lk_alloc(&c->own, BUILTIN_ELEMS, sizeof *c->own));
        c->work = (struct lk_sweep_work){builtin_unit, c->own};
    }
    (void)compute_ns(c, PILOT_UNITS);
    mine = lk_s_from_ns(compute_ns(c, PILOT_UNITS)) / PILOT_UNITS;
    LK_TRY(lk_sweep_gather(comm, &mine, 1, all));
    fastest = all[0];
    for (size_t r = 1; r < world; r++)
        fastest = all[r] < fastest ? all[r] : fastest;
    c->units = fastest > 0 ? (size_t)(config->unit_target_s / fastest) : 1;
    c->units = c->units ? c->units : 1;
out:
    free(all);
    return st;
}

/* ---- co-location ---- */

void lk_sweep_colocation_fini(struct lk_sweep_colocation *c)
{
    free(c->alone_s);
    free(c->together_s);
    *c = (struct lk_sweep_colocation){0};
}

/* One stretch alone, in turn, and one together; mine = {alone, together}. */
static enum lk_status time_colocation(struct lk_comm *comm, const struct compute *c, double *mine)
{
    enum lk_status st = LK_OK;

    for (int r = 0; r < lk_comm_world_size(comm); r++) {
        LK_TRY(lk_sweep_barrier(comm)); /* where the others wait, without using a core */
        if (r == lk_comm_rank(comm))
            mine[0] = lk_s_from_ns(compute_ns(c, c->units));
    }
    LK_TRY(lk_sweep_barrier(comm));
    mine[1] = lk_s_from_ns(compute_ns(c, c->units));
    LK_TRY(lk_sweep_barrier(comm));
out:
    return st;
}

enum lk_status lk_sweep_colocation(struct lk_comm *comm,
                                   const struct lk_sweep_compute_config *config,
                                   struct lk_sweep_colocation *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm), n = config->warmup + config->repetitions;
    struct lk_sweep_colocation s = {.ranks = (int)world, .warmup = config->warmup};
    struct compute c = {0};
    uint64_t start_ns = lk_now_ns();
    double *all = NULL, mine[3];

    LK_TRY(lk_alloc(&all, 3 * world, sizeof *all));
    LK_TRY(lk_alloc(&s.alone_s, n * world, sizeof *s.alone_s));
    LK_TRY(lk_alloc(&s.together_s, n * world, sizeof *s.together_s));
    LK_TRY(prepare(&c, comm, config));
    while (s.n < n) {
        LK_TRY(time_colocation(comm, &c, mine));
        mine[2] = lk_s_from_ns(lk_now_ns() - start_ns);
        LK_TRY(lk_sweep_gather(comm, mine, 3, all));
        for (size_t r = 0; r < world; r++) {
            s.alone_s[s.n * world + r] = all[3 * r];
            s.together_s[s.n * world + r] = all[3 * r + 1];
        }
        s.n++;
        if (s.n >= s.warmup + LK_SWEEP_SAMPLES_MIN && config->budget_s > 0 &&
            all[2] > config->budget_s)
            break;
    }
    *out = s;
    s = (struct lk_sweep_colocation){0};
out:
    lk_sweep_colocation_fini(&s);
    free(c.own);
    free(all);
    return st;
}

/* ---- overlap ---- */

void lk_sweep_overlap_fini(struct lk_sweep_overlap *o)
{
    free(o->gamma_wait);
    free(o->gamma_wire);
    free(o->delta);
    *o = (struct lk_sweep_overlap){0};
}

/* All-reduces on a thread of their own, as a stream would run them. */
struct traffic {
    pthread_t thread;
    struct lk_comm *comm;
    struct lk_coll_call call;
    size_t calls;
    sem_t begun;       /* posted when the calls begin, after a barrier */
    sem_t *late;       /* NULL, or what this rank waits for before it enters */
    atomic_bool ended; /* the calls are over */
    uint64_t ns;
    enum lk_status status;
    char text[1024];
};

static enum lk_status run_traffic(struct traffic *t)
{
    enum lk_status st = lk_sweep_barrier(t->comm);
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
    sigset_t all, before;
    int rc;

    if (sem_init(&t->begun, 0, 0))
        return lk_fail(LK_EIO, "cannot make a semaphore");
    atomic_init(&t->ended, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&t->thread, NULL, traffic_thread, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        sem_destroy(&t->begun);
        return lk_fail(LK_ENOMEM, "cannot start a thread: %s", strerror(rc));
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
    size_t calls; /* of a stretch of traffic */
};

/* Compute on all ranks with nothing beside it. */
static enum lk_status time_quiet(struct overlap *o, double *out_s)
{
    enum lk_status st = lk_sweep_barrier(o->comm);

    *out_s = lk_s_from_ns(compute_ns(&o->compute, o->compute.units));
    return st;
}

/* Compute while the comm thread waits in a collective for the rank that is late. */
static enum lk_status time_wait(struct overlap *o, int late, double *out_s)
{
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
    /* The others may be slower: that long again is the margin. */
    if (t.late)
        lk_sleep_until_ns(lk_monotonic_ns() + ns);
    sem_post(&gate);
    st = end_traffic(&t);
    *out_s = lk_s_from_ns(ns);
out:
    sem_destroy(&gate);
    return st;
}

/* Traffic on all ranks with nothing beside it. */
static enum lk_status time_traffic(struct overlap *o, double *out_s)
{
    struct traffic t = {.comm = o->comm, .call = o->call, .calls = o->calls};
    enum lk_status st = start_traffic(&t);

    if (st == LK_OK)
        st = end_traffic(&t);
    *out_s = lk_s_from_ns(t.ns);
    return st;
}

/* Both at once: time of the traffic, and of a stretch of compute at the rate it had meanwhile. */
static enum lk_status time_both(struct overlap *o, double *out_traffic_s, double *out_compute_s)
{
    struct traffic t = {.comm = o->comm, .call = o->call, .calls = o->calls};
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

enum phase { QUIET, WAIT, TRAFFIC, BOTH, BOTH_COMPUTE, ELAPSED, N_PHASES };

static enum lk_status time_overlap(struct overlap *o, int late, double mine[N_PHASES])
{
    enum lk_status st = LK_OK;

    LK_TRY(time_quiet(o, &mine[QUIET]));
    LK_TRY(time_wait(o, late, &mine[WAIT]));
    LK_TRY(time_traffic(o, &mine[TRAFFIC]));
    LK_TRY(time_both(o, &mine[BOTH], &mine[BOTH_COMPUTE]));
out:
    return st;
}

/* As many all-reduces as take as long as a stretch of compute: the same number on all ranks. */
static enum lk_status choose_calls(struct overlap *o, double target_s, double *all)
{
    enum lk_status st = LK_OK;
    double mine = 0, n;

    o->calls = 4;
    LK_TRY(time_traffic(o, &mine)); /* the first one also warms up */
    LK_TRY(time_traffic(o, &mine));
    LK_TRY(lk_sweep_gather(o->comm, &mine, 1, all));
    n = all[0] > 0 ? 4 * target_s / all[0] : CALLS_MAX;
    o->calls = (size_t)(n < 1 ? 1 : n > CALLS_MAX ? CALLS_MAX : n);
out:
    return st;
}

static void keep(struct lk_sweep_overlap *s, const double *all, size_t world, size_t late)
{
    double wait = 0, wire = 0, delta = 0;

    for (size_t r = 0; r < world; r++) {
        const double *v = all + r * N_PHASES;

        if (r != late) /* it never waited */
            wait += v[WAIT] / v[QUIET] - 1;
        wire += v[BOTH_COMPUTE] / v[QUIET] - 1;
        delta += v[BOTH] / v[TRAFFIC] - 1;
    }
    s->gamma_wait[s->n] = wait / (double)(world - 1);
    s->gamma_wire[s->n] = wire / (double)world;
    s->delta[s->n] = delta / (double)world;
    s->n++;
}

enum lk_status lk_sweep_overlap(struct lk_comm *comm, const struct lk_sweep_compute_config *config,
                                uint64_t bytes, struct lk_sweep_overlap *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm), n = config->warmup + config->repetitions;
    struct lk_sweep_overlap s = {.bytes = bytes, .warmup = config->warmup};
    struct overlap o = {.comm = comm};
    uint64_t start_ns = lk_now_ns();
    double *all = NULL, mine[N_PHASES];

    if (world < 2)
        return lk_fail(LK_EUSAGE, "overlap is measured on two ranks or more");
    LK_TRY(lk_alloc(&all, N_PHASES * world, sizeof *all));
    LK_TRY(lk_alloc(&s.gamma_wait, n, sizeof *s.gamma_wait));
    LK_TRY(lk_alloc(&s.gamma_wire, n, sizeof *s.gamma_wire));
    LK_TRY(lk_alloc(&s.delta, n, sizeof *s.delta));
    o.call = (struct lk_coll_call){.coll = LK_ALL_REDUCE,
                                   .dtype = LK_F32,
                                   .count = (size_t)bytes / sizeof(float),
                                   .index = -1};
    LK_TRY(lk_alloc(&o.call.buf, o.call.count, sizeof(float)));
    LK_TRY(prepare(&o.compute, comm, config));
    LK_TRY(choose_calls(&o, config->unit_target_s, all));
    while (s.n < n) {
        size_t late = s.n % world;

        LK_TRY(time_overlap(&o, (int)late, mine));
        mine[ELAPSED] = lk_s_from_ns(lk_now_ns() - start_ns);
        LK_TRY(lk_sweep_gather(comm, mine, N_PHASES, all));
        keep(&s, all, world, late);
        if (s.n >= s.warmup + LK_SWEEP_SAMPLES_MIN && config->budget_s > 0 &&
            all[ELAPSED] > config->budget_s)
            break;
    }
    *out = s;
    s = (struct lk_sweep_overlap){0};
out:
    lk_sweep_overlap_fini(&s);
    free(o.call.buf);
    free(o.compute.own);
    free(all);
    return st;
}
