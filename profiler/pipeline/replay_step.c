/* The dependencies of one step. Divisions: lists, streams, sends and receives, ends, groups. */
#include "profiler/pipeline/replay_impl.h"

#include "base/array.h"

/* By how much times of two operations of a worker may be in the wrong order: 50 us, s. */
static const double CLOCK_S = 50e-6;

/* ---- Lists ---- */

struct list {
    uint32_t first, n;
};

static struct list list_of(const struct pipe_step *s, size_t worker, enum lk_pipe_type type)
{
    size_t i = worker * LK_PIPE_TYPES + type;

    return (struct list){s->at[i], s->at[i + 1] - s->at[i]};
}

static double end_of(const struct lk_pipe_op *op)
{
    return op->start_s + op->duration_s;
}

static enum lk_status depend(struct pipe_step *s, uint32_t op, uint32_t on)
{
    LK_PASS(lk_array_grow(&s->edges, &s->edges_capacity, s->n_edges + 1, sizeof *s->edges));
    s->edges[s->n_edges++] = (struct pipe_edge){op, on};
    return LK_OK;
}

/* Merge a worker's operations of two types by their starts to s->order; return how many. */
static uint32_t merge(struct pipe_step *s, size_t worker, enum lk_pipe_type a, enum lk_pipe_type b)
{
    struct list x = list_of(s, worker, a), y = list_of(s, worker, b);
    uint32_t n = 0;

    while (x.n || y.n) {
        bool first = !y.n || (x.n && s->ops[x.first].start_s <= s->ops[y.first].start_s);
        struct list *from = first ? &x : &y;

        s->order[n++] = from->first++;
        from->n--;
    }
    return n;
}

/* Find where each worker's operations of each type begin; no worker may be without any. */
static enum lk_status index_step(struct pipe_step *s)
{
    size_t at = 0, n = s->all->n_workers * LK_PIPE_TYPES;

    for (size_t i = 0; i < n; i++) {
        s->at[i] = (uint32_t)at;
        while (at < s->n && s->ops[at].worker * (size_t)LK_PIPE_TYPES + s->ops[at].type == i)
            at++;
        if (i % LK_PIPE_TYPES == LK_PIPE_TYPES - 1 && s->at[i - i % LK_PIPE_TYPES] == at)
            return lk_fail(LK_EEVIDENCE, "rank %d has no operation",
                           s->all->workers[i / LK_PIPE_TYPES].rank);
    }
    s->at[n] = (uint32_t)at;
    return LK_OK;
}

/* ---- Streams ---- */

static enum lk_status chain(struct pipe_step *s, const uint32_t *ops, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        LK_PASS(depend(s, ops[i], ops[i - 1]));
    return LK_OK;
}

static enum lk_status chain_list(struct pipe_step *s, struct list l)
{
    for (uint32_t i = 1; i < l.n; i++)
        LK_PASS(depend(s, l.first + i, l.first + i - 1));
    return LK_OK;
}

static enum lk_status connect_streams(struct pipe_step *s, size_t worker)
{
    uint32_t n = merge(s, worker, LK_PIPE_PARAMS, LK_PIPE_GRADS);

    LK_PASS(chain(s, s->order, n));
    for (int type = LK_PIPE_FORWARD_RECV; type <= LK_PIPE_BACKWARD_SEND; type++)
        LK_PASS(chain_list(s, list_of(s, worker, (enum lk_pipe_type)type)));
    return chain(s, s->order, merge(s, worker, LK_PIPE_BACKWARD, LK_PIPE_FORWARD));
}

/* ---- Sends and receives ---- */

static bool is_send(enum lk_pipe_type type)
{
    return type == LK_PIPE_FORWARD_SEND || type == LK_PIPE_BACKWARD_SEND;
}

static bool is_forward(enum lk_pipe_type type)
{
    return type == LK_PIPE_FORWARD_SEND || type == LK_PIPE_FORWARD_RECV;
}

/* Return true if a compute's chunk is at the end of the model that is next to this type. */
static bool at_border(const struct pipe_step *s, uint32_t compute, enum lk_pipe_type type)
{
    size_t last = s->all->n_stages * s->all->n_chunks - 1;

    return (size_t)s->ops[compute].chunk == (is_forward(type) == is_send(type) ? last : 0);
}

