#include "profiler/import/nccl_inspector.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/stats.h"
#include "profiler/bench_impl.h"
#include "profiler/import/json_scan.h"

#include <stdlib.h>
#include <string.h>

/* One rank's time of a collective. */
struct sample {
    uint64_t communicator, seq, bytes;
    double seconds;
    int ranks, nodes;
    enum lk_coll coll;
};

struct samples {
    struct sample *at;
    size_t n, capacity, n_other;
};

/* ---- Reading ---- */

/* Members that are read, wherever they lie: versions nest them differently. */
struct members {
    int64_t ranks, nodes, seq, bytes, time_ns; /* -1: not there */
    struct lk_slice coll, id;
};

static void read_members(struct lk_scan *s, struct members *m)
{
    static const struct {
        const char *key;
        size_t offset;
        int places;
    } rows[] = {
        {"n_ranks", offsetof(struct members, ranks), 0},
        {"nnodes", offsetof(struct members, nodes), 0},
        {"coll_sn", offsetof(struct members, seq), 0},
        {"coll_msg_size_bytes", offsetof(struct members, bytes), 0},
        {"coll_exec_time_us", offsetof(struct members, time_ns), 3},
    };
    const int64_t depth = s->depth;
    enum lk_scan_token token;

    *m = (struct members){-1, -1, -1, -1, -1, {0}, {0}};
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
        for (size_t i = 0; i < LK_COUNT(rows); i++)
            if (lk_scan_is(s, &key, rows[i].key, strlen(rows[i].key)) &&
                !lk_scan_fixed(lk_scan_at(s, &s->slice), s->slice.n, rows[i].places,
                               (int64_t *)((char *)m + rows[i].offset)))
                *(int64_t *)((char *)m + rows[i].offset) = -1;
        if (LK_SCAN_IS(s, &key, "coll"))
            m->coll = s->slice;
        if (LK_SCAN_IS(s, &key, "id"))
            m->id = s->slice;
    }
}

static uint64_t hash(const char *text, size_t n)
{
    uint64_t h = 14695981039346656037ULL;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211ULL;
    return h;
}

static enum lk_status take(const struct lk_scan *s, const struct members *m, struct samples *out)
{
    struct sample x = {.communicator = hash(lk_scan_at(s, &m->id), m->id.n),
                       .seq = (uint64_t)m->seq,
                       .bytes = (uint64_t)m->bytes,
                       .seconds = 1e-9 * (double)m->time_ns,
                       .ranks = (int)m->ranks,
                       .nodes = (int)(m->nodes > 0 ? m->nodes : 1)};

    if (!m->coll.n || m->time_ns <= 0 || m->bytes <= 0 || m->ranks < 2 || m->seq < 0 ||
        m->ranks > LK_RANKS_MAX || m->nodes > m->ranks)
        return LK_OK;
    if (LK_SCAN_IS(s, &m->coll, "AllReduce")) {
        x.coll = LK_ALL_REDUCE;
    } else if (LK_SCAN_IS(s, &m->coll, "Broadcast")) {
        x.coll = LK_BROADCAST;
    } else {
        out->n_other++;
        return LK_OK;
    }
    LK_PASS(lk_array_grow(&out->at, &out->capacity, out->n + 1, sizeof x));
    out->at[out->n++] = x;
    return LK_OK;
}

static enum lk_status read_file(const char *path, struct samples *out)
{
    enum lk_status st = LK_OK;
    enum lk_scan_token token;
    struct lk_scan s = {0};
    struct members m;

    LK_TRY(lk_scan_open(&s, path));
    while ((token = lk_scan_next(&s)) != LK_SCAN_END) {
        if (token != LK_SCAN_OBJECT)
            continue;
        lk_scan_pin(&s);
        read_members(&s, &m);
        st = s.overflown ? LK_OK : take(&s, &m, out);
        (void)lk_scan_unpin(&s);
        LK_TRY(st);
    }
    st = lk_scan_status(&s);
out:
    lk_scan_close(&s);
    return st;
}

/* ---- Points ---- */

#define COMPARE(field)                                                                             \
    if (x->field != y->field)                                                                      \
        return x->field < y->field ? -1 : 1;

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

/* Add the point of samples first .. end - 1, of one size; times is scratch. */
static enum lk_status add_point(const char *path, const struct sample *v, size_t n, double *times,
                                struct lk_bench *out)
{
    size_t collectives = 0, seen = 0;

    for (size_t i = 0; i < n; i++) {
        bool first =
            i == 0 || v[i].seq != v[i - 1].seq || v[i].communicator != v[i - 1].communicator;

        if (first)
            times[collectives++] = v[i].seconds;
        seen++;
    }
    return bench_add(out, v[0].coll, LK_ALGO_AUTO, v[0].ranks, v[0].nodes, v[0].bytes,
                     lk_stats_median(times, collectives),
                     "%s: NCCL Inspector, %zu collectives, the shortest of %.1f of %d ranks' times",
                     path, collectives, (double)seen / (double)collectives, v[0].ranks);
}

enum lk_status lk_nccl_inspector_read(const char *const *paths, size_t n, struct lk_bench *out)
{
    enum lk_status st = LK_OK;
    struct samples s = {0};
    double *times = NULL;

    for (size_t i = 0; i < n; i++)
        LK_TRY(read_file(paths[i], &s));
    out->n_other += s.n_other;
    if (!s.n) {
        st = lk_fail(LK_EPARSE, "%s: no all-reduce or broadcast of NCCL Inspector in it", paths[0]);
        goto out;
    }
    qsort(s.at, s.n, sizeof *s.at, order);
    LK_TRY(lk_alloc(&times, s.n, sizeof *times));
    for (size_t i = 0, end; i < s.n; i = end) {
        for (end = i + 1; end < s.n && same_size(&s.at[end], &s.at[i]);)
            end++;
        LK_TRY(add_point(paths[0], &s.at[i], end - i, times, out));
    }
out:
    free(times);
    free(s.at);
    return st;
}
