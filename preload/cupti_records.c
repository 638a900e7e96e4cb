#include "preload/cupti_records.h"

#include "preload/record.h"

#include "base/array.h"

#include <string.h>
#include <sys/mman.h>

/* ---- The clock ---- */

bool lk_cupti_moment(const struct lk_cupti_library *library, struct lk_cupti_moment *out)
{
    enum { LOOKS = 8 };
    int64_t shortest = INT64_MAX;

    for (int i = 0; i < LOOKS; i++) {
        const int64_t before = lk_foreign_now();
        uint64_t theirs = 0;
        int64_t took;

        if (library->GetTimestamp(&theirs) != CUPTI_OK || theirs > INT64_MAX)
            return false;
        took = lk_foreign_now() - before;
        if (took < shortest) {
            shortest = took;
            *out = (struct lk_cupti_moment){(int64_t)theirs, before + took / 2};
        }
    }
    return true;
}

/* CUPTI's clock is the system's, which NTP slews: times between the window's begin and now lie on a
 * line. Clocks that were compared within less than LINE_NS tell no slope. */
static int64_t ours_ns(const struct lk_cupti_moment *began, const struct lk_cupti_moment *now,
                       uint64_t theirs)
{
    const int64_t LINE_NS = 100000000;
    const int64_t passed = now->theirs_ns - began->theirs_ns;
    const int64_t gained = now->ours_ns - began->ours_ns - passed;
    const int64_t since = (int64_t)theirs - began->theirs_ns;

    return began->ours_ns + since +
           (passed > LINE_NS ? (int64_t)((double)gained * ((double)since / (double)passed)) : 0);
}

/* ---- Records ---- */

/* The time of a buffer's records. */
struct when {
    struct lk_cupti_moment began, now;
};

/* Set times; false: it has none, as work that has not ended. */
static bool set_times(struct lk_foreign_record *r, const struct when *w, uint64_t start,
                      uint64_t end)
{
    if (!start || end < start || end > INT64_MAX)
        return false;
    r->start_ns = ours_ns(&w->began, &w->now, start);
    r->end_ns = r->start_ns + (int64_t)(end - start);
    return true;
}

static bool take_kernel(const void *from, const struct when *w, struct lk_foreign_record *r)
{
    struct cupti_kernel k;

    memcpy(&k, from, sizeof k);
    r->kind = LK_FOREIGN_KERNEL;
    r->name = lk_foreign_name(k.name);
    r->link = k.correlation;
    r->lane = k.stream;
    r->peer = (int32_t)k.device;
    return set_times(r, w, k.start, k.end);
}