/*
 * Return true if an operation belongs to no compute: a profiler may record receives that begin
 * behind the last compute of their direction, and sends that end before the first.
 */
static bool is_stray(const struct pipe_step *s, uint32_t op, enum lk_pipe_type type,
                     struct list computes)
{
    const struct lk_pipe_op *x = &s->ops[op];

    if (!computes.n)
        return true;
    return is_send(type) ? end_of(x) < end_of(&s->ops[computes.first]) - CLOCK_S
                         : x->start_s > s->ops[computes.first + computes.n - 1].start_s + CLOCK_S;
}

static enum lk_status tie(struct pipe_step *s, uint32_t op, enum lk_pipe_type type,
                          struct list computes, uint32_t compute)
{
    if (is_send(type))
        return depend(s, op, compute);
    LK_PASS(depend(s, compute, op));
    return compute > computes.first ? depend(s, op, compute - 1) : LK_OK;
}

/*
 * Give each send or receive of a worker its compute, in their order. With several chunks those at
 * the border of the model may be recorded, too, though nothing is sent; without the first receive.
 */
static enum lk_status connect_type(struct pipe_step *s, size_t worker, enum lk_pipe_type type)
{
    struct list ops = list_of(s, worker, type);
    struct list computes =
        list_of(s, worker, is_forward(type) ? LK_PIPE_FORWARD : LK_PIPE_BACKWARD);
    uint32_t n = 0, inner = 0, next = computes.first;
    bool all;

    for (uint32_t i = ops.first; i < ops.first + ops.n; i++) {
        s->alone[i] = is_stray(s, i, type, computes);
        n += !s->alone[i];
    }
    for (uint32_t i = computes.first; i < computes.first + computes.n; i++)
        inner += !at_border(s, i, type);
    all = n != inner;
    if (all && s->all->n_chunks > 1 && !is_send(type) && n + 1 == computes.n)
        next++;
    else if (all && (s->all->n_chunks == 1 || n != computes.n))
        return lk_fail(LK_EEVIDENCE, "rank %d has %u '%s' for %u computes",
                       s->all->workers[worker].rank, n, lk_pipe_types[type].name, inner);
    for (uint32_t i = ops.first; i < ops.first + ops.n; i++) {
        if (s->alone[i])
            continue;
        while (!all && at_border(s, next, type))
            next++;
        s->alone[i] = at_border(s, next, type);
        LK_PASS(tie(s, i, type, computes, next++));
    }
    return LK_OK;
}

/* ---- The ends of a step: parameters, gradients, optimizer ---- */

/* Make the first operation of a type depend on the last of another, in each chunk. */
static enum lk_status connect_chunks(struct pipe_step *s, size_t worker, enum lk_pipe_type type,
                                     enum lk_pipe_type on)
{
    uint32_t last[UINT8_MAX + 1];
    struct list l = list_of(s, worker, on);

    for (size_t i = 0; i < s->all->n_chunks; i++)
        last[i] = UINT32_MAX;
    for (uint32_t i = l.first; i < l.first + l.n; i++)
        last[s->ops[i].local] = i;
    l = list_of(s, worker, type);
    for (uint32_t i = l.first; i < l.first + l.n; i++) {
        uint32_t *of = &last[s->ops[i].local];

        if (*of != UINT32_MAX)
            LK_PASS(depend(s, i, *of));
        *of = UINT32_MAX;
    }
    return LK_OK;
}

static enum lk_status connect_tail(struct pipe_step *s, size_t worker)
{
    uint32_t n = merge(s, worker, LK_PIPE_BACKWARD, LK_PIPE_FORWARD);
    struct list grads = list_of(s, worker, LK_PIPE_GRADS);
    bool overlap = s->all->present[LK_PIPE_SEPARATE], joined = !overlap || !grads.n;
    uint32_t last = n ? s->order[n - 1] : UINT32_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (end_of(&s->ops[s->order[i]]) > end_of(&s->ops[last]))
            last = s->order[i];
    for (int type = LK_PIPE_GC; type < LK_PIPE_TYPES; type++) {
        struct list l = list_of(s, worker, (enum lk_pipe_type)type);

        if (overlap && type == LK_PIPE_GRADS)
            continue;
        for (uint32_t i = l.first; i < l.first + l.n; last = i++) {
            if (last != UINT32_MAX)
                LK_PASS(depend(s, i, last));
            if (!joined && type != LK_PIPE_GC)
                LK_PASS(depend(s, i, grads.first + grads.n - 1));
            joined = joined || type != LK_PIPE_GC;
        }
    }
    return LK_OK;
}

