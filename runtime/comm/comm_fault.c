/* The communicator "fault", which injects failures, delays and slow links; see the header. */
#include "runtime/comm/comm_fault.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Specifications ---- */

static const struct {
    const char *name;
    int allowed, needed;
} kinds[] = {
#define ROW(kind, name, allowed, needed) [kind] = {name, allowed, needed},
    LK_FAULT_LIST(ROW)
#undef ROW
};

static const struct {
    const char *name;
    enum lk_fault_key key;
} keys[] = {
    {"call", LK_FAULT_CALL},       {"from", LK_FAULT_FROM}, {"to", LK_FAULT_TO},
    {"rank", LK_FAULT_RANK},       {"time", LK_FAULT_TIME}, {"rate", LK_FAULT_RATE},
    {"latency", LK_FAULT_LATENCY},
};

static const double time_max_s = 3600;

static enum lk_status parse_time(const char *text, double *out)
{
    enum lk_status st = lk_units_parse(LK_DIM_TIME, text, out);

    if (st == LK_OK && (*out < 0 || *out > time_max_s))
        st = lk_fail(LK_EUSAGE, "'%s' is not from 0 to %g s", text, time_max_s);
    return st;
}

static enum lk_status parse_value(struct lk_fault *f, enum lk_fault_key key, const char *text,
                                  int world_size)
{
    int64_t n = 0;

    switch (key) {
    case LK_FAULT_TIME:
        return parse_time(text, &f->time_s);
    case LK_FAULT_LATENCY:
        return parse_time(text, &f->latency_s);
    case LK_FAULT_RATE:
        LK_PASS(lk_units_parse(LK_DIM_RATE, text, &f->rate_Bps));
        return f->rate_Bps > 0 ? LK_OK : lk_fail(LK_EUSAGE, "a rate must be positive");
    case LK_FAULT_RANK:
        LK_PASS(lk_parse_int64(text, 0, world_size - 1, &n));
        f->rank = (int)n;
        return LK_OK;
    default:
        LK_PASS(lk_parse_int64(text, 0, INT64_MAX, &n));
        f->from = key == LK_FAULT_TO ? f->from : (uint64_t)n;
        f->to = key == LK_FAULT_FROM ? f->to : (uint64_t)n;
    }
    return LK_OK;
}

/* Parse one pair, "call=12", into the fault. Overwrites the "=" with a NUL. */
static enum lk_status parse_pair(struct lk_fault *f, char *pair, int world_size)
{
    char *value = strchr(pair, '=');
    enum lk_fault_key key = 0;

    if (!value)
        return lk_fail(LK_EUSAGE, "'%s' is not KEY=VALUE", pair);
    *value++ = '\0';
    for (size_t i = 0; i < LK_COUNT(keys); i++)
        if (!strcmp(keys[i].name, pair))
            key = keys[i].key;
    if (!key || !(kinds[f->kind].allowed & (int)key))
        return lk_fail(LK_EUSAGE, "%s has no '%s'", kinds[f->kind].name, pair);
    if (f->given & (int)key)
        return lk_fail(LK_EUSAGE, "'%s' is given twice", pair);
    f->given |= (int)key;
    return lk_fail_context(parse_value(f, key, value, world_size), "%s", pair);
}

static enum lk_status check_fault(const struct lk_fault *f)
{
    if ((f->given & LK_FAULT_CALL) && (f->given & (LK_FAULT_FROM | LK_FAULT_TO)))
        return lk_fail(LK_EUSAGE, "'call' is one call, 'from' and 'to' a range: not both");
    if (f->from > f->to)
        return lk_fail(LK_EUSAGE, "'from' is after 'to'");
    if ((f->given & kinds[f->kind].needed) != kinds[f->kind].needed)
        return lk_fail(LK_EUSAGE, "delay needs 'time'");
    if (f->kind == LK_FAULT_SLOW && !(f->given & (LK_FAULT_RATE | LK_FAULT_LATENCY)))
        return lk_fail(LK_EUSAGE, "slow needs 'rate' or 'latency'");
    return LK_OK;
}

/* Parse one fault. Modifies the text. */
static enum lk_status parse_fault(char *text, int world_size, struct lk_fault *out)
{
    struct lk_fault f = {.to = UINT64_MAX, .rank = -1};
    char *rest = strchr(text, ':'), *pair;
    size_t kind = 0;
    enum lk_status st = LK_OK;

