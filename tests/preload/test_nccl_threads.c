/*
 * NCCL's profiler plugin, called by many threads, and what it costs: the library that users get,
 * driven by tests/fakes/fake_nccl_profiler.h.
 */
#include "base/array.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#define GPU_NS UINT64_C(1763900000000000000) /* %globaltimer starts at the host's epoch */

static const int versions[] = {FAKE_NCCL_2_27, FAKE_NCCL_2_30, FAKE_NCCL_2_32};
static const struct fake_call all_reduce = {"AllReduce", "ncclBfloat16", 1000, 0, false, false};

static struct fake_plugin plugin;

static int64_t length_ns(const struct lk_foreign_record *r)
{
    return r->end_ns - r->start_ns;
}

/* 4 threads call, each on a communicator of its own, one of them ends it and makes another; 2
 * threads play all kernels, with the channels in an order that differs each time: the proxy's until
 * 2.30, and from 2.31 on NCCL's threads for it, which may begin before the launch has stopped its
 * event. A collective is 18 or 22 callbacks. */
enum { CALLERS = 4, WATCHERS = 2, CALLS = 8000, CHANNELS = 4, QUEUE = 256, COMM_LIVES = 500 };

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct fake_call_work work[QUEUE];
    size_t head, tail;
    int writers;
};

static struct queue queues[WATCHERS];

static void push(struct queue *q, const struct fake_call_work *w)
{
    pthread_mutex_lock(&q->lock);
    while (q->head - q->tail == QUEUE)
        pthread_cond_wait(&q->changed, &q->lock);
    q->work[q->head++ % QUEUE] = *w;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static void *call_many(void *arg)
{
    static struct fake_comm comms[CALLERS][CALLS / COMM_LIVES];
    const size_t me = (size_t)(uintptr_t)arg;
    struct fake_comm *c = NULL;
    struct fake_call_work w;

    for (size_t i = 0; i < CALLS; i++) {
        if (i % COMM_LIVES == 0) {
            if (c)
                fake_comm_finalize(c); /* its kernels have not all run */
            c = &comms[me][i / COMM_LIVES];
            fake_comm_init(c, &plugin, me, NULL, 8, (int)me);
        }
        fake_call_api(c, &all_reduce, &w);
        fake_work_start(c, &w);
        if (plugin.interface < 7)
            fake_work_stop(&w);
        push(&queues[(me + i) % WATCHERS], &w);
        if (plugin.interface >= 7)
            fake_work_stop(&w);
    }
    for (int p = 0; p < WATCHERS; p++) {
        pthread_mutex_lock(&queues[p].lock);
        queues[p].writers--;
        pthread_cond_broadcast(&queues[p].changed);
        pthread_mutex_unlock(&queues[p].lock);
    }
    return NULL;
}

/* Channel c runs from 10c to 100 + 10c: 130 ns in all. */
static void play(struct fake_call_work *w, size_t turn)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        size_t c = (i * 3 + turn) % CHANNELS;

        fake_channel_start(w, (int)c, GPU_NS + 10 * c);
        if (turn % 3 == 0)
            fake_channel_stop(w, (int)c, GPU_NS + 100 + 10 * c);
    }
    for (size_t i = 0; i < CHANNELS && turn % 3; i++) {
        size_t c = (i + turn) % CHANNELS;

        fake_channel_stop(w, (int)c, GPU_NS + 100 + 10 * c);
    }
}

static void *watch(void *arg)
{
    struct queue *q = arg;

    for (size_t turn = 0;; turn++) {
        struct fake_call_work w;

        pthread_mutex_lock(&q->lock);
        while (q->head == q->tail && q->writers)
            pthread_cond_wait(&q->changed, &q->lock);
        if (q->head == q->tail) {
            pthread_mutex_unlock(&q->lock);
            return NULL;
        }
        w = q->work[q->tail++ % QUEUE];
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->lock);
        play(&w, turn);
    }
}

/* Return how many of the collectives have all of their time; links are numbered from one on. */
static size_t whole(const struct foreign_log *l, size_t n)
{
    bool *seen = calloc(n, sizeof *seen);
    size_t count = 0;

    ck_assert_ptr_nonnull(seen);
    for (size_t i = 0; i < l->n; i++) {
        const struct lk_foreign_record *r = &l->records[i];
        uint64_t link = r->link & (UINT64_MAX >> 1);

        if (r->kind != LK_FOREIGN_COLLECTIVE_GPU)
            continue;
        ck_assert_int_le(length_ns(r), 130);
        ck_assert_uint_lt(link, n);
        if (length_ns(r) == 130 && !seen[link]) {
            seen[link] = true;
            count++;
        }
    }
    free(seen);
    return count;
}

START_TEST(half_a_million_callbacks_of_many_threads_lose_nothing)
{
    pthread_t callers[CALLERS], watchers[WATCHERS];
    struct foreign_log l;

    foreign_log_to(scratch_dir, 64);
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, versions[_i]);
    for (int p = 0; p < WATCHERS; p++) {
        queues[p] = (struct queue){.writers = CALLERS};
        pthread_mutex_init(&queues[p].lock, NULL);
        pthread_cond_init(&queues[p].changed, NULL);
        ck_assert_int_eq(pthread_create(&watchers[p], NULL, watch, &queues[p]), 0);
    }
    for (size_t i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_create(&callers[i], NULL, call_many, (void *)(uintptr_t)i), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    for (int i = 0; i < WATCHERS; i++)
        pthread_join(watchers[i], NULL);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->lost, 0);
    ck_assert_uint_eq(l.header->head, l.n);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL), CALLERS * CALLS);
    ck_assert_uint_eq(whole(&l, CALLERS * CALLS), CALLERS * CALLS);
    foreign_log_fini(&l);
}
END_TEST

/* After the first event, which makes the file, callbacks take no memory at all. */
START_TEST(callbacks_do_not_allocate)
{
    struct mallinfo2 before, after;
    struct fake_comm c;
    struct fake_call_work w;

    foreign_log_to(scratch_dir, 1);
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, versions[_i]);
    fake_comm_init(&c, &plugin, 9, "name", 2, 1);
    fake_call_enqueue(&c, &all_reduce, &w);
    before = mallinfo2();
    for (int i = 0; i < 50000; i++) {
        fake_call_enqueue(&c, &all_reduce, &w);
        fake_channel_start(&w, 0, GPU_NS);
        fake_channel_stop(&w, 0, GPU_NS + 1);
    }
    after = mallinfo2();
    ck_assert_uint_eq(after.uordblks, before.uordblks);
    ck_assert_uint_eq(after.hblkhd, before.hblkhd);
}
END_TEST

SUITE(nccl_threads, tests)
{
    const int n_versions = (int)LK_COUNT(versions);

    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, half_a_million_callbacks_of_many_threads_lose_nothing, 0,
                        n_versions);
    tcase_add_loop_test(tests, callbacks_do_not_allocate, 0, n_versions);
}