/* ---- Groups ---- */

/*
 * Return the worker whose operations stand for those of this one in a scope: the first of its dp
 * rank, of its stage, or of all, that has the type.
 */
static size_t leader_of(const struct pipe_step *s, size_t worker, enum lk_pipe_type type)
{
    size_t n_stages = s->all->n_stages, w;

    switch (lk_pipe_types[type].scope) {
    case LK_PIPE_DP:
        return worker % n_stages;
    case LK_PIPE_ALL:
        return 0;
    case LK_PIPE_STAGES:
        w = worker - worker % n_stages;
        while (w < worker && !list_of(s, w, type).n)
            w++;
        return w;
    case LK_PIPE_ALONE:
    case LK_PIPE_PAIR:
        break;
    }
    return worker;
}

static enum lk_status group_type(struct pipe_step *s, size_t worker, enum lk_pipe_type type)
{
    struct list l = list_of(s, worker, type), of = list_of(s, leader_of(s, worker, type), type);

    if (l.n != of.n && (l.n || lk_pipe_types[type].scope != LK_PIPE_STAGES))
        return lk_fail(LK_EEVIDENCE, "rank %d has %u '%s', rank %d has %u",
                       s->all->workers[worker].rank, l.n, lk_pipe_types[type].name,
                       s->all->workers[leader_of(s, worker, type)].rank, of.n);
    for (uint32_t i = 0; i < l.n; i++)
        s->leader[l.first + i] = of.first + i;
    return LK_OK;
}

/* Pair a worker's sends with the receives of the next stage in their direction. */
static enum lk_status pair(struct pipe_step *s, size_t worker, enum lk_pipe_type send,
                           enum lk_pipe_type recv)
{
    size_t n_stages = s->all->n_stages, stage = worker % n_stages;
    size_t to = (stage + (is_forward(send) ? 1 : n_stages - 1)) % n_stages;
    struct list a = list_of(s, worker, send), b = list_of(s, worker - stage + to, recv);

    for (;;) {
        for (; a.n && s->alone[a.first]; a.n--)
            a.first++;
        for (; b.n && s->alone[b.first]; b.n--)
            b.first++;
        if (!a.n || !b.n)
            break;
        s->leader[b.first++] = a.first++;
        a.n--;
        b.n--;
    }
    if (a.n || b.n)
        return lk_fail(LK_EEVIDENCE, "a '%s' of rank %d has no '%s' of rank %d",
                       lk_pipe_types[a.n ? send : recv].name,
                       s->all->workers[a.n ? worker : worker - stage + to].rank,
                       lk_pipe_types[a.n ? recv : send].name,
                       s->all->workers[a.n ? worker - stage + to : worker].rank);
    return LK_OK;
}

enum lk_status pipe_step_connect(struct pipe_step *s)
{
    s->n_edges = 0;
    LK_PASS(index_step(s));
    for (size_t w = 0; w < s->all->n_workers; w++) {
        LK_PASS(connect_streams(s, w));
        for (int type = LK_PIPE_FORWARD_RECV; type <= LK_PIPE_BACKWARD_SEND; type++)
            LK_PASS(connect_type(s, w, (enum lk_pipe_type)type));
        LK_PASS(connect_chunks(s, w, LK_PIPE_FORWARD, LK_PIPE_PARAMS));
        if (s->all->present[LK_PIPE_SEPARATE])
            LK_PASS(connect_chunks(s, w, LK_PIPE_GRADS, LK_PIPE_BACKWARD));
        LK_PASS(connect_tail(s, w));
        for (int type = 0; type < LK_PIPE_TYPES; type++)
            LK_PASS(group_type(s, w, (enum lk_pipe_type)type));
    }
    for (size_t w = 0; w < s->all->n_workers; w++) {
        LK_PASS(pair(s, w, LK_PIPE_FORWARD_SEND, LK_PIPE_FORWARD_RECV));
        LK_PASS(pair(s, w, LK_PIPE_BACKWARD_SEND, LK_PIPE_BACKWARD_RECV));
    }
    return LK_OK;
}