    if ((size_t)snprintf(f.text, sizeof f.text, "%s", text) >= sizeof f.text)
        return lk_fail(LK_EUSAGE, "'%s' is too long", text);
    if (rest)
        *rest++ = '\0';
    while (kind < LK_COUNT(kinds) && strcmp(kinds[kind].name, text) != 0)
        kind++;
    if (kind == LK_COUNT(kinds))
        return lk_fail(LK_EUSAGE,
                       "'%s' is no fault; they are fail, kill, stall, delay, flip and slow", text);
    f.kind = (enum lk_fault_kind)kind;
    while ((pair = strsep(&rest, ",")) != NULL)
        LK_TRY(parse_pair(&f, pair, world_size));
    LK_TRY(check_fault(&f));
    *out = f;
out:
    return lk_fail_context(st, "%s", text);
}

enum lk_status lk_fault_parse(const char *spec, int world_size, struct lk_fault **out,
                              size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct lk_fault *faults = NULL;
    char *copy = NULL, *rest, *one;
    size_t n = 0, capacity = 0;

    LK_TRY(lk_strdup(&copy, spec));
    rest = copy;
    while ((one = strsep(&rest, ";")) != NULL) {
        LK_TRY(lk_array_grow(&faults, &capacity, n + 1, sizeof *faults));
        LK_TRY(parse_fault(one, world_size, &faults[n]));
        n++;
    }
    *out = faults;
    *out_n = n;
    faults = NULL;
out:
    free(faults);
    free(copy);
    return lk_fail_context(st, "fault '%s'", spec);
}

/* ---- The communicator ---- */

/* One rank's arrival at a slowed collective, exchanged as two int64 of an all-gather. */
struct arrival {
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    uint64_t host;  /* hash of the host whose clock that is */
};
enum { ARRIVAL_WORDS = sizeof(struct arrival) / sizeof(uint64_t) };

struct faulty {
    struct lk_comm base;
    struct lk_comm *inner;
    struct lk_store *store; /* borrowed; NULL for one rank */
    uint64_t timeout_ns;
    struct lk_fault *faults;
    size_t n_faults;
    struct arrival *arrivals; /* one per rank */
    uint64_t host;
    uint64_t n_slow, n_over; /* slowed collectives; those that took longer than the slow links */
    uint64_t over_max_ns;
};

/* Wait until CLOCK_MONOTONIC reaches until_ns, answering the store meanwhile; return early with the
 * run's verdict. */
static enum lk_status wait_until(struct faulty *c, uint64_t until_ns)
{
    struct lk_deadline deadline = {until_ns};
    struct pollfd p = {.fd = c->store ? lk_store_fd(c->store) : -1, .events = POLLIN};
    uint64_t left_ns;

    while ((left_ns = lk_deadline_left_ns(deadline)) > 0) {
        struct timespec left = {.tv_sec = (time_t)(left_ns / LK_NS_PER_S),
                                .tv_nsec = (long)(left_ns % LK_NS_PER_S)};
        int n = ppoll(&p, 1, &left, NULL);
        enum lk_status st = n > 0 ? lk_store_check(c->store) : LK_OK;

        if (n < 0 && errno != EINTR)
            return lk_fail(LK_EIO, "ppoll: %s", strerror(errno));
        if (st != LK_OK)
            return st;
    }
    return LK_OK;
}

/* Stall longer than the others wait for this rank, so that the verdict is theirs. */
static enum lk_status stall(struct faulty *c)
{
    uint64_t wait_ns = c->store ? 2 * c->timeout_ns : c->timeout_ns;
    enum lk_status st = wait_until(c, lk_deadline_in(wait_ns).at_ns);

    return st != LK_OK ? st : lk_fail(LK_ETIMEOUT, "a planted stall that nobody noticed");
}

/* Apply a fault to this rank before the collective. */
static enum lk_status strike(struct faulty *c, const struct lk_fault *f)
{
    switch (f->kind) {
    case LK_FAULT_FAIL:
        return lk_fail(LK_EIO, "a planted failure");
    case LK_FAULT_KILL:
        raise(SIGKILL);
        return LK_OK;
    case LK_FAULT_STALL:
        return stall(c);
    case LK_FAULT_DELAY:
        return wait_until(c, lk_monotonic_ns() + lk_ns_from_s(f->time_s));
    default:
        return LK_OK;
    }
}

/* Return the number of latencies of a collective: steps of a ring, or of a barrier's tree up and
 * down. */
static int hops(enum lk_coll coll, int ranks)
{
    int levels = 0;

    if (ranks < 2)
        return 0;
    while (1 << levels < ranks)
        levels++;
    return coll == LK_ALL_REDUCE ? 2 * (ranks - 1) : coll == LK_BARRIER ? 2 * levels : ranks - 1;
}

static double slow_s(const struct faulty *c, const struct lk_fault *f,
                     const struct lk_coll_call *call)
{
    int ranks = lk_coll_call_ranks(call, c->base.world_size);
    double bytes = (double)lk_coll_call_bytes(call, c->base.world_size);
    double s = hops(call->coll, ranks) * f->latency_s;

    if (f->rate_Bps > 0)
        s += lk_coll_wire_bytes(call->coll, bytes, ranks) / f->rate_Bps;
    return s;
}

