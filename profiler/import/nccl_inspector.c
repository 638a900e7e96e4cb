#include "profiler/import/nccl_inspector.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/json_scan.h"
#include "base/stats.h"
#include "facts/bounds.h"
#include "profiler/import/bench_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEWEST_MINOR = 4 };      /* of format 4 */
enum { OBJECTS_MAX = 1 << 30 }; /* of a dump */

/* One rank's time of a collective. */
struct sample {
    uint64_t communicator, seq, bytes;
    double seconds;
    int rank, ranks, nodes;
    enum lk_coll coll;
    bool by_host;
};

struct samples {
    struct sample *at;
    size_t n, capacity, n_other;
};

/* ---- Records ---- */

/* The members that are read of an object, wherever they lie in it: versions nest them differently.
 */
struct members {
    int64_t rank, ranks, nodes, seq, bytes, time_ns; /* -1: not there */
    int64_t algbw, busbw;                            /* in 1e-6 GB/s */
    int64_t colls, p2ps, proxies, lost;              /* of dump_stats: objects behind it, losses */
    struct lk_slice coll, id, name, version, source;
};

static void take_number(const struct lk_scan *s, const struct lk_slice *key, struct members *m)
{
    static const struct {
        const char *key;
        size_t offset;
        int places;
    } rows[] = {
        {"rank", offsetof(struct members, rank), 0},
        {"n_ranks", offsetof(struct members, ranks), 0},
        {"nnodes", offsetof(struct members, nodes), 0},
        {"coll_sn", offsetof(struct members, seq), 0},
        {"coll_msg_size_bytes", offsetof(struct members, bytes), 0},
        {"coll_exec_time_us", offsetof(struct members, time_ns), 3},
        {"coll_algobw_gbs", offsetof(struct members, algbw), 6},
        {"coll_busbw_gbs", offsetof(struct members, busbw), 6},
        {"coll_records", offsetof(struct members, colls), 0},
        {"p2p_records", offsetof(struct members, p2ps), 0},
        {"proxy_records", offsetof(struct members, proxies), 0},
        {"coll_dropped_since_last_dump", offsetof(struct members, lost), 0},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (lk_scan_is(s, key, rows[i].key, strlen(rows[i].key)) &&
            !lk_scan_fixed(lk_scan_at(s, &s->slice), s->slice.n, rows[i].places,
                           (int64_t *)((char *)m + rows[i].offset)))
            *(int64_t *)((char *)m + rows[i].offset) = -1;
}

static void take_text(const struct lk_scan *s, const struct lk_slice *key, struct members *m)
{
    static const struct {
        const char *key;
        size_t offset;
    } rows[] = {
        {"coll", offsetof(struct members, coll)},
        {"id", offsetof(struct members, id)},
        {"comm_name", offsetof(struct members, name)},
        {"inspector_output_format_version", offsetof(struct members, version)},
        {"coll_timing_source", offsetof(struct members, source)},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (lk_scan_is(s, key, rows[i].key, strlen(rows[i].key)))
            *(struct lk_slice *)((char *)m + rows[i].offset) = s->slice;
}

/* Return false if the file ends in the object, whose last member may then be cut off, too. */
static bool read_members(struct lk_scan *s, struct members *m)
{
    const int64_t depth = s->depth;
    enum lk_scan_token token;

    memset(m, 0, sizeof *m);
    m->rank = m->ranks = m->nodes = m->seq = m->bytes = m->time_ns = m->algbw = m->busbw = -1;
    m->colls = m->p2ps = m->proxies = m->lost = -1;
    while (s->depth >= depth && (token = lk_scan_next(s)) != LK_SCAN_END) {
        struct lk_slice key = s->slice;

        if (token == LK_SCAN_ARRAY)
            lk_scan_leave(s, s->depth);
        if (token != LK_SCAN_TEXT)
            continue;
        token = lk_scan_next(s); /* its value */
        if (token == LK_SCAN_ARRAY)
            lk_scan_leave(s, s->depth);
        if (token != LK_SCAN_TEXT && token != LK_SCAN_WORD)
            continue;
        take_number(s, &key, m);
        take_text(s, &key, m);
    }
    return s->depth < depth;
}

/* ---- Files ---- */

/* A file that is read, and whose the objects of its last dump_stats are. */
struct reader {
    struct lk_scan scan;
    struct members m;
    struct samples *samples;
    struct lk_inspector *what;
    size_t n_records;
    uint64_t communicator;
    int64_t rank, ranks, nodes, left; /* objects without a header that belong to it */
};

/* "v4.3": the fourth format, in its third form. */
static enum lk_status check_version(struct reader *r)
{
    const struct lk_slice *v = &r->m.version;
    const char *text = lk_scan_at(&r->scan, v);
    int64_t minor;

    if (!v->n)
        return LK_OK;
    if (v->n < 4 || memcmp(text, "v4.", 3) != 0 || !lk_scan_fixed(text + 3, v->n - 3, 0, &minor) ||
        minor < 0 || minor > 1000)
        return lk_fail(LK_EPARSE,
                       "%s: is of version \"%.*s\" of NCCL Inspector's format; v4.0 to v4.%d are "
                       "read",
                       r->scan.path, (int)(v->n < 32 ? v->n : 32), text, NEWEST_MINOR);
    if (r->what->oldest < 0 || minor < r->what->oldest)
        r->what->oldest = (int)minor;
    if (minor > r->what->newest)
        r->what->newest = (int)minor;
    r->what->unknown |= minor > NEWEST_MINOR;
    return LK_OK;
}

/* Take a header, which is also that of the objects that a dump_stats counts. */
static void begin_dump(struct reader *r)
{
    const struct members *m = &r->m;

    r->communicator = lk_hash(lk_scan_at(&r->scan, &m->id), m->id.n);
    r->rank = m->rank <= LK_RANKS_MAX ? m->rank : -1;
    r->ranks = m->ranks;
    r->nodes = m->nodes;
    r->left = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t n = i == 0 ? m->colls : i == 1 ? m->p2ps : m->proxies;

        if (n > 0 && n <= OBJECTS_MAX)
            r->left += n;
    }
    if (m->lost > 0)
        r->what->n_lost += (size_t)m->lost;
}

/* A rate is printed in 1e-6 GB/s, of a time that was cut to a microsecond. */
static bool agrees(double rate_Bps, double want_Bps, double seconds)
{
    static const double SAME = 1e-3, PRINTED_BPS = 1e3, CUT_S = 1e-6;

    return fabs(rate_Bps - want_Bps) <= (SAME + CUT_S / seconds) * want_Bps + PRINTED_BPS;
}

/* Compute the rates that Inspector says of a collective (algbw is the size over the time, busbw
 * that times the factor of nccl-tests), and compare: else its sizes or times are not what they are
 * taken for. */
static enum lk_status check_rates(const struct reader *r, const struct sample *x)
{
    const double want = (double)x->bytes / x->seconds,
                 factor = lk_coll_busbw_factor(x->coll, x->ranks), algbw = 1e3 * (double)r->m.algbw,
                 busbw = 1e3 * (double)r->m.busbw;

    if (r->m.algbw >= 0 && !agrees(algbw, want, x->seconds))
        return lk_fail(LK_EPARSE,
                       "%s: record %zu: coll_algobw_gbs is %g, but %llu bytes in %g us are %g GB/s",
                       r->scan.path, r->n_records, 1e-9 * algbw, (unsigned long long)x->bytes,
                       1e6 * x->seconds, 1e-9 * want);
    if (r->m.busbw >= 0 && !agrees(busbw, want * factor, x->seconds))
        return lk_fail(LK_EPARSE,
                       "%s: record %zu: coll_busbw_gbs is %g, but %s on %d ranks has %g times %g "
                       "GB/s",
                       r->scan.path, r->n_records, 1e-9 * busbw, lk_coll_name(x->coll), x->ranks,
                       factor, 1e-9 * want);
    return LK_OK;
}

/* Return true if Inspector gives the size of one rank's part. */
static bool is_of_parts(enum lk_coll c)
{
    return c == LK_REDUCE_SCATTER || c == LK_ALL_GATHER;
}

/* Take a collective of a communicator that is known. Damaged ones are passed over. */
static enum lk_status take_collective(struct reader *r)
{
    static const int64_t SEQ_MAX = INT64_C(1) << 40, BYTES_MAX = INT64_C(1) << 50;
    struct samples *out = r->samples;
    const struct members *m = &r->m;
    enum lk_coll coll = LK_COLL_COUNT;
    const bool is_modelled =
        lk_coll_find(lk_scan_at(&r->scan, &m->coll), m->coll.n, &coll) && coll < LK_COLL_MODELLED;
    const int64_t parts = is_modelled && is_of_parts(coll) && r->ranks > 0 ? r->ranks : 1;
    struct sample x = {.communicator = r->communicator,
                       .seq = (uint64_t)m->seq,
                       .seconds = 1e-9 * (double)m->time_ns,
                       .rank = (int)r->rank,
                       .ranks = (int)r->ranks,
                       .nodes = (int)(r->nodes > 0 ? r->nodes : 1),
                       .by_host = m->source.n && !LK_SCAN_IS(&r->scan, &m->source, "kernel_gpu")};

    if (r->ranks < 2 || r->ranks > LK_RANKS_MAX || r->nodes > r->ranks || m->seq < 0 ||
        m->seq > SEQ_MAX || m->bytes <= 0 || m->bytes > BYTES_MAX / parts)
        return LK_OK;
    if (!is_modelled) {
        out->n_other++;
        return LK_OK;
    }
    x.coll = coll;
    x.bytes = (uint64_t)(m->bytes * parts);
    r->what->n_by_host += x.by_host;
    if (m->time_ns <= 0)
        x.seconds = 0;
    else
        LK_PASS(check_rates(r, &x));
    LK_PASS(lk_array_grow(&out->at, &out->capacity, out->n + 1, sizeof x));
    out->at[out->n++] = x;
    return LK_OK;
}

static enum lk_status take_object(struct reader *r)
{
    const struct members *m = &r->m;
    const int64_t left = r->left;

    if (m->ranks < 0 && m->colls < 0 && !m->coll.n && left <= 0)
        return LK_OK; /* it is of something else */
    r->n_records++;
    LK_PASS(check_version(r));
    r->what->rings |= m->name.n || m->colls >= 0;
    if (m->ranks >= 0 || m->colls >= 0)
        begin_dump(r);
    else
        r->left = left > 0 ? left - 1 : 0;
    if (!m->coll.n)
        return LK_OK;
    if ((m->ranks < 0 && left <= 0) || r->ranks < 0) {
        r->what->n_stray++;
        return LK_OK;
    }
    return take_collective(r);
}

static enum lk_status read_file(const char *path, struct samples *out, struct lk_inspector *what)
{
    struct reader r = {.samples = out, .what = what};
    enum lk_status st = LK_OK;
    enum lk_scan_token token;

    LK_TRY(lk_scan_open(&r.scan, path));
    while ((token = lk_scan_next(&r.scan)) != LK_SCAN_END) {
        if (token != LK_SCAN_OBJECT)
            continue;
        lk_scan_pin(&r.scan);
        st = read_members(&r.scan, &r.m) && !r.scan.overflown ? take_object(&r) : LK_OK;
        (void)lk_scan_unpin(&r.scan);
        LK_TRY(st);
    }
    what->n_cut += r.scan.cut;
    what->n_empty += r.n_records == 0;
    st = lk_scan_status(&r.scan);
out:
    lk_scan_close(&r.scan);
    return st;
}

/* ---- What is missing ---- */

#define COMPARE(field)                                                                             \
    if (x->field != y->field)                                                                      \
        return x->field < y->field ? -1 : 1;

/* A rank's collectives of one kind in a communicator, which NCCL numbers from 0. */
static int by_series(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    COMPARE(communicator)
    COMPARE(rank)
    COMPARE(coll)
    COMPARE(seq)
    return 0;
}

static bool same_series(const struct sample *x, const struct sample *y)
{
    return x->communicator == y->communicator && x->rank == y->rank && x->coll == y->coll;
}

static void count_missing(struct samples *s, struct lk_inspector *what)
{
    size_t end;

    qsort(s->at, s->n, sizeof *s->at, by_series);
    for (size_t i = 0; i < s->n; i = end) {
        size_t distinct = 1;

        for (end = i + 1; end < s->n && same_series(&s->at[end], &s->at[i]); end++)
            distinct += s->at[end].seq != s->at[end - 1].seq;
        what->n_recorded += distinct;
        what->n_missing += (size_t)s->at[end - 1].seq + 1 - distinct;
    }
}

/* ---- Points ---- */

/* By size of one collective; there, by collective, its shortest time first. */
static int order(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    COMPARE(coll)
    COMPARE(nodes)
    COMPARE(ranks)
    COMPARE(bytes)
    COMPARE(communicator)
    COMPARE(seq)
    COMPARE(seconds)
    return 0;
}

static bool same_size(const struct sample *x, const struct sample *y)
{
    return x->coll == y->coll && x->nodes == y->nodes && x->ranks == y->ranks &&
           x->bytes == y->bytes;
}

/* Add the point of n samples of one size; times is scratch. Returns how many collectives it has. */
static enum lk_status add_point(const char *path, const struct sample *v, size_t n, double *times,
                                struct lk_bench *out, size_t *collectives_of)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        if (i == 0 || v[i].seq != v[i - 1].seq || v[i].communicator != v[i - 1].communicator)
            times[found++] = v[i].seconds;
    *collectives_of = found;
    LK_PASS(
        bench_add(out, v[0].coll, LK_ALGO_AUTO, v[0].ranks, v[0].nodes, v[0].bytes,
                  lk_stats_median(times, found),
                  "%s: NCCL Inspector, %zu collectives, the shortest of %.1f of %d ranks' times",
                  path, found, (double)n / (double)found, v[0].ranks));
    out->points[out->n_points - 1].time_s.n = found;
    return LK_OK;
}

