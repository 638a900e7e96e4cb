/* Communicators: the table of backends with the one of a single rank, and the code that all share:
 * checks, failures, and collectives on a stream. */
#include "runtime/comm/comm.h"

#include "base/array.h"
#include "base/words.h"
#include "facts/span.h"
#include "runtime/comm/comm_fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The communicator of one rank: every collective is the identity ---- */

static enum lk_status self_open(const struct lk_comm_config *config, struct lk_comm **out)
{
    if (config->world_size != 1)
        return lk_fail(LK_EUSAGE, "the communicator 'self' is for 1 rank, not %d",
                       config->world_size);
    return lk_alloc(out, 1, sizeof(struct lk_comm));
}

static enum lk_status self_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq)
{
    (void)c;
    (void)call;
    (void)seq;
    return LK_OK;
}

static enum lk_status self_enqueue(struct lk_comm *c, struct lk_stream *s,
                                   const struct lk_coll_call *call, uint64_t seq)
{
    (void)s;
    return self_run(c, call, seq);
}

static enum lk_status self_graph(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end)
{
    (void)c;
    (void)s;
    (void)seq;
    (void)end;
    return LK_OK;
}

static void self_close(struct lk_comm *c)
{
    free(c);
}

static const struct lk_comm_ops comm_self = {.name = "self",
                                             .open = self_open,
                                             .run = self_run,
                                             .close = self_close,
                                             .enqueue = self_enqueue,
                                             .graph = self_graph,
                                             .groups = true};

/* ---- The table ---- */

static const struct lk_comm_ops *const backends[] = {
    &comm_self,
    &lk_comm_tcp,
    &lk_comm_mpi,
#ifdef LK_HAVE_CUDA
    &lk_comm_nccl,
#endif
};

static enum lk_status check_config(const struct lk_comm_ops *ops,
                                   const struct lk_comm_config *config)
{
    if (config->world_size < 1 || config->rank < 0 || config->rank >= config->world_size)
        return lk_fail(LK_EUSAGE, "there is no rank %d of %d", config->rank, config->world_size);
    if (config->world_size > 1 && !config->store)
        return lk_fail(LK_EUSAGE, "%d ranks need a store to meet at", config->world_size);
    if (config->device && !lk_device_uses_host_memory(config->device) && !ops->enqueue)
        return lk_fail(LK_EUNSUPPORTED,
                       "the communicator '%s' needs buffers in host memory, and those of the "
                       "device %s are not: it takes nccl",
                       ops->name, lk_device_name(config->device));
    return LK_OK;
}

enum lk_status lk_comm_open_ops(const struct lk_comm_ops *ops, const struct lk_comm_config *config,
                                struct lk_comm **out)
{
    enum lk_status st = LK_OK;
    struct lk_comm *c = NULL;

    LK_TRY(check_config(ops, config));
    LK_TRY(ops->open(config, &c));
    c->ops = ops;
    c->rank = config->rank;
    c->world_size = config->world_size;
    for (int i = 0; i < LK_COLL_MODELLED; i++)
        LK_TRY(
            lk_recorder_name(config->recorder, lk_coll_name((enum lk_coll)i), &c->span_names[i]));
    for (int i = 0; i < LK_HOP_VALUES && ops->hop; i++)
        LK_TRY(lk_recorder_name(config->recorder, lk_hop_value_name((enum lk_hop_value)i),
                                &c->hop_names[i]));
    *out = c;
    c = NULL;
out:
    lk_comm_close(c);
    return st;
}

static enum lk_status find(const char *name, const struct lk_comm_ops **out)
{
    const char *names[LK_COUNT(backends)];
    const struct lk_words words = {"a communicator of this build", names, LK_COUNT(backends)};
    int i = 0;

    for (size_t k = 0; k < words.n; k++)
        names[k] = backends[k]->name;
    if (lk_words_find(&words, name, &i) != LK_OK)
        return lk_fail(LK_EUNSUPPORTED, "%s", lk_error_text());
    *out = backends[i];
    return LK_OK;
}

bool lk_comm_built(const char *name)
{
    const struct lk_comm_ops *ops = NULL;

    lk_quietly_(find(name, &ops));
    return ops != NULL;
}