static bool take_copy(const void *from, const struct when *w, struct lk_foreign_record *r)
{
    static const char *const names[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                        "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    struct cupti_copy c;

    memcpy(&c, from, sizeof c);
    r->kind = c.kind == CUPTI_MEMSET ? LK_FOREIGN_MEMSET : LK_FOREIGN_COPY;
    if (r->kind == LK_FOREIGN_COPY && c.copy_kind < LK_COUNT(names))
        r->name = lk_foreign_name(names[c.copy_kind]);
    r->link = c.correlation;
    r->count = c.bytes;
    r->lane = c.stream;
    r->peer = (int32_t)c.device;
    return set_times(r, w, c.start, c.end);
}

static bool take_peer_copy(const void *from, const struct when *w, struct lk_foreign_record *r)
{
    struct cupti_peer_copy c;

    memcpy(&c, from, sizeof c);
    return take_copy(from, w, r) && (r->link = c.correlation, true);
}

static bool take_call(const void *from, const struct when *w, struct lk_foreign_record *r)
{
    static const struct {
        uint32_t kind, function;
        const char *wait;
    } calls[] = {
#define ROW(domain, name, number)        {CUPTI_##domain, number, NULL},
#define WAIT(domain, name, number, wait) {CUPTI_##domain, number, wait},
        CUPTI_LAUNCH_LIST(ROW) CUPTI_COPY_LIST(ROW) CUPTI_WAIT_LIST(WAIT)
#undef WAIT
#undef ROW
    };
    struct cupti_call c;
    size_t i = 0;

    memcpy(&c, from, sizeof c);
    while (i < LK_COUNT(calls) && (calls[i].kind != c.kind || calls[i].function != c.function))
        i++;
    if (i == LK_COUNT(calls))
        return false;
    r->kind = calls[i].wait ? LK_FOREIGN_SYNC : LK_FOREIGN_LAUNCH;
    r->name = lk_foreign_name(calls[i].wait);
    r->link = calls[i].wait ? 0 : c.correlation;
    r->lane = c.thread;
    r->peer = -1;
    return set_times(r, w, c.start, c.end);
}

static const struct {
    uint32_t kind;
    size_t bytes; /* that are read */
    bool (*take)(const void *from, const struct when *w, struct lk_foreign_record *r);
} kinds[] = {
    {CUPTI_CONCURRENT_KERNEL, sizeof(struct cupti_kernel), take_kernel},
    {CUPTI_KERNEL, sizeof(struct cupti_kernel), take_kernel},
    {CUPTI_MEMCPY, sizeof(struct cupti_copy), take_copy},
    {CUPTI_MEMCPY_PEER, sizeof(struct cupti_peer_copy), take_peer_copy},
    {CUPTI_MEMSET, sizeof(struct cupti_copy), take_copy},
    {CUPTI_RUNTIME, sizeof(struct cupti_call), take_call},
    {CUPTI_DRIVER, sizeof(struct cupti_call), take_call},
};

static void take(const void *from, size_t left, const struct when *w)
{
    struct lk_foreign_record r = {.sequence = LK_FOREIGN_NO_SEQUENCE};
    uint32_t kind;

    memcpy(&kind, from, sizeof kind);
    for (size_t i = 0; i < LK_COUNT(kinds); i++)
        if (kinds[i].kind == kind && left >= kinds[i].bytes && kinds[i].take(from, w, &r))
            lk_foreign_window_emit(&r);
}

/* ---- Buffers ---- */

static void *map_bytes(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return map == MAP_FAILED ? NULL : map;
}

bool lk_cupti_buffers_init(struct lk_cupti_buffers *b, const struct lk_cupti_library *library)
{
    b->library = library;
    b->bytes = map_bytes((size_t)LK_CUPTI_BUFFERS * LK_CUPTI_BUFFER_BYTES);
    return b->bytes;
}

uint8_t *lk_cupti_buffers_lend(struct lk_cupti_buffers *b)
{
    uint64_t lent = atomic_load(&b->lent);

    while (~lent) {
        const int i = __builtin_ctzll(~lent);

        if (atomic_compare_exchange_weak(&b->lent, &lent, lent | UINT64_C(1) << i))
            return b->bytes + (size_t)i * LK_CUPTI_BUFFER_BYTES;
    }
    if (!atomic_exchange(&b->exhausted, true))
        lk_foreign_window_close(lk_foreign_now());
    return b->library->version < CUPTI_VERSION_REFUSABLE ? map_bytes(LK_CUPTI_BUFFER_BYTES) : NULL;
}

static void read_buffer(const struct lk_cupti_buffers *b, uint8_t *buffer, size_t valid)
{
    struct when w = {.began = b->began};
    void *record = NULL;
    size_t at;

    if (!lk_cupti_moment(b->library, &w.now))
        w.now = w.began;
    while (b->library->ActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK) {
        at = (size_t)((uint8_t *)record - buffer);
        if (at + sizeof(uint32_t) > valid)
            break;
        take(record, valid - at, &w);
    }
}

void lk_cupti_buffers_take(struct lk_cupti_buffers *b, uint8_t *buffer, size_t valid)
{
    const size_t at = (size_t)(buffer - b->bytes), i = at / LK_CUPTI_BUFFER_BYTES;
    int64_t since;

    if (buffer < b->bytes || i >= LK_CUPTI_BUFFERS || at % LK_CUPTI_BUFFER_BYTES)
        return;
    if (valid && valid <= LK_CUPTI_BUFFER_BYTES &&
        lk_foreign_window_open(atomic_load(&b->start_ns))) {
        since = lk_foreign_now();
        read_buffer(b, buffer, valid);
        lk_foreign_spent(lk_foreign_now() - since);
    }
    atomic_fetch_and(&b->lent, ~(UINT64_C(1) << i));
}
