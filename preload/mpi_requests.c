#include "preload/mpi_requests.h"

#include <pthread.h>
#include <stdatomic.h>

enum { REQUESTS = 1 << 12 /* that are under way at once */, CHAINS = 1 << 10 };

/* A collective under way; in a list while a call waits for it. */
struct request {
    lk_mpi_handle key;
    struct lk_foreign_record record;
    int place, listed; /* in the caller's array; the next of the list, -1: it is the last one */
    int next;          /* of the chain, or of those that are free: index plus one; 0: none */
    bool waited;       /* it is in a list */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request requests[REQUESTS];
static int chains[CHAINS]; /* by handle: index plus one; 0: empty */
static int n_requests;     /* that were ever used */
static int unused;         /* of those: index plus one */
static _Atomic int under_way;

static int *chain_of(lk_mpi_handle key)
{
    return &chains[(key ^ key >> 4 ^ key >> 14) % CHAINS];
}

void lk_mpi_request_add(const struct lk_mpi *m, const void *request,
                        const struct lk_foreign_record *r)
{
    const lk_mpi_handle key = lk_mpi_handle_at(m, request, 0);
    int *chain = chain_of(key), i;

    pthread_mutex_lock(&lock);
    i = unused ? unused - 1 : n_requests;
    if (i < REQUESTS) {
        unused = unused ? requests[i].next : 0;
        n_requests += i == n_requests;
        requests[i] = (struct request){.key = key, .record = *r, .next = *chain};
        *chain = i + 1;
        atomic_fetch_add(&under_way, 1);
    }
    pthread_mutex_unlock(&lock);
}

/* Find the oldest request of a handle that no call waits for. MPICH gives the same one to all that
 * are done at once. */
static int find(lk_mpi_handle key)
{
    int found = -1;

    for (int i = *chain_of(key) - 1; i >= 0; i = requests[i].next - 1)
        if (requests[i].key == key && !requests[i].waited)
            found = i;
    return found;
}

static void drop(int i)
{
    int *link = chain_of(requests[i].key);

    while (*link != i + 1)
        link = &requests[*link - 1].next;
    *link = requests[i].next;
    requests[i].next = unused;
    unused = i + 1;
    atomic_fetch_sub(&under_way, 1);
}

int lk_mpi_requests_before(const struct lk_mpi *m, const void *handles, int n)
{
    int list = -1;

    if (!atomic_load_explicit(&under_way, memory_order_relaxed))
        return -1; /* most programs wait for messages alone */
    pthread_mutex_lock(&lock);
    for (int k = 0; k < n; k++) {
        int i = find(lk_mpi_handle_at(m, handles, k));

        if (i < 0)
            continue;
        requests[i].waited = true;
        requests[i].place = k;
        requests[i].listed = list;
        list = i;
    }
    pthread_mutex_unlock(&lock);
    return list;
}

int lk_mpi_requests_after(const struct lk_mpi *m, const void *handles, int list, int64_t end_ns)
{
    int next, n = 0;

    pthread_mutex_lock(&lock);
    for (int i = list; i >= 0; i = next) {
        struct request *r = &requests[i];

        next = r->listed;
        r->waited = false;
        if (lk_mpi_handle_at(m, handles, r->place) == r->key)
            continue;
        r->record.end_ns = end_ns;
        lk_foreign_emit(&r->record);
        drop(i);
        n++;
    }
    pthread_mutex_unlock(&lock);
    return n;
}

void lk_mpi_request_forget(const struct lk_mpi *m, const void *request)
{
    int i;

    if (!atomic_load_explicit(&under_way, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    i = find(lk_mpi_handle_at(m, request, 0));
    if (i >= 0)
        drop(i);
    pthread_mutex_unlock(&lock);
}