enum lk_status lk_comm_library(const char *name, char *buf, size_t size)
{
    const struct lk_comm_ops *ops;
    enum lk_status st = find(name, &ops);

    snprintf(buf, size, "%s", "");
    return st == LK_OK && ops->library ? ops->library(buf, size) : st;
}

enum lk_status lk_comm_open(const char *name, const struct lk_comm_config *config,
                            struct lk_comm **out)
{
    const struct lk_comm_ops *ops;
    struct lk_comm *c = NULL;
    enum lk_status st = find(name, &ops);

    if (st == LK_OK)
        st = lk_comm_open_ops(ops, config, &c);
    if (st == LK_OK && config->fault)
        return lk_comm_fault_wrap(config->fault, config, c, out);
    if (st == LK_OK)
        *out = c;
    return st;
}

void lk_comm_close(struct lk_comm *c)
{
    char *text;

    if (!c)
        return;
    text = c->failed_text;
    c->ops->close(c);
    free(text);
}

int lk_comm_rank(const struct lk_comm *c)
{
    return c->rank;
}

int lk_comm_world_size(const struct lk_comm *c)
{
    return c->world_size;
}

bool lk_comm_has_groups(const struct lk_comm *c)
{
    return c->ops->groups;
}

enum lk_status lk_comm_name_groups(struct lk_comm *c, struct lk_recorder *recorder, int n)
{
    size_t at = c->groups[0].n && c->groups[0].n != n;
    char name[64];

    for (int i = 0; i < LK_COLL_MODELLED; i++) {
        snprintf(name, sizeof name, "%s of %d ranks", lk_coll_name((enum lk_coll)i), n);
        LK_PASS(lk_recorder_name(recorder, name, &c->groups[at].names[i]));
    }
    c->groups[at].n = n;
    return LK_OK;
}

bool lk_comm_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo)
{
    return algo == LK_ALGO_AUTO || !c->ops->has || c->ops->has(c, coll, algo);
}

enum lk_algo lk_comm_choice(const struct lk_comm *c, const struct lk_coll_call *call)
{
    return call->algo == LK_ALGO_AUTO && c->ops->choice ? c->ops->choice(c, call) : call->algo;
}

enum lk_status lk_comm_check_algo(const char *name, enum lk_coll coll, enum lk_algo algo)
{
    const struct lk_comm_ops *ops;
    char has[160];
    size_t n;

    LK_PASS(find(name, &ops));
    if (algo == LK_ALGO_AUTO || !ops->has || ops->has(NULL, coll, algo))
        return LK_OK;
    n = (size_t)snprintf(has, sizeof has, "%s", lk_algo_name(LK_ALGO_AUTO));
    for (int a = LK_ALGO_AUTO + 1; a < LK_ALGO_COUNT && n < sizeof has; a++)
        if (ops->has(NULL, coll, (enum lk_algo)a))
            n += (size_t)snprintf(has + n, sizeof has - n, ", %s", lk_algo_name((enum lk_algo)a));
    return lk_fail(LK_EUSAGE, "%s has no %s for %s; it has: %s%s%s", name, lk_algo_name(algo),
                   lk_coll_name(coll), has, ops->algo_help ? ". " : "",
                   ops->algo_help ? ops->algo_help : "");
}

/* Return how many parts of `count` elements the buffer of a collective has. */
static size_t parts(enum lk_coll coll, int world_size)
{
    switch (coll) {
    case LK_REDUCE_SCATTER:
    case LK_ALL_GATHER:
        return (size_t)world_size;
    case LK_BARRIER:
        return 0;
    default:
        return 1;
    }
}

int lk_coll_call_ranks(const struct lk_coll_call *call, int world_size)
{
    return call->group.n ? call->group.n : world_size;
}

size_t lk_coll_call_bytes(const struct lk_coll_call *call, int world_size)
{
    return parts(call->coll, lk_coll_call_ranks(call, world_size)) * call->count *
           lk_dtype_bytes(call->dtype);
}

/* Check the group: this rank is in it, and the ranks divide into such groups. */
static enum lk_status check_group(const struct lk_comm *c, const struct lk_coll_call *call)
{
    const struct lk_rank_group *g = &call->group;
    int at;