/* Exchange arrival times and return the last one over all ranks. Collective. */
static enum lk_status last_arrival(struct faulty *c, uint64_t seq, uint64_t *out_ns)
{
    struct lk_coll_call call = {.coll = LK_ALL_GATHER,
                                .dtype = LK_I64,
                                .buf = c->arrivals,
                                .count = ARRIVAL_WORDS,
                                .index = -1};
    uint64_t last_ns = 0;
    enum lk_status st;

    c->arrivals[c->base.rank] = (struct arrival){lk_monotonic_ns(), c->host};
    st = c->inner->ops->run(c->inner, &call, seq);
    if (st != LK_OK)
        return st;
    for (int r = 0; r < c->base.world_size; r++) {
        if (c->arrivals[r].host != c->host)
            return lk_fail(LK_EUNSUPPORTED,
                           "slow links are for ranks of one host, but rank %d is on another", r);
        last_ns = c->arrivals[r].at_ns > last_ns ? c->arrivals[r].at_ns : last_ns;
    }
    *out_ns = last_ns;
    return LK_OK;
}

/* Run the collective, then wait until it would have ended on the slow links. */
static enum lk_status run_slow(struct faulty *c, const struct lk_coll_call *call, uint64_t seq,
                               double model_s)
{
    uint64_t end_ns = 0, now_ns;

    LK_PASS(last_arrival(c, seq, &end_ns));
    end_ns += lk_ns_from_s(model_s);
    LK_PASS(c->inner->ops->run(c->inner, call, seq));
    now_ns = lk_monotonic_ns();
    c->n_slow++;
    if (now_ns > end_ns) {
        c->n_over++;
        c->over_max_ns = now_ns - end_ns > c->over_max_ns ? now_ns - end_ns : c->over_max_ns;
    }
    return wait_until(c, end_ns);
}

/* Flip the highest bit of the mantissa of the first element that is not 0. */
static void flip(const struct lk_coll_call *call)
{
    uint32_t *words = call->buf;

    if (call->dtype != LK_F32 || call->coll == LK_BARRIER)
        return;
    for (size_t i = 0; i < call->count; i++)
        if (words[i] << 1) {
            words[i] ^= 1U << 22;
            return;
        }
}

static enum lk_status fault_run(struct lk_comm *base, const struct lk_coll_call *call, uint64_t seq)
{
    struct faulty *c = (struct faulty *)base;
    double longest_s = 0;
    bool slow = false, flips = false;

    for (size_t i = 0; i < c->n_faults; i++) {
        const struct lk_fault *f = &c->faults[i];

        if (seq < f->from || seq > f->to || (f->rank >= 0 && f->rank != base->rank))
            continue;
        LK_PASS(strike(c, f));
        flips = flips || f->kind == LK_FAULT_FLIP;
        if (f->kind == LK_FAULT_SLOW && base->world_size > 1) {
            double s = slow_s(c, f, call);

            longest_s = s > longest_s ? s : longest_s;
            slow = true;
        }
    }
    LK_PASS(slow ? run_slow(c, call, seq, longest_s) : c->inner->ops->run(c->inner, call, seq));
    if (flips)
        flip(call);
    return LK_OK;
}

/* ---- On a stream that runs the collectives natively ---- */

/* The argument of the host function that applies a fault in stream order, before the collective. */
struct struck {
    struct faulty *comm;
    const struct lk_fault *fault;
    struct lk_coll_call call;
    uint64_t seq;
    uint32_t step;
};
_Static_assert(sizeof(struct struck) <= LK_OP_ARGS_MAX, "a fault must fit a stream's entry");

static enum lk_status strike_on(struct lk_stream *s, const void *arg)
{
    const struct struck *a = arg;
    enum lk_status st = strike(a->comm, a->fault);
    char name[128];

    (void)s;
    if (st == LK_OK)
        return st;
    lk_comm_name_call(&a->call, a->seq, a->step, name, sizeof name);
    return lk_fail_context(st, "%s", name);
}

static enum lk_status fault_enqueue(struct lk_comm *base, struct lk_stream *s,
                                    const struct lk_coll_call *call, uint64_t seq)
{
    struct faulty *c = (struct faulty *)base;

    for (size_t i = 0; i < c->n_faults; i++) {
        const struct lk_fault *f = &c->faults[i];
        const struct struck arg = {
            .comm = c, .fault = f, .call = *call, .seq = seq, .step = lk_stream_step(s)};

        if (seq >= f->from && seq <= f->to && (f->rank < 0 || f->rank == base->rank))
            LK_PASS(lk_stream_host(s, strike_on, &arg, sizeof arg));
    }
    return c->inner->ops->enqueue(c->inner, s, call, seq);
}