static enum lk_status add_points(const char *path, const struct samples *s, struct lk_bench *out,
                                 struct lk_inspector *what)
{
    enum lk_status st = LK_OK;
    double *times = NULL, of_all = 0;

    LK_TRY(lk_alloc(&times, s->n, sizeof *times));
    for (size_t i = 0, end, found; i < s->n; i = end) {
        for (end = i + 1; end < s->n && same_size(&s->at[end], &s->at[i]);)
            end++;
        LK_TRY(add_point(path, &s->at[i], end - i, times, out, &found));
        of_all += (double)found * s->at[i].ranks;
    }
    what->seen = (double)s->n / of_all;
out:
    free(times);
    return st;
}

/* Leave those with the kernel's time, in the order of points. */
static void keep_timed(struct samples *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].seconds > 0 && !s->at[i].by_host)
            s->at[n++] = s->at[i];
    s->n = n;
    qsort(s->at, s->n, sizeof *s->at, order);
}

enum lk_status lk_nccl_inspector_read(const char *const *paths, size_t n, struct lk_bench *out,
                                      struct lk_inspector *what)
{
    enum lk_status st = LK_OK;
    struct samples s = {0};

    *what = (struct lk_inspector){.oldest = -1, .newest = -1};
    for (size_t i = 0; i < n; i++)
        LK_TRY(read_file(paths[i], &s, what));
    out->n_other += s.n_other;
    if (s.n)
        count_missing(&s, what);
    if (s.n)
        keep_timed(&s);
    if (s.n)
        st = add_points(paths[0], &s, out, what);
    else if (what->n_by_host)
        st = lk_fail(LK_EEVIDENCE,
                     "%s: the host's clock timed all %zu collectives (coll_timing_source): that is "
                     "the time of NCCL's threads, not of a kernel",
                     paths[0], what->n_by_host);
    else
        st = lk_fail(LK_EPARSE,
                     "%s: no all-reduce, reduce-scatter, all-gather or broadcast of NCCL Inspector "
                     "in it",
                     paths[0]);
out:
    free(s.at);
    return st;
}