    if (!g->n)
        return LK_OK;
    if (!lk_comm_has_groups(c))
        return lk_fail(LK_EUNSUPPORTED, "%s has no collectives of a part of the ranks",
                       c->ops->name);
    if (call->coll != LK_ALL_REDUCE && call->coll != LK_REDUCE_SCATTER &&
        call->coll != LK_ALL_GATHER)
        return lk_fail(LK_EUNSUPPORTED, "no %s of a part of the ranks", lk_coll_name(call->coll));
    at = c->rank - g->first;
    if (g->n < 1 || g->stride < 1 || g->first < 0 || at < 0 || at % g->stride ||
        at / g->stride >= g->n || g->first + (g->n - 1) * g->stride >= c->world_size ||
        c->world_size % g->n)
        return lk_fail(LK_EUSAGE, "rank %d of %d is in no group of %d from rank %d, every %d",
                       c->rank, c->world_size, g->n, g->first, g->stride);
    return LK_OK;
}

static enum lk_status check_call(const struct lk_comm *c, const struct lk_coll_call *call)
{
    size_t n =
        parts(call->coll, lk_coll_call_ranks(call, c->world_size)) * lk_dtype_bytes(call->dtype);

    LK_PASS(check_group(c, call));
    if (n && call->count > (size_t)PTRDIFF_MAX / n)
        return lk_fail(LK_EUSAGE, "%zu elements are too many", call->count);
    if (n && call->count && !call->buf)
        return lk_fail(LK_EUSAGE, "no buffer");
    if (call->coll == LK_BROADCAST && (call->root < 0 || call->root >= c->world_size))
        return lk_fail(LK_EUSAGE, "there is no rank %d of %d to broadcast from", call->root,
                       c->world_size);
    if (!lk_comm_has(c, call->coll, call->algo))
        return lk_fail(LK_EUNSUPPORTED, "%s has no %s for it%s%s", c->ops->name,
                       lk_algo_name(call->algo), c->ops->algo_help ? ": " : "",
                       c->ops->algo_help ? c->ops->algo_help : "");
    if (call->from && !c->ops->out_of_place)
        return lk_fail(LK_EUNSUPPORTED, "%s reduces in place only", c->ops->name);
    return LK_OK;
}

void lk_comm_name_call(const struct lk_coll_call *call, uint64_t seq, uint32_t step, char *buf,
                       size_t size)
{
    char where[64] = "";

    if (call->index >= 0 && step != UINT32_MAX)
        snprintf(where, sizeof where, " (bucket %" PRId32 ", step %" PRIu32 ")", call->index, step);
    else if (step != UINT32_MAX)
        snprintf(where, sizeof where, " (step %" PRIu32 ")", step);
    snprintf(buf, size, "%s %" PRIu64 "%s", lk_coll_name(call->coll), seq, where);
}

/* Return the failure that killed the communicator; every later call returns it. */
static enum lk_status dead(const struct lk_comm *c)
{
    return lk_fail(c->failed, "%s", c->failed_text ? c->failed_text : "out of memory");
}

/* Keep the current failure as that of the communicator. */
static enum lk_status die(struct lk_comm *c, enum lk_status st)
{
    c->failed = st;
    lk_quietly_(lk_strdup(&c->failed_text, lk_error_text()));
    return st;
}

/* Return a collective's failure under its name. A device that failed before has said what failed:
 * a collective that it refuses is not the reason. */
static enum lk_status name_failure(enum lk_status st, struct lk_stream *s, const char *name)
{
    enum lk_status before = s ? lk_device_status(lk_stream_device(s)) : LK_OK;

    return before != LK_OK ? before : lk_fail_context(st, "%s", name);
}

enum lk_status lk_comm_run_step(struct lk_comm *c, struct lk_stream *s,
                                const struct lk_coll_call *call, uint32_t step, uint64_t *out_seq)
{
    char name[128];
    enum lk_status st;
    uint64_t seq = c->next_seq;

    if (c->failed != LK_OK)
        return dead(c);
    st = check_call(c, call);
    if (st == LK_OK) {
        c->next_seq++;
        st = s ? c->ops->enqueue(c, s, call, seq) : c->ops->run(c, call, seq);
    }
    if (st != LK_OK) {
        lk_comm_name_call(call, seq, step, name, sizeof name);
        return die(c, name_failure(st, s, name));
    }
    *out_seq = seq;
    return LK_OK;
}

