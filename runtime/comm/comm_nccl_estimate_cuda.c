/*
 * NCCL's own estimate of a collective's duration: ncclGroupSimulateEnd (NCCL 2.22), which launches
 * nothing. It works on blocking communicators only (for a group of non-blocking ones NCCL launches
 * the collectives and fills nothing in: group.cc of 2.28), so the first estimate makes one. Calls
 * that may block run in a thread, which is abandoned when it does not return in time.
 */
#include "runtime/comm/comm_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include "base/array.h"
#include "base/clock.h"
#include "base/thread.h"

#include <math.h>
#include <stdlib.h>

enum what { OPEN, ASK, CLOSE };

/* A task of the thread. Whoever uses it last, thread or caller, frees it. */
struct task {
    enum what what;
    struct lk_nccl *n;
    const struct lk_nccl_calls *call;
    const struct lk_cuda_calls *cuda;
    int gpu, rank, world_size;
    ncclUniqueId id;
    ncclConfig_t config;
    struct lk_coll_call collective;
    ncclComm_t comm;
    ncclSimInfo_t info;
    ncclResult_t result;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool aborts; /* CLOSE: abort, because the other ranks may not close theirs now */
    bool done, deserted;
};

static void free_task(struct task *t)
{
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
}

static ncclResult_t ask(struct task *t)
{
    ncclResult_t r = t->call->GroupStart(), end;

    if (r != ncclSuccess)
        return r;
    r = lk_nccl_call(t->n, t->comm, &t->collective, t->n->stream);
    end = t->call->GroupSimulateEnd(&t->info);
    return r != ncclSuccess ? r : end;
}

static void *work(void *arg)
{
    struct task *t = arg;
    bool deserted;

    (void)t->cuda->SetDevice(t->gpu);
    if (t->what == OPEN)
        t->result =
            t->call->CommInitRankConfig(&t->comm, t->world_size, t->id, t->rank, &t->config);
    else if (t->what == ASK)
        t->result = ask(t);
    else
        t->result = t->aborts ? t->call->CommAbort(t->comm) : t->call->CommDestroy(t->comm);
    pthread_mutex_lock(&t->lock);
    t->done = true;
    deserted = t->deserted;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (deserted)
        free_task(t);
    return NULL;
}

static enum lk_status create_task(struct lk_nccl *n, enum what what, struct task **out)
{
    struct task *t = NULL;
    enum lk_status st = lk_alloc(&t, 1, sizeof *t);

    if (st != LK_OK)
        return st;
    t->what = what;
    t->n = n;
    t->call = n->call;
    t->cuda = n->cuda;
    t->gpu = n->gpu;
    t->rank = n->base.rank;
    t->world_size = n->base.world_size;
    t->comm = n->estimator;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    *out = t;
    return LK_OK;
}

/* Run the task in a thread. *out_done false: it did not end in time, and the thread owns the task
 * now. */
static enum lk_status run_task(struct lk_nccl *n, struct task *t, bool *out_done)
{
    struct timespec until = lk_deadline_timespec(lk_deadline_in(n->timeout_ns));
    pthread_t thread;
    enum lk_status st = lk_thread_start(&thread, work, t, "NCCL's estimates");

    *out_done = true;
    if (st != LK_OK)
        return st;
    pthread_detach(thread);
    pthread_mutex_lock(&t->lock);
    for (int rc = 0; !t->done && rc == 0;)
        rc = pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC, &until);
    *out_done = t->done;
    t->deserted = !t->done;
    pthread_mutex_unlock(&t->lock);
    return LK_OK;
}

/* Run the task and convert its result. Return the task, or NULL with the error in *out_st; the task
 * is then freed or left to the thread. */
static struct task *finish(struct lk_nccl *n, struct task *t, enum lk_status *out_st)
{
    bool done;

    *out_st = run_task(n, t, &done);
    if (!done) {
        n->lost = true;
        *out_st = lk_nccl_late(n);
        return NULL;
    }
    if (*out_st == LK_OK && t->result != ncclSuccess) {
        lk_quietly_(lk_nccl_status(n, t->result));
        *out_st = lk_fail(LK_EUNSUPPORTED, "NCCL does not estimate: %s",
                          n->call->GetErrorString(t->result));
    }
    if (*out_st == LK_OK)
        return t;
    free_task(t);
    return NULL;
}

static enum lk_status open_estimator(struct lk_nccl *n)
{
    struct task *t = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(create_task(n, OPEN, &t));
    if (n->base.rank == 0)
        st = lk_nccl_status(n, n->call->GetUniqueId(&t->id));
    if (st == LK_OK)
        st = lk_nccl_share(n, &t->id, sizeof t->id);
    if (st != LK_OK) {
        free_task(t);
        goto out;
    }
    t->config = lk_nccl_config(n, true);
    t = finish(n, t, &st);
    if (!t)
        goto out;
    n->estimator = t->comm;
    free_task(t);
out:
    return lk_fail_context(st, "NCCL's estimates");
}

enum lk_status lk_nccl_estimate(struct lk_comm *c, const struct lk_coll_call *call, double *out_s)
{
    struct lk_nccl *n = (struct lk_nccl *)c;
    struct task *t = NULL;
    double us;
    enum lk_status st = LK_OK;

    if (!n->call->GroupSimulateEnd)
        return lk_fail(LK_EUNSUPPORTED, "NCCL estimates times from 2.22 on");
    LK_TRY(lk_nccl_alive(n));
    if (!n->estimator)
        LK_TRY(open_estimator(n));
    LK_TRY(create_task(n, ASK, &t));
    t->collective = *call;
    t->info = (ncclSimInfo_t)NCCL_SIM_INFO_INITIALIZER;
    t = finish(n, t, &st);
    if (!t)
        goto out;
    us = (double)t->info.estimatedTime;
    free_task(t);
    if (!(us >= 0)) /* NCCL_UNDEF_FLOAT */
        return lk_fail(LK_EUNSUPPORTED, "NCCL has no estimate of this %s",
                       lk_coll_name(call->coll));
    *out_s = us * 1e-6;
out:
    return st;
}

void lk_nccl_close_estimator(struct lk_nccl *n)
{
    struct task *t = NULL;
    enum lk_status st;

    if (!n->estimator || n->lost || create_task(n, CLOSE, &t) != LK_OK)
        return;
    t->aborts = lk_nccl_alive(n) != LK_OK;
    t = finish(n, t, &st);
    if (t)
        free_task(t);
    n->estimator = NULL;
}

#endif
