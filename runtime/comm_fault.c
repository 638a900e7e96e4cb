/* A communicator in which things go wrong; see lk_comm_fault_wrap in comm.h. */
#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/comm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* X(kind, name, keys allowed, keys needed) */
#define FAULT_LIST(X)                                                                              \
    X(FAIL, "fail", KEY_WHEN | KEY_RANK, 0)                                                        \
    X(KILL, "kill", KEY_WHEN | KEY_RANK, 0)                                                        \
    X(STALL, "stall", KEY_WHEN | KEY_RANK, 0)                                                      \
    X(DELAY, "delay", KEY_WHEN | KEY_RANK | KEY_TIME, KEY_TIME)                                    \
    X(SLOW, "slow", KEY_WHEN | KEY_RATE | KEY_LATENCY, 0)

enum kind {
#define FAULT_ENUM(kind, name, allowed, needed) kind,
    FAULT_LIST(FAULT_ENUM)
#undef FAULT_ENUM
};

enum key {
    KEY_CALL = 1,
    KEY_FROM = 2,
    KEY_TO = 4,
    KEY_RANK = 8,
    KEY_TIME = 16,
    KEY_RATE = 32,
    KEY_LATENCY = 64,
    KEY_WHEN = KEY_CALL | KEY_FROM | KEY_TO
};

static const struct {
    const char *name;
    int allowed, needed;
} kinds[] = {
#define FAULT_ROW(kind, name, allowed, needed) [kind] = {name, allowed, needed},
    FAULT_LIST(FAULT_ROW)
#undef FAULT_ROW
};

static const struct {
    const char *name;
    enum key key;
} keys[] = {
    {"call",    KEY_CALL   },
    {"from",    KEY_FROM   },
    {"to",      KEY_TO     },
    {"rank",    KEY_RANK   },
    {"time",    KEY_TIME   },
    {"rate",    KEY_RATE   },
    {"latency", KEY_LATENCY},
};

struct fault {
    enum kind kind;
    int given;         /* keys */
    uint64_t from, to; /* calls, ends included */
    int rank;          /* -1: all */
    double time_s, rate_Bps, latency_s;
};

struct faulty {
    struct lk_comm base;
    struct lk_comm *inner;
    struct lk_store *store; /* borrowed; NULL for one rank */
    uint64_t timeout_ns;
    struct fault *faults;
    size_t n_faults, cap_faults;
    uint64_t *arrivals; /* one a rank */
};

/* ---- the text ---- */

static enum lk_status parse_value(struct fault *f, enum key key, const char *text, int world_size)
{
    enum lk_status st = LK_OK;
    int64_t n = 0;

    switch (key) {
    case KEY_TIME:
        return lk_units_parse(LK_DIM_TIME, text, &f->time_s);
    case KEY_LATENCY:
        return lk_units_parse(LK_DIM_TIME, text, &f->latency_s);
    case KEY_RATE:
        LK_TRY(lk_units_parse(LK_DIM_RATE, text, &f->rate_Bps));
        return f->rate_Bps > 0 ? LK_OK : lk_fail(LK_EUSAGE, "a rate must be positive");
    case KEY_RANK:
        LK_TRY(lk_parse_int64(text, 0, world_size - 1, &n));
        f->rank = (int)n;
        return LK_OK;
    default:
        LK_TRY(lk_parse_int64(text, 0, INT64_MAX, &n));
        f->from = key == KEY_TO ? f->from : (uint64_t)n;
        f->to = key == KEY_FROM ? f->to : (uint64_t)n;
    }
out:
    return st;
}

/* "call=12": into the fault. Writes a NUL over the "=". */
static enum lk_status parse_pair(struct fault *f, char *pair, int world_size)
{
    char *value = strchr(pair, '=');
    enum key key = 0;

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

static enum lk_status check_fault(const struct fault *f)
{
    if ((f->given & KEY_CALL) && (f->given & (KEY_FROM | KEY_TO)))
        return lk_fail(LK_EUSAGE, "'call' is one call, 'from' and 'to' a range: not both");
    if (f->from > f->to)
        return lk_fail(LK_EUSAGE, "'from' is after 'to'");
    if ((f->given & kinds[f->kind].needed) != kinds[f->kind].needed)
        return lk_fail(LK_EUSAGE, "delay needs 'time'");
    if (f->kind == SLOW && !(f->given & (KEY_RATE | KEY_LATENCY)))
        return lk_fail(LK_EUSAGE, "slow needs 'rate' or 'latency'");
    return LK_OK;
}

/* One fault; the text is written into. */
static enum lk_status parse_fault(char *text, int world_size, struct fault *out)
{
    struct fault f = {.to = UINT64_MAX, .rank = -1};
    char *rest = strchr(text, ':'), *pair;
    size_t kind = 0;
    enum lk_status st = LK_OK;

    if (rest)
        *rest++ = '\0';
    while (kind < LK_COUNT(kinds) && strcmp(kinds[kind].name, text) != 0)
        kind++;
    if (kind == LK_COUNT(kinds))
        return lk_fail(LK_EUSAGE, "'%s' is no fault; they are fail, kill, stall, delay and slow",
                       text);
    f.kind = (enum kind)kind;
    while ((pair = strsep(&rest, ",")) != NULL)
        LK_TRY(parse_pair(&f, pair, world_size));
    LK_TRY(check_fault(&f));
    *out = f;
out:
    return lk_fail_context(st, "%s", text);
}

static enum lk_status parse(struct faulty *c, const char *spec)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *one;