enum lk_status lk_comm_run(struct lk_comm *c, const struct lk_coll_call *call)
{
    uint64_t seq;

    return lk_comm_run_step(c, NULL, call, UINT32_MAX, &seq);
}

enum lk_status lk_comm_pass(struct lk_comm *c, const struct lk_pass *p, double *out_Bps)
{
    uint64_t seq = c->next_seq;
    char name[64];
    enum lk_status st;

    if (c->failed != LK_OK)
        return dead(c);
    if (!c->ops->pass)
        return lk_fail(LK_EUNSUPPORTED, "%s has no transfers between two ranks", c->ops->name);
    if (p->to >= c->world_size || p->from >= c->world_size || p->to == c->rank ||
        p->from == c->rank)
        return lk_fail(LK_EUSAGE, "rank %d of %d cannot send to rank %d and receive from rank %d",
                       c->rank, c->world_size, p->to, p->from);
    c->next_seq++;
    st = c->ops->pass(c, p, seq, out_Bps);
    if (st == LK_OK)
        return LK_OK;
    snprintf(name, sizeof name, "transfer %" PRIu64, seq);
    return die(c, lk_fail_context(st, "%s", name));
}

enum lk_status lk_comm_barrier(struct lk_comm *c)
{
    return lk_comm_run(c, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1});
}

enum lk_status lk_comm_gather(struct lk_comm *c, enum lk_dtype dtype, const void *own, size_t n,
                              void *all)
{
    const size_t bytes = n * lk_dtype_bytes(dtype);
    const struct lk_coll_call call = {
        .coll = LK_ALL_GATHER, .dtype = dtype, .buf = all, .count = n, .index = -1};

    memcpy((char *)all + (size_t)c->rank * bytes, own, bytes);
    return lk_comm_run(c, &call);
}

enum lk_status lk_comm_alloc(struct lk_comm *c, struct lk_device *d, size_t bytes, void **out)
{
    return c->ops->alloc ? c->ops->alloc(c, d, bytes ? bytes : 1, out)
                         : lk_device_alloc(d, bytes, out);
}

void lk_comm_free(struct lk_comm *c, struct lk_device *d, void *p)
{
    if (p && c->ops->free)
        c->ops->free(c, d, p);
    else
        lk_device_free(d, p);
}

bool lk_comm_can_capture(const struct lk_comm *c)
{
    return c->ops->graph != NULL;
}

static enum lk_status graph(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end)
{
    enum lk_status st;

    if (c->failed != LK_OK)
        return dead(c);
    if (!c->ops->graph)
        return lk_fail(LK_EUNSUPPORTED, "collectives of %s cannot be part of a graph",
                       c->ops->name);
    st = c->ops->graph(c, s, seq, end);
    return st == LK_OK ? st : die(c, name_failure(st, s, "launch of a graph"));
}

enum lk_status lk_comm_graph_begin(struct lk_comm *c, struct lk_stream *s)
{
    return graph(c, s, c->next_seq, false);
}

enum lk_status lk_comm_graph_end(struct lk_comm *c, struct lk_stream *s)
{
    return graph(c, s, c->next_seq++, true);
}

enum lk_status lk_comm_estimate(struct lk_comm *c, const struct lk_coll_call *call, double *out_s)
{
    enum lk_status st;

    if (c->failed != LK_OK)
        return dead(c);
    st = check_call(c, call);
    if (st != LK_OK)
        return st;
    if (!c->ops->estimate)
        return lk_fail(LK_EUNSUPPORTED, "%s does not estimate times", c->ops->name);
    return c->ops->estimate(c, call, out_s);
}

/* ---- On a stream: a host function runs the collective and emits its span ---- */

struct enqueued {
    struct lk_comm *comm;
    struct lk_coll_call call;
    uint32_t step;
};
_Static_assert(sizeof(struct enqueued) <= LK_OP_ARGS_MAX, "a call must fit a stream's entry");

