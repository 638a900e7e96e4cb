/* Tell which GPUs are whose; see the header. */
#include "profiler/import/devices.h"

#include "base/array.h"

#include <stdlib.h>

/* A process uses a GPU. */
struct use {
    int64_t process, device;
    size_t n;   /* events */
    bool main;  /* it does most of its work there */
    bool stray; /* it does hardly anything there */
};

struct uses {
    struct use *at;
    size_t n, capacity;
};

static int use_order(const void *a, const void *b)
{
    const struct use *x = a, *y = b;

    return x->device != y->device ? LK_ORDER(x->device, y->device)
                                  : LK_ORDER(x->process, y->process);
}

static enum lk_status add_use(struct uses *u, const struct lk_lane *lane, size_t n)
{
    int64_t device = lane->process % LK_SHARED_DEVICE;

    for (size_t i = 0; i < u->n; i++)
        if (u->at[i].process == lane->owner && u->at[i].device == device) {
            u->at[i].n += n;
            return LK_OK;
        }
    LK_PASS(lk_array_grow(&u->at, &u->capacity, u->n + 1, sizeof *u->at));
    u->at[u->n++] = (struct use){.process = lane->owner, .device = device, .n = n};
    return LK_OK;
}

static enum lk_status count_uses(const struct lk_events *e, struct uses *u)
{
    enum lk_status st = LK_OK;
    size_t *of_lane = NULL;

    LK_TRY(lk_alloc(&of_lane, e->n_lanes, sizeof *of_lane));
    for (size_t i = 0; i < e->n_events; i++)
        of_lane[e->events[i].lane]++;
    for (size_t i = 0; i < e->n_lanes; i++)
        if (e->lanes[i].gpu && e->lanes[i].owner >= 0)
            LK_TRY(add_use(u, &e->lanes[i], of_lane[i]));
    if (u->n)
        qsort(u->at, u->n, sizeof *u->at, use_order);
out:
    free(of_lane);
    return st;
}

/* A process does not own a GPU on which it has less than this share of its events on another. */
static const double stray_share = 0.1;

/* Mark where each process does most of its work, of equal GPUs the first, and hardly any. */
static void mark_uses(struct uses *u)
{
    for (size_t i = 0; i < u->n; i++) {
        struct use *x = &u->at[i];

        x->main = true;
        for (size_t k = 0; k < u->n; k++) {
            const struct use *y = &u->at[k];

            if (y->process != x->process)
                continue;
            x->main = x->main && (y->n < x->n || (y->n == x->n && k >= i));
            x->stray = x->stray || (double)x->n < stray_share * (double)y->n;
        }
    }
}

/* Set a lane's GPU and the process that it counts to. */
static void settle(struct lk_lane *lane, const struct uses *u)
{
    int64_t device = lane->process % LK_SHARED_DEVICE, owner = lane->owner, place = 0;
    const struct use *first = NULL;
    size_t most = 0;

    lane->process = device;
    for (size_t i = 0; i < u->n; i++) {
        const struct use *x = &u->at[i];

        if (x->device != device)
            continue;
        if (x->main && x->process == owner) { /* a GPU of its own */
            lane->process += place * LK_SHARED_DEVICE;
            return;
        }
        place += x->main;
        if (x->stray)
            continue;
        if (x->main ? !first || !first->main : (!first || !first->main) && x->n > most)
            first = x;
        most = x->n > most ? x->n : most;
    }
    lane->owner = first ? first->process : -1;
}

enum lk_status lk_devices_settle(struct lk_events *e)
{
    enum lk_status st = LK_OK;
    struct uses u = {0};

    LK_TRY(count_uses(e, &u));
    mark_uses(&u);
    for (size_t i = 0; i < e->n_lanes; i++)
        if (e->lanes[i].gpu && e->lanes[i].owner >= 0)
            settle(&e->lanes[i], &u);
out:
    free(u.at);
    return st;
}
