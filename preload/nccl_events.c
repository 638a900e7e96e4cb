#include "preload/nccl_events.h"

#include "preload/handles.h"
#include "preload/nccl_links.h"
#include "preload/nccl_words.h"
#include "preload/record.h"

/* The parts of a handle. A channel's handle is its collective's, with the channel's number. */
enum tag { TAG_COMM = 1, TAG_GROUP, TAG_CALL, TAG_WORK, TAG_SEND, TAG_SEND_STEP, TAG_CHANNEL = 64 };
enum { CHANNELS = 64 }; /* NCCL's MAXCHANNELS; a tag has as many values left */

struct comm {
    uint32_t group;
    int32_t n_ranks;
    _Atomic uint32_t begun; /* collectives */
};

/* A call of ncclAllReduce and others: what only the call knows. */
struct call {
    int64_t start_ns;
    uint64_t count;
    uint32_t thread;
    uint8_t dtype;
    bool captured;
};

/* A collective, or a send or receive. The record is written before the handle is given out. */
struct work {
    struct lk_foreign_record record;
    _Atomic uint64_t started, ended;    /* channels, a bit each */
    _Atomic uint64_t first_ns, last_ns; /* by the GPU's clock: the first start, the last end */
    atomic_flag called;                 /* its call is recorded */
};

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): NCCL's tables have no context
 * for stop and record. Pages of theirs exist only once they are used. */
static _Atomic uint64_t comm_states[LK_NCCL_COMMS], call_states[LK_NCCL_CALLS],
    work_states[LK_NCCL_WORKS];
static struct comm comms[LK_NCCL_COMMS];
static struct call calls[LK_NCCL_CALLS];
static struct work works[LK_NCCL_WORKS];
static struct lk_handles comm_handles = {.states = comm_states, .n = LK_NCCL_COMMS};
static struct lk_handles call_handles = {.states = call_states, .n = LK_NCCL_CALLS};
static struct lk_handles work_handles = {.states = work_states, .n = LK_NCCL_WORKS};
static _Atomic uint64_t links;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

/* ---- Communicators ---- */

static void *begin_comm(uint64_t id, const char *name, int n_ranks, int rank)
{
    uint32_t place;
    void *handle = lk_handle_take(&comm_handles, TAG_COMM, &place);
    struct comm *c;

    if (!handle) {
        lk_foreign_lose();
        return NULL;
    }
    c = &comms[place]; /* it stays pinned until it ends */
    c->group = lk_foreign_group("nccl", id, name, n_ranks, rank);
    c->n_ranks = n_ranks;
    atomic_store_explicit(&c->begun, 0, memory_order_relaxed);
    return handle;
}

int lk_nccl_init(void **context, int *mask, int types, uint64_t id, const char *name, int n_ranks,
                 int rank)
{
    const bool on = lk_foreign_begin();

    if (lk_nccl_links_on())
        types |= NCCL_PROXY_OP | NCCL_PROXY_STEP;
    *context = on ? begin_comm(id, name, n_ranks, rank) : NULL;
    __atomic_store_n(mask, on ? types : 0, __ATOMIC_RELAXED);
    return NCCL_SUCCESS;
}

int lk_nccl_finalize(void *context)
{
    if (lk_handle_tag(context) == TAG_COMM)
        (void)lk_handle_end(&comm_handles, context);
    return NCCL_SUCCESS;
}

/* ---- Starts ---- */

static void *start_call(uint64_t count, const char *dtype, bool captured)
{
    uint32_t place;
    void *handle = lk_handle_take(&call_handles, TAG_CALL, &place);

    if (!handle) {
        lk_foreign_lose();
        return NULL;
    }
    calls[place] = (struct call){.start_ns = lk_foreign_now(),
                                 .count = count,
                                 .thread = lk_foreign_thread(),
                                 .dtype = lk_nccl_dtype_of(dtype),
                                 .captured = captured};
    lk_handle_unpin(&call_handles, place);
    return handle;
}

/* The parts of a descriptor that a record of a collective takes. */
struct told {
    const char *function, *dtype;
    uint64_t count;
    int peer;
};

/*
 * Take what the call of a collective says. A graph's was made when it was captured; its work is
 * handed over at each replay. Where the call is not known (version 4), NCCL gives all-gathers and
 * broadcasts as bytes.
 */
static void add_call(struct lk_foreign_record *r, const void *parent, uint64_t *count)
{
    const struct call *call;
    uint32_t place;

    if (lk_handle_tag(parent) != TAG_CALL || !lk_handle_pin(&call_handles, parent, &place))
        return;
    call = &calls[place];
    *count = call->count;
    r->dtype = call->dtype;
    r->lane = call->thread;
    if (call->captured)
        r->flags |= LK_FOREIGN_GRAPH;
    else
        r->start_ns = call->start_ns;
    lk_handle_unpin(&call_handles, place);
}

