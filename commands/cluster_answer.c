/* Make the answer of commands that write a cluster file. Divisions: points, sentences, tables. */
#include "commands/cluster_answer.h"

#include "base/array.h"
#include "base/units.h"
#include "commands/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Points ---- */

/* Return the collective that the answer is about: all-reduce, or else the first one. */
static enum lk_coll main_collective(const struct lk_cluster *c)
{
    for (size_t i = 0; i < c->n_points; i++)
        if (c->points[i].coll == LK_ALL_REDUCE)
            return LK_ALL_REDUCE;
    return c->points[0].coll;
}

/* Return true if a point is the one to show of its ranks and size: in a burst before alone, and of
 * several algorithms the fastest. */
static bool is_better(const struct lk_cluster_point *p, const struct lk_cluster_point *than)
{
    if (p->timing != than->timing)
        return p->timing == LK_TIMING_BACK_TO_BACK;
    return p->time_s.value < than->time_s.value;
}

/* By ranks and size, and of these the one to show first. */
static int by_size(const void *a, const void *b)
{
    const struct lk_cluster_point *p = *(const struct lk_cluster_point *const *)a;
    const struct lk_cluster_point *q = *(const struct lk_cluster_point *const *)b;
    int order = p->ranks != q->ranks ? LK_ORDER(p->ranks, q->ranks) : LK_ORDER(p->nodes, q->nodes);

    order = order ? order : LK_ORDER(p->bytes, q->bytes);
    order = order ? order : is_better(q, p) - is_better(p, q);
    return order ? order : LK_ORDER(p, q);
}

static int by_place(const void *a, const void *b)
{
    const struct lk_cluster_point *p = *(const struct lk_cluster_point *const *)a;
    const struct lk_cluster_point *q = *(const struct lk_cluster_point *const *)b;

    return LK_ORDER(p, q);
}

/* Return true if the sizes differ by less than the text shows: two sides of the size from which a
 * library takes another algorithm are one row. */
static bool same_size(const struct lk_cluster_point *p, const struct lk_cluster_point *q)
{
    return fabs((double)p->bytes - (double)q->bytes) <= 1e-3 * (double)q->bytes;
}

/* List the points to show, one of each number of ranks and size, in the order of the file. The
 * caller frees the list. */
static enum lk_status list_shown(const struct lk_cluster *c, const struct lk_cluster_point ***out,
                                 size_t *out_n)
{
    enum lk_coll coll = main_collective(c);
    const struct lk_cluster_point **list = NULL;
    size_t n = 0, kept = 0;

    LK_PASS(lk_alloc(&list, c->n_points, sizeof *list));
    for (size_t i = 0; i < c->n_points; i++)
        if (c->points[i].coll == coll)
            list[n++] = &c->points[i];
    qsort(list, n, sizeof *list, by_size);
    for (size_t i = 0; i < n; i++)
        if (!kept || list[i]->ranks != list[kept - 1]->ranks ||
            list[i]->nodes != list[kept - 1]->nodes || !same_size(list[i], list[kept - 1]))
            list[kept++] = list[i];
    qsort(list, kept, sizeof *list, by_place);
    *out = list;
    *out_n = kept;
    return LK_OK;
}

/* Return true if ranks outnumber the GPUs, or CPUs, of their nodes: they take turns. */
static bool takes_turns(const struct lk_cluster *c, int ranks, int nodes)
{
    return ranks > c->gpus_per_node * nodes;
}

static bool is_larger(const struct lk_cluster *c, const struct lk_cluster_point *p,
                      const struct lk_cluster_point *than)
{
    bool turns = takes_turns(c, p->ranks, p->nodes);

    if (turns != takes_turns(c, than->ranks, than->nodes))
        return !turns;
    return p->ranks > than->ranks || (p->ranks == than->ranks && p->bytes > than->bytes);
}

/* Return the point of the most ranks that do not take turns, and of these of the most bytes; the
 * list is not empty. */
static const struct lk_cluster_point *largest(const struct lk_cluster *c,
                                              const struct lk_cluster_point *const *list, size_t n)
{
    const struct lk_cluster_point *found = list[0];

    for (size_t i = 1; i < n; i++)
        if (is_larger(c, list[i], found))
            found = list[i];
    return found;
}

static double busbw(const struct lk_cluster_point *p, double time_s)
{
    return (double)p->bytes / time_s * lk_coll_busbw_factor(p->coll, p->ranks);
}

/* Return the fixed time of a call of a point's collective, algorithm and link; NaN: no fit. */
static double launch_of(const struct lk_cluster *c, const struct lk_cluster_point *p)
{
    for (const struct lk_cluster_fit *f = c->fits; f < c->fits + c->n_fits; f++)
        if (f->coll == p->coll && f->algo == p->algo &&
            f->link == (p->nodes > 1 ? LK_LINK_INTER : LK_LINK_INTRA))
            return f->launch_s.value;
    return NAN;
}

