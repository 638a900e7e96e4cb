/* The watchdog of the communicator "mpi"; see runtime/comm/comm_mpi.h. */
#include "runtime/comm/comm_mpi.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 10 };

/* End this process, whose thread is in a call of MPI's that cannot be given up. */
static _Noreturn void give_up(const struct lk_mpi *m)
{
    char name[128];

    lk_comm_name_call(&m->call, m->seq, UINT32_MAX, name, sizeof name);
    lk_log(LK_LOG_COMM, LK_ERROR, "%s: %s; this rank ends, because MPI gives up no call", name,
           lk_error_text());
    fflush(NULL);
    _exit(1);
}

/* Look at the collective in progress until it ends: answer the store's questions, and give up when
 * the run has a verdict or the time has passed. The time begins here, up to LOOK_MS late, so that a
 * collective reads no clock for the watchdog. */
static void look(const struct lk_mpi *m, uint64_t inside)
{
    uint64_t since_ns = lk_monotonic_ns();

    while (atomic_load(&m->inside) == inside) {
        struct pollfd p = {.fd = lk_store_fd(m->store), .events = POLLIN};

        if (poll(&p, 1, LOOK_MS) > 0 && lk_store_check(m->store) != LK_OK)
            give_up(m);
        if (lk_monotonic_ns() - since_ns > m->timeout_ns && atomic_load(&m->inside) == inside &&
            lk_store_report(m->store, LK_ETIMEOUT, "") != LK_OK)
            give_up(m);
    }
}

static void *watch(void *arg)
{
    struct lk_mpi *m = arg;

    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        struct timespec until = lk_deadline_timespec(lk_deadline_in(LOOK_MS * LK_NS_PER_MS));
        uint64_t inside;

        (void)pthread_cond_clockwait(&m->changed, &m->lock, CLOCK_MONOTONIC, &until);
        inside = atomic_load(&m->inside);
        if (!inside)
            continue;
        pthread_mutex_unlock(&m->lock);
        look(m, inside);
        pthread_mutex_lock(&m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

enum lk_status lk_mpi_watch(struct lk_mpi *m)
{
    LK_PASS(lk_thread_start(&m->thread, watch, m, "MPI's watchdog"));
    m->watched = true;
    return LK_OK;
}

void lk_mpi_unwatch(struct lk_mpi *m)
{
    if (!m->watched)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    m->watched = false;
}