/* Fill a record of the work, as far as it is known at its start. */
static void describe(struct lk_foreign_record *r, struct comm *c, const struct told *t,
                     const void *parent)
{
    const struct lk_nccl_function *f = lk_nccl_function_of(t->function);
    uint64_t count = t->count;

    r->start_ns = lk_foreign_now();
    r->link = LK_FOREIGN_LINK_OF_NCCL | atomic_fetch_add_explicit(&links, 1, memory_order_relaxed);
    r->name = f->function ? 0 : lk_foreign_name(t->function);
    r->lane = lk_foreign_thread();
    r->group = c->group;
    r->peer = f->peer ? t->peer : -1;
    r->function = f->function;
    r->dtype = lk_nccl_dtype_of(t->dtype);
    add_call(r, parent, &count);
    if (f->from_each_rank && __builtin_mul_overflow(count, (uint64_t)c->n_ranks, &count))
        count = 0;
    r->count = count;
    /* Ranks make the same collectives of a communicator in the same order, but not the same sends.
     */
    r->sequence =
        f->function == LK_FOREIGN_FUNCTION(LK_SEND) || f->function == LK_FOREIGN_FUNCTION(LK_RECV)
            ? LK_FOREIGN_NO_SEQUENCE
            : atomic_fetch_add_explicit(&c->begun, 1, memory_order_relaxed);
}

static void *start_work(const void *context, const struct told *t, const void *parent)
{
    struct lk_foreign_record r = {.kind = LK_FOREIGN_COLLECTIVE_CALL};
    uint32_t comm, place;
    struct work *w;
    void *handle;

    if (lk_handle_tag(context) != TAG_COMM || !lk_handle_pin(&comm_handles, context, &comm)) {
        lk_foreign_lose();
        return NULL;
    }
    describe(&r, &comms[comm], t, parent);
    lk_handle_unpin(&comm_handles, comm);
    handle = lk_handle_take(&work_handles, TAG_WORK, &place);
    if (!handle) {
        lk_foreign_lose();
        return NULL;
    }
    w = &works[place];
    w->record = r;
    atomic_store_explicit(&w->started, 0, memory_order_relaxed);
    atomic_store_explicit(&w->ended, 0, memory_order_relaxed);
    atomic_store_explicit(&w->first_ns, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&w->last_ns, 0, memory_order_relaxed);
    atomic_flag_clear_explicit(&w->called, memory_order_relaxed);
    lk_handle_unpin(&work_handles, place);
    return handle;
}

/* Pin the work that a handle with a tag of it means; NULL: it is gone (counted). */
static struct work *pin_work(const void *handle, uint32_t *place)
{
    if (lk_handle_pin(&work_handles, handle, place))
        return &works[*place];
    lk_foreign_lose();
    return NULL;
}

/* A parent of NULL was lost at its own start, and counted there. Channels that NCCL does not have
 * today, other processes' parents and those whose places are taken are counted here. */
static void *start_channel(const void *parent, const struct nccl_kernel_ch *k)
{
    struct work *w;
    uint32_t place;
    uint64_t first;

    if (!parent)
        return NULL;
    if (lk_handle_tag(parent) != TAG_WORK || k->channel >= CHANNELS) {
        lk_foreign_lose();
        return NULL;
    }
    w = pin_work(parent, &place);
    if (!w)
        return NULL;
    first = atomic_load_explicit(&w->first_ns, memory_order_relaxed);
    while (k->start_ns < first && !atomic_compare_exchange_weak(&w->first_ns, &first, k->start_ns))
        ;
    atomic_fetch_or(&w->started, UINT64_C(1) << k->channel);
    lk_handle_unpin(&work_handles, place);
    return lk_handle_retag(parent, (uint8_t)(TAG_CHANNEL + k->channel));
}

/* What a rank's proxy receives is of no use, nor what it sends for another process (PXN), whose
 * context is none of ours. */
static void *start_proxy_op(const void *context, const struct nccl_proxy_op *op)
{
    uint32_t group, place;

    if (!op->is_send || lk_handle_tag(context) != TAG_COMM ||
        !lk_handle_pin(&comm_handles, context, &place))
        return NULL;
    group = comms[place].group;
    lk_handle_unpin(&comm_handles, place);
    return lk_nccl_link(context, group, op->peer, TAG_SEND);
}