/* ---- Sentences ---- */

struct text {
    char buf[64];
};

static struct text quantity_text(enum lk_dimension dim, double v)
{
    struct text t;

    (void)lk_units_format(dim, v, t.buf, sizeof t.buf);
    return t;
}

/* Write "all-reduce": the name as people write it. */
static struct text name_text(enum lk_coll coll)
{
    struct text t;

    snprintf(t.buf, sizeof t.buf, "%s", lk_coll_name(coll));
    for (char *p = t.buf; *p; p++)
        *p = *p == '_' ? '-' : *p;
    t.buf[0] = (char)(t.buf[0] - 'a' + 'A');
    return t;
}

static enum lk_status say_bandwidth(const struct lk_cluster *c, const struct lk_cluster_point *p,
                                    struct lk_page *page)
{
    const char *what = c->gpu && !strcmp(c->gpu, "cpu") ? "ranks" : "GPUs";
    double launch_s = launch_of(c, p);
    char launch[96] = "", interval[96] = "", range[64], nodes[40] = "";

    if (p->nodes > 1)
        snprintf(nodes, sizeof nodes, " of %d nodes", p->nodes);
    if (lk_quantity_known(&p->time_s) && p->time_s.lo > 0 && p->time_s.hi > p->time_s.lo)
        snprintf(interval, sizeof interval, " (%s)",
                 lk_units_interval(LK_DIM_RATE, busbw(p, p->time_s.value), busbw(p, p->time_s.hi),
                                   busbw(p, p->time_s.lo), range, sizeof range));
    if (launch_s > 0)
        snprintf(launch, sizeof launch, "; a launch costs %s",
                 quantity_text(LK_DIM_TIME, launch_s).buf);
    return lk_page_say(page, "%s of %s on %d %s%s: %s bus bandwidth%s%s.", name_text(p->coll).buf,
                       quantity_text(LK_DIM_BYTES, (double)p->bytes).buf, p->ranks, what, nodes,
                       quantity_text(LK_DIM_RATE, busbw(p, p->time_s.value)).buf, interval, launch);
}

/* Write by how much something slows: "is 3 % slower", "is not slower", "takes 2.4 times as long".
 */
static struct text slows_text(double by)
{
    struct text t;

    if (by < 0.005)
        snprintf(t.buf, sizeof t.buf, "is not slower");
    else if (by < 1)
        snprintf(t.buf, sizeof t.buf, "is %.0f %% slower", 100 * by);
    else
        snprintf(t.buf, sizeof t.buf, "takes %.1f times as long", 1 + by);
    return t;
}

static enum lk_status say_effects(const struct lk_cluster *c, struct lk_page *page)
{
    const struct lk_cluster_kappa *k = c->n_kappa ? &c->kappa[c->n_kappa - 1] : NULL;

    while (k > c->kappa && takes_turns(c, k->ranks, 1))
        k--;
    if (lk_quantity_known(&c->gamma_wire) && lk_quantity_known(&c->delta))
        LK_PASS(lk_page_say(page, "Beside a collective compute %s; beside compute a collective %s.",
                            slows_text(c->gamma_wire.value).buf, slows_text(c->delta.value).buf));
    if (k && lk_quantity_known(&k->kappa))
        LK_PASS(lk_page_say(page, "With %d ranks on the node instead of one, compute %s.", k->ranks,
                            slows_text(k->kappa.value).buf));
    return LK_OK;
}

static enum lk_status add_values(const struct lk_cluster *c, const struct lk_cluster_point *p,
                                 struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char *labels = NULL;

    LK_TRY(lk_asprintf(&labels, "collective=\"%s\",gpus=\"%d\",bytes=\"%llu\"",
                       lk_coll_name(p->coll), p->ranks, (unsigned long long)p->bytes));
    LK_TRY(
        lk_page_value(page, "busbw_bytes_per_s", labels, LK_DIM_RATE, busbw(p, p->time_s.value)));
    LK_TRY(lk_page_value(page, "launch_s", labels, LK_DIM_TIME, launch_of(c, p)));
    if (lk_quantity_known(&c->gamma_wire))
        LK_TRY(lk_page_value(page, "compute_slowdown", "", LK_DIM_NONE, c->gamma_wire.value));
out:
    free(labels);
    return st;
}

enum lk_status cluster_answer(const struct lk_cluster *c, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_point **list = NULL, *p;
    size_t n = 0;

    if (c->n_points) {
        LK_TRY(list_shown(c, &list, &n));
        p = largest(c, list, n);
        LK_TRY(say_bandwidth(c, p, page));
        LK_TRY(add_values(c, p, page));
    }
    st = say_effects(c, page);
out:
    free(list);
    return st;
}