static uint16_t name_of(const struct lk_comm *c, const struct lk_coll_call *call)
{
    for (size_t i = 0; i < LK_COUNT(c->groups) && call->group.n; i++)
        if (c->groups[i].n == call->group.n)
            return c->groups[i].names[call->coll];
    return c->span_names[call->coll];
}

static struct lk_span span_of(const struct lk_comm *c, const struct lk_coll_call *call,
                              uint32_t step)
{
    return (struct lk_span){.kind = LK_SPAN_COLLECTIVE,
                            .name = name_of(c, call),
                            .step = step,
                            .index = call->index,
                            .bytes = lk_coll_call_bytes(call, c->world_size)};
}

/* Record what the link that the collective was sent on did. */
static void emit_hop(const struct lk_comm *c, struct lk_track *track, const struct lk_span *coll)
{
    const struct lk_hop *h = c->ops->hop ? c->ops->hop(c) : NULL;

    for (int i = 0; i < LK_HOP_VALUES && h; i++)
        lk_span_emit(track, &(struct lk_span){.kind = LK_SPAN_COUNTER,
                                              .name = c->hop_names[i],
                                              .step = coll->step,
                                              .index = h->to,
                                              .seq = coll->seq,
                                              .start_ns = coll->end_ns,
                                              .end_ns = coll->end_ns,
                                              .value = h->v[i]});
}

static enum lk_status run_enqueued(struct lk_stream *s, const void *arg)
{
    const struct enqueued *e = arg;
    struct lk_span span = span_of(e->comm, &e->call, e->step);
    struct lk_track *track = lk_stream_track(s);
    uint64_t seq = 0;
    enum lk_status st;

    lk_span_enter(track, &span);
    /* The stream has reached this collective: the bucket is full and the one before has ended. */
    span.start_ns = lk_now_ns();
    st = lk_comm_run_step(e->comm, NULL, &e->call, e->step, &seq);
    if (st != LK_OK)
        return st;
    span.end_ns = lk_now_ns();
    lk_span_leave(track, &span);
    span.seq = (uint32_t)seq;
    span.ready_ns = e->call.ready ? lk_event_time_ns(e->call.ready) : span.start_ns;
    lk_span_emit(track, &span);
    emit_hop(e->comm, track, &span);
    return LK_OK;
}

/* Enqueue a collective that the stream runs natively; its span is a range of the stream. */
static enum lk_status put_on(struct lk_comm *c, struct lk_stream *s,
                             const struct lk_coll_call *call)
{
    struct lk_span span = span_of(c, call, lk_stream_step(s));
    uint64_t seq;

    span.seq = (uint32_t)c->next_seq;
    LK_PASS(lk_stream_span_begin(s, &span, call->ready));
    LK_PASS(lk_comm_run_step(c, s, call, lk_stream_step(s), &seq));
    return lk_stream_range_end(s);
}

enum lk_status lk_comm_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call)
{
    struct enqueued e = {.comm = c, .call = *call, .step = lk_stream_step(s)};

    /* A host function is cheaper than the events of a range, if host functions can use the
     * buffer. */
    if (c->ops->enqueue && !lk_device_uses_host_memory(lk_stream_device(s)))
        return put_on(c, s, call);
    return lk_stream_host(s, run_enqueued, &e, sizeof e);
}

enum lk_status lk_comm_between(struct lk_comm *c, struct lk_stream *compute, struct lk_stream *net,
                               struct lk_event *back, const struct lk_coll_call *call)
{
    LK_PASS(lk_event_record(call->ready, compute));
    LK_PASS(lk_stream_wait(net, call->ready));
    LK_PASS(lk_comm_enqueue(c, net, call));
    LK_PASS(lk_event_record(back, net));
    return lk_stream_wait(compute, back);
}

enum lk_status lk_comm_put(struct lk_comm *c, struct lk_stream *s, const struct lk_coll_call *call)
{
    uint64_t seq;

    return c->ops->enqueue ? lk_comm_run_step(c, s, call, lk_stream_step(s), &seq)
                           : lk_comm_enqueue(c, s, call);
}
