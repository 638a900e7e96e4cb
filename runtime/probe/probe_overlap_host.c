/* Measure overlap by threads of the host: compute on the calling one, collectives on another. */
#include "base/array.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/units.h"
#include "runtime/probe/probe_impl.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

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
    struct lk_probe_compute compute;
    struct lk_coll_call call;
};

/* Run compute on all ranks with nothing beside it. */
static enum lk_status time_quiet(void *ctx, double *out_s)
{
    struct overlap *o = ctx;
    enum lk_status st = lk_comm_barrier(o->comm);

    *out_s = lk_s_from_ns(lk_probe_compute_ns(&o->compute, o->compute.units));
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
    ns = lk_probe_compute_ns(&o->compute, o->compute.units);
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

static const struct lk_overlap_way by_threads = {
    .quiet = time_quiet, .wait = time_wait, .traffic = time_traffic, .both = time_both};

enum lk_status lk_probe_overlap(struct lk_comm *comm, const struct lk_probe_compute_config *config,
                                uint64_t bytes, struct lk_probe_overlap *out)
{
    enum lk_status st = LK_OK;
    struct overlap o = {.comm = comm};
    struct lk_overlap_plan plan = {.repetitions = config->repetitions,
                                   .warmup = config->warmup,
                                   .target_s = config->unit_target_s,
                                   .budget_s = config->budget_s,
                                   .bytes = bytes};

    if (lk_comm_world_size(comm) < 2)
        return lk_fail(LK_EUSAGE, "overlap is measured on two ranks or more");
    o.call = (struct lk_coll_call){.coll = LK_ALL_REDUCE,
                                   .dtype = LK_F32,
                                   .count = (size_t)bytes / sizeof(float),
                                   .index = -1};
    LK_TRY(lk_alloc(&o.call.buf, o.call.count, sizeof(float)));
    LK_TRY(lk_probe_compute_init(&o.compute, comm, config));
    LK_TRY(lk_overlap_measure(comm, &by_threads, &o, &plan, out));
out:
    free(o.call.buf);
    lk_probe_compute_fini(&o.compute);
    return st;
}