/* ---- Tables ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define SIZES(X)                                                                                   \
    X("collective", "collective",    LK_DIM_NONE,  -1, lk_coll_name(p->coll))                      \
    X("ranks",      "ranks",         LK_DIM_NONE,  -1, (double)p->ranks)                           \
    X("nodes",      "nodes",         LK_DIM_NONE,  -1, (double)p->nodes)                           \
    X("bytes",      "size",          LK_DIM_BYTES, 0,  (double)p->bytes)                           \
    X("time_s",     "time",          LK_DIM_TIME,  0,  p->time_s.value)                            \
    X("lo_s",       "from",          LK_DIM_TIME,  0,  p->time_s.lo)                               \
    X("hi_s",       "to",            LK_DIM_TIME,  0,  p->time_s.hi)                               \
    X("busbw_Bps",  "bus bandwidth", LK_DIM_RATE,  0,  busbw(p, p->time_s.value))                  \
    X("algorithm",  "algorithm",     LK_DIM_NONE,  -1, lk_algo_name(p->algo))

#define PAIRS(X)                                                                                   \
    X("from",          "from", LK_DIM_NONE, -1, p->from)                                           \
    X("to",            "to",   LK_DIM_NONE, -1, p->to)                                             \
    X("bandwidth_Bps", "rate", LK_DIM_RATE, 0,  p->bandwidth_Bps.value)                            \
    X("lo_Bps",        "from", LK_DIM_RATE, 0,  p->bandwidth_Bps.lo)                               \
    X("hi_Bps",        "to",   LK_DIM_RATE, 0,  p->bandwidth_Bps.hi)                               \
    X("n",             "n",    LK_DIM_NONE, -1, (double)p->bandwidth_Bps.n)

static const struct lk_column columns[] = {SIZES(LK_TABLE_COLUMN)};
static const struct lk_column pair_columns[] = {PAIRS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status size_table(const struct lk_cluster *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    const struct lk_cluster_point **list = NULL;
    size_t n = 0;

    LK_TRY(list_shown(c, &list, &n));
    LK_TRY(lk_table_create("Time and bandwidth by size", columns, LK_COUNT(columns), &t));
    for (size_t i = 0; i < n; i++) {
        const struct lk_cluster_point *p = list[i];

        LK_TRY(lk_table_row(t));
        SIZES(LK_TABLE_CELL)
    }
    LK_HAND_OVER(out, t);
out:
    free(list);
    lk_table_destroy(t);
    return st;
}

static enum lk_status pair_table(const struct lk_cluster *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Rates between two, one pair at a time", pair_columns,
                           LK_COUNT(pair_columns), &t));
    for (const struct lk_cluster_pair *p = c->pairs; p < c->pairs + c->n_pairs; p++) {
        LK_TRY(lk_table_row(t));
        PAIRS(LK_TABLE_CELL)
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

enum lk_status cluster_tables(const struct lk_cluster *c, struct lk_page *page)
{
    static const struct lk_view_column sizes[] = {
        LK_VIEW("bytes"),     LK_VIEW("ranks"),
        LK_VIEW("nodes"),     LK_VIEW_RANGE("time_s", "lo_s", "hi_s"),
        LK_VIEW("busbw_Bps"), LK_VIEW("algorithm"),
        LK_VIEW("collective")};
    static const struct lk_view_column pairs[] = {
        LK_VIEW("from"), LK_VIEW("to"), LK_VIEW_RANGE("bandwidth_Bps", "lo_Bps", "hi_Bps")};
    static const struct lk_view_column effects[] = {LK_VIEW("effect"),
                                                    LK_VIEW_RANGE("value", "lo", "hi")};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    if (c->n_points) {
        LK_TRY(size_table(c, &t));
        LK_TRY(lk_page_table(page, "sizes", LK_PAGE_MAIN, sizes, LK_COUNT(sizes), &t));
        LK_TRY(cluster_point_table(c, &t));
        LK_TRY(lk_page_table(page, "points", LK_PAGE_DETAIL, NULL, 0, &t));
        LK_TRY(cluster_fit_table(c, &t));
        for (size_t i = 0; !c->n_fits && i < t->n_notes; i++)
            LK_TRY(lk_page_note(page, "fits: %s", t->notes[i]));
        LK_TRY(lk_page_table(page, "fits", LK_PAGE_DETAIL, NULL, 0, &t));
    }
    if (c->n_pairs) {
        LK_TRY(pair_table(c, &t));
        LK_TRY(lk_page_table(page, "pairs", LK_PAGE_MAIN, pairs, LK_COUNT(pairs), &t));
    }
    LK_TRY(cluster_effect_table(c, &t));
    if (t->n_rows)
        LK_TRY(lk_page_table(page, "effects", LK_PAGE_MAIN, effects, LK_COUNT(effects), &t));
out:
    lk_table_destroy(t);
    return st;
}