static enum lk_status fault_alloc(struct lk_comm *c, struct lk_device *d, size_t bytes, void **out)
{
    return lk_comm_alloc(((struct faulty *)c)->inner, d, bytes, out);
}

static void fault_free(struct lk_comm *c, struct lk_device *d, void *p)
{
    lk_comm_free(((struct faulty *)c)->inner, d, p);
}

static bool fault_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo)
{
    return lk_comm_has(((const struct faulty *)c)->inner, coll, algo);
}

static enum lk_algo fault_choice(const struct lk_comm *c, const struct lk_coll_call *call)
{
    return lk_comm_choice(((const struct faulty *)c)->inner, call);
}

static void warn_of(const struct faulty *c)
{
    for (size_t i = 0; i < c->n_faults; i++)
        if (c->faults[i].from >= c->base.next_seq &&
            (c->faults[i].rank < 0 || c->faults[i].rank == c->base.rank))
            lk_log(LK_LOG_COMM, LK_WARN, "%s did not happen: there were %" PRIu64 " collectives",
                   c->faults[i].text, c->base.next_seq);
    if (c->n_over)
        lk_log(LK_LOG_COMM, LK_WARN,
               "slow links: %" PRIu64 " of %" PRIu64
               " collectives took longer here than on such links, by up to %.3f ms",
               c->n_over, c->n_slow, 1e3 * lk_s_from_ns(c->over_max_ns));
}

static void fault_close(struct lk_comm *base)
{
    struct faulty *c = (struct faulty *)base;

    if (base->failed == LK_OK && base->next_seq)
        warn_of(c);
    lk_comm_close(c->inner);
    free(c->faults);
    free(c->arrivals);
    free(c);
}

static const struct lk_hop *fault_hop(const struct lk_comm *c)
{
    const struct lk_comm *inner = ((const struct faulty *)c)->inner;

    return inner->ops->hop ? inner->ops->hop(inner) : NULL;
}

static const struct lk_comm_ops fault_ops = {.name = "fault",
                                             .run = fault_run,
                                             .close = fault_close,
                                             .has = fault_has,
                                             .choice = fault_choice,
                                             .hop = fault_hop,
                                             .groups = true};
static const struct lk_comm_ops fault_ops_on_streams = {.name = "fault",
                                                        .run = fault_run,
                                                        .close = fault_close,
                                                        .enqueue = fault_enqueue,
                                                        .has = fault_has,
                                                        .choice = fault_choice,
                                                        .alloc = fault_alloc,
                                                        .free = fault_free,
                                                        .groups = true};

/* Return a number that differs between hosts, and between boots of one: a hash of Linux's boot
 * id. */
static enum lk_status identify_host(uint64_t *out)
{
    char *id = NULL;
    size_t n;
    enum lk_status st = lk_file_read("/proc/sys/kernel/random/boot_id", &id, &n);

    if (st == LK_OK)
        *out = lk_rng_stream(id, 0);
    free(id);
    return st;
}

/* Refuse `slow` and `flip` on GPUs: a stream cannot be held for a time known only when the
 * collective is done. */
static enum lk_status check_host(const struct lk_comm_config *config)
{
    if (config->device && !lk_device_uses_host_memory(config->device))
        return lk_fail(LK_EUNSUPPORTED,
                       "slow links and flipped bits are made for collectives of the host, not for "
                       "those of the device %s",
                       lk_device_name(config->device));
    return LK_OK;
}

enum lk_status lk_comm_fault_wrap(const char *spec, const struct lk_comm_config *config,
                                  struct lk_comm *inner, struct lk_comm **out)
{
    enum lk_status st = LK_OK;
    struct faulty *c = NULL;

    LK_TRY(lk_alloc(&c, 1, sizeof *c));
    c->base = *inner;
    c->base.ops = inner->ops->enqueue ? &fault_ops_on_streams : &fault_ops;
    c->inner = inner;
    inner = NULL;
    c->store = config->store;
    c->timeout_ns = config->timeout_ns;
    LK_TRY(lk_alloc(&c->arrivals, (size_t)c->base.world_size, sizeof *c->arrivals));
    LK_TRY(lk_fault_parse(spec, c->base.world_size, &c->faults, &c->n_faults));
    for (size_t i = 0; i < c->n_faults; i++) {
        if (c->faults[i].kind == LK_FAULT_SLOW || c->faults[i].kind == LK_FAULT_FLIP)
            LK_TRY(check_host(config));
        if (c->faults[i].kind == LK_FAULT_SLOW && !c->host)
            LK_TRY(identify_host(&c->host));
    }
    *out = &c->base;
    c = NULL;
out:
    if (c)
        fault_close(&c->base);
    lk_comm_close(inner);
    return st;
}