static void *start(void *context, uint64_t type, const struct nccl_descriptor *d)
{
    switch (type) {
    case NCCL_GROUP: /* NCCL 2.27 begins no collective whose group has no handle */
        return lk_handle_tag(context) == TAG_COMM ? lk_handle_retag(context, TAG_GROUP) : NULL;
    case NCCL_COLL_API:
        return start_call(d->coll_api.count, d->coll_api.dtype, d->coll_api.captured);
    case NCCL_P2P_API:
        return start_call(d->p2p_api.count, d->p2p_api.dtype, d->p2p_api.captured);
    case NCCL_COLL:
        return start_work(
            context, &(struct told){d->coll.function, d->coll.dtype, d->coll.count, d->coll.root},
            d->parent);
    case NCCL_P2P:
        return start_work(context,
                          &(struct told){d->p2p.function, d->p2p.dtype, d->p2p.count, d->p2p.peer},
                          d->parent);
    case NCCL_CE_COLL:
        return start_work(context,
                          &(struct told){d->ce_coll.function, d->ce_coll.dtype, d->ce_coll.count,
                                         d->ce_coll.root},
                          d->parent);
    case NCCL_KERNEL_CH:
        return start_channel(d->parent, &d->kernel_ch);
    case NCCL_PROXY_OP:
        return start_proxy_op(context, &d->proxy_op);
    case NCCL_PROXY_STEP:
        return lk_handle_tag(d->parent) == TAG_SEND ? lk_handle_retag(d->parent, TAG_SEND_STEP)
                                                    : NULL;
    default:
        return NULL;
    }
}

void *lk_nccl_start(void *context, uint64_t type, const struct nccl_descriptor *d)
{
    const int64_t since = lk_foreign_cost_begin();
    void *handle = start(context, type, d);

    lk_foreign_cost_end(since);
    return handle;
}

/* ---- Ends ---- */

static void stop_work(const void *handle)
{
    struct lk_foreign_record r;
    uint32_t place;
    struct work *w = pin_work(handle, &place);

    if (!w)
        return;
    if (!atomic_flag_test_and_set(&w->called)) {
        r = w->record;
        r.end_ns = lk_foreign_now();
        lk_foreign_emit(&r);
    }
    lk_handle_unpin(&work_handles, place);
}

/* The others' ends say nothing: a call's is in its work's record, a channel's comes as a state. */
int lk_nccl_stop_event(void *handle)
{
    const int64_t since = lk_foreign_cost_begin();
    const uint8_t tag = lk_handle_tag(handle);

    if (tag == TAG_WORK)
        stop_work(handle);
    else if (tag == TAG_SEND_STEP)
        lk_nccl_link_sent(handle);
    else if (tag == TAG_SEND)
        lk_nccl_link_ends(handle);
    lk_foreign_cost_end(since);
    return NCCL_SUCCESS;
}

static void emit_gpu(const struct work *w)
{
    uint64_t first = atomic_load_explicit(&w->first_ns, memory_order_relaxed);
    uint64_t last = atomic_load_explicit(&w->last_ns, memory_order_relaxed);
    struct lk_foreign_record r = w->record;

    if (first == 0 || last < first)
        return; /* no times: not known */
    r.kind = LK_FOREIGN_COLLECTIVE_GPU;
    r.flags |= LK_FOREIGN_SEEN;
    r.end_ns = lk_foreign_now();
    r.start_ns = r.end_ns - (int64_t)(last - first);
    r.count = first;
    r.lane = r.group;
    r.peer = -1;
    lk_foreign_emit(&r);
}

static void end_channel(void *handle, uint64_t gpu_ns)
{
    const uint8_t tag = lk_handle_tag(handle);
    uint64_t bit, last;
    struct work *w;
    uint32_t place;

    if (tag < TAG_CHANNEL || tag >= TAG_CHANNEL + CHANNELS)
        return;
    w = pin_work(handle, &place);
    if (!w)
        return;
    bit = UINT64_C(1) << (tag - TAG_CHANNEL);
    last = atomic_load_explicit(&w->last_ns, memory_order_relaxed);
    while (gpu_ns > last && !atomic_compare_exchange_weak(&w->last_ns, &last, gpu_ns))
        ;
    if (!(atomic_fetch_or(&w->ended, bit) & bit) &&
        !(atomic_load(&w->started) & ~atomic_load(&w->ended)))
        emit_gpu(w);
    lk_handle_unpin(&work_handles, place);
}

int lk_nccl_record_event_state(void *handle, int state, const union nccl_state *args)
{
    const int64_t since = lk_foreign_cost_begin();

    if (state == NCCL_KERNEL_CH_STOP && args)
        end_channel(handle, args->kernel_ch_stop_ns);
    else if (state == NCCL_SEND_WAIT && args && lk_handle_tag(handle) == TAG_SEND_STEP)
        lk_nccl_link_sends(handle, args->sent_bytes);
    lk_foreign_cost_end(since);
    return NCCL_SUCCESS;
}