    LK_TRY(lk_strdup(&copy, spec));
    rest = copy;
    while ((one = strsep(&rest, ";")) != NULL) {
        LK_TRY(lk_array_grow(&c->faults, &c->cap_faults, c->n_faults + 1, sizeof *c->faults));
        LK_TRY(parse_fault(one, c->base.world_size, &c->faults[c->n_faults]));
        c->n_faults++;
    }
out:
    free(copy);
    return lk_fail_context(st, "fault '%s'", spec);
}

/* ---- what happens ---- */

/* Answers the store, but does not move, until there is a verdict. */
static enum lk_status stall(struct faulty *c)
{
    struct lk_deadline deadline = lk_deadline_in(4 * c->timeout_ns);

    while (lk_deadline_left_ns(deadline)) {
        struct pollfd p = {.fd = c->store ? lk_store_fd(c->store) : -1, .events = POLLIN};
        enum lk_status st;

        if (poll(&p, 1, lk_deadline_poll_ms(deadline)) < 0 && errno != EINTR)
            return lk_fail(LK_EIO, "poll: %s", strerror(errno));
        st = c->store ? lk_store_check(c->store) : LK_OK;
        if (st != LK_OK)
            return st;
    }
    return lk_fail(LK_ETIMEOUT, "a planted stall that nobody noticed");
}

/* What a fault does to this rank before the call. */
static enum lk_status strike(struct faulty *c, const struct fault *f)
{
    switch (f->kind) {
    case FAIL:
        return lk_fail(LK_EIO, "a planted failure");
    case KILL:
        raise(SIGKILL);
        return LK_OK;
    case STALL:
        return stall(c);
    case DELAY:
        lk_sleep_until_ns(lk_monotonic_ns() + lk_ns_from_s(f->time_s));
        return LK_OK;
    default:
        return LK_OK;
    }
}

/* Steps of a message on a ring, or of a barrier's tree up and down. */
static int hops(enum lk_coll coll, int ranks)
{
    int levels = 0;

    if (ranks < 2)
        return 0;
    while (1 << levels < ranks)
        levels++;
    return coll == LK_ALL_REDUCE ? 2 * (ranks - 1) : coll == LK_BARRIER ? 2 * levels : ranks - 1;
}

static double slow_s(const struct faulty *c, const struct fault *f, const struct lk_coll_call *call)
{
    double bytes = (double)lk_coll_call_bytes(call, c->base.world_size);
    double s = hops(call->coll, c->base.world_size) * f->latency_s;

    if (f->rate_Bps > 0)
        s += lk_coll_wire_bytes(call->coll, bytes, c->base.world_size) / f->rate_Bps;
    return s;
}

/* The last arrival over all ranks. */
static enum lk_status last_arrival(struct faulty *c, uint64_t seq, uint64_t *out_ns)
{
    struct lk_coll_call call = {
        .coll = LK_ALL_GATHER, .dtype = LK_I64, .buf = c->arrivals, .count = 1, .index = -1};
    uint64_t last_ns = 0;
    enum lk_status st;

    c->arrivals[c->base.rank] = lk_monotonic_ns();
    st = c->inner->ops->run(c->inner, &call, seq);
    for (int r = 0; r < c->base.world_size; r++)
        last_ns = c->arrivals[r] > last_ns ? c->arrivals[r] : last_ns;
    if (st == LK_OK)
        *out_ns = last_ns;
    return st;
}

static enum lk_status fault_run(struct lk_comm *base, const struct lk_coll_call *call, uint64_t seq)
{
    struct faulty *c = (struct faulty *)base;
    enum lk_status st = LK_OK;
    uint64_t arrival_ns = 0;
    double longest_s = 0;
    bool slow = false;

    for (size_t i = 0; i < c->n_faults; i++) {
        const struct fault *f = &c->faults[i];

        if (seq < f->from || seq > f->to || (f->rank >= 0 && f->rank != base->rank))
            continue;
        LK_TRY(strike(c, f));
        if (f->kind == SLOW) {
            double s = slow_s(c, f, call);

            longest_s = s > longest_s ? s : longest_s;
            slow = true;
        }
    }
    if (slow)
        LK_TRY(last_arrival(c, seq, &arrival_ns));
    LK_TRY(c->inner->ops->run(c->inner, call, seq));
    if (slow)
        lk_sleep_until_ns(arrival_ns + lk_ns_from_s(longest_s));
out:
    return st;
}

static bool fault_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo)
{
    return lk_comm_has(((const struct faulty *)c)->inner, coll, algo);
}

static void fault_close(struct lk_comm *base)
{
    struct faulty *c = (struct faulty *)base;

    lk_comm_close(c->inner);
    free(c->faults);
    free(c->arrivals);
    free(c);
}

static const struct lk_comm_ops fault_ops = {
    .name = "fault", .run = fault_run, .close = fault_close, .has = fault_has};

enum lk_status lk_comm_fault_wrap(const char *spec, const struct lk_comm_config *config,
                                  struct lk_comm *inner, struct lk_comm **out)
{
    enum lk_status st = LK_OK;
    struct faulty *c = NULL;

    LK_TRY(lk_alloc(&c, 1, sizeof *c));
    c->base = *inner;
    c->base.ops = &fault_ops;
    c->inner = inner;
    inner = NULL;
    c->store = config->store;
    c->timeout_ns = config->timeout_ns;
    LK_TRY(lk_alloc(&c->arrivals, (size_t)c->base.world_size, sizeof *c->arrivals));
    LK_TRY(parse(c, spec));
    *out = &c->base;
    c = NULL;
out:
    if (c)
        fault_close(&c->base);
    lk_comm_close(inner);
    return st;
}
