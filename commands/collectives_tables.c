/* lockstep collectives: tables and values. */
#include "commands/collectives_impl.h"

#include "base/array.h"
#include "base/label.h"
#include "base/units.h"
#include "sim/suspects.h"

#include <math.h>
#include <stdlib.h>

/* All rows name these. */
#define KEY_COLUMNS(X)                                                                             \
    X("side", "side", LK_DIM_NONE, -1, letter_of(k))                                               \
    X("collective", "collective", LK_DIM_NONE, -1, lk_coll_name(s->at.coll))                       \
    X("gpus", "GPUs", LK_DIM_NONE, -1, (double)s->at.ranks)                                        \
    X("nodes", "nodes", LK_DIM_NONE, -1, (double)s->at.nodes)

/* A size of a set: measured, expected, public. */
#define SIZE_COLUMNS(X)                                                                            \
    X("bytes", "size", LK_DIM_BYTES, -1, (double)j->measured->bytes)                               \
    X("time_s", "time", LK_DIM_TIME, -1, j->measured->time_s.value)                                \
    X("expected_s", "expected", LK_DIM_TIME, -1, j->expected_s)                                    \
    X("expected_lo_s", "from", LK_DIM_TIME, -1, j->lo_s)                                           \
    X("expected_hi_s", "to", LK_DIM_TIME, -1, j->hi_s)                                             \
    X("busbw_Bps", "busbw", LK_DIM_RATE, -1, busbw(s, j, j->measured->time_s.value))               \
    X("expected_busbw_Bps", "expected", LK_DIM_RATE, -1, busbw(s, j, j->expected_s))               \
    X("expected_busbw_lo_Bps", "from", LK_DIM_RATE, -1, busbw(s, j, j->hi_s))                      \
    X("expected_busbw_hi_Bps", "to", LK_DIM_RATE, -1, busbw(s, j, j->lo_s))                        \
    X("share", "of expected", LK_DIM_NONE, LK_TABLE_PERCENT, 1 / j->slowdown)                      \
    X("public_tables", "public tables", LK_DIM_NONE, -1, (double)j->n_public)                      \
    X("public_slower", "slower ones", LK_DIM_NONE, -1, (double)j->n_public_slower)

#define BAND_COLUMNS(X)                                                                            \
    KEY_COLUMNS(X)                                                                                 \
    X("band", "sizes", LK_DIM_NONE, -1, lk_band_name((enum lk_band)b))                             \
    X("verdict", "verdict", LK_DIM_NONE, -1, lk_judgement_name(band->verdict))                     \
    SIZE_COLUMNS(X)                                                                                \
    X("fall", "over larger", LK_DIM_NONE, 2, band->fall > 0 ? band->fall : NAN)

#define POINT_COLUMNS(X)                                                                           \
    KEY_COLUMNS(X)                                                                                 \
    X("timing", "timing", LK_DIM_NONE, -1, lk_timing_words.names[j->measured->timing])             \
    SIZE_COLUMNS(X)                                                                                \
    X("time_lo_s", "from", LK_DIM_TIME, -1, j->measured->time_s.lo)                                \
    X("time_hi_s", "to", LK_DIM_TIME, -1, j->measured->time_s.hi)                                  \
    X("algbw_Bps", "algbw", LK_DIM_RATE, -1,                                                       \
      (double)j->measured->bytes / j->measured->time_s.value)                                      \
    X("public_s", "median of public", LK_DIM_TIME, -1, j->public_s)                                \
    X("algorithm", "algorithm", LK_DIM_NONE, -1, j->algorithm)                                     \
    X("protocol", "protocol", LK_DIM_NONE, -1, j->protocol)                                        \
    X("source", "source", LK_DIM_NONE, LK_TABLE_DATA, (const char *)j->measured->time_s.source)

#define SUSPECT_COLUMNS(X)                                                                         \
    KEY_COLUMNS(X)                                                                                 \
    X("rank", "rank", LK_DIM_NONE, -1, (double)(i + 1))                                            \
    X("suspect", "suspect", LK_DIM_NONE, -1, list[i]->name)                                        \
    X("what", "what it would be", LK_DIM_NONE, LK_TABLE_BELOW, list[i]->sentence)                  \
    X("tell", "what would tell", LK_DIM_NONE, LK_TABLE_BELOW, list[i]->tell)

#define COMMON_COLUMNS(X)                                                                          \
    KEY_COLUMNS(X)                                                                                 \
    X("bytes", "size", LK_DIM_BYTES, -1, (double)p->measured->bytes)                               \
    X("a_s", "A", LK_DIM_TIME, -1, p->measured->time_s.value)                                      \
    X("other_s", "other", LK_DIM_TIME, -1, q->measured->time_s.value)                              \
    X("a_busbw_Bps", "A's busbw", LK_DIM_RATE, -1, busbw(a, p, p->measured->time_s.value))         \
    X("other_busbw_Bps", "other's", LK_DIM_RATE, -1, busbw(s, q, q->measured->time_s.value))       \
    X("ratio", "other's speed over A's", LK_DIM_NONE, 2,                                           \
      p->measured->time_s.value / q->measured->time_s.value)

static const char *letter_of(int side)
{
    static const char *const letters[COLLECTIVES_SIDES_MAX] = {"A", "B", "C", "D",
                                                               "E", "F", "G", "H"};

    return letters[side];
}

static double busbw(const struct lk_judged_set *s, const struct lk_judged *j, double seconds)
{
    return lk_judged_busbw(&s->at, (double)j->measured->bytes, seconds);
}

static enum lk_status add_bands(const struct lk_judged_set *s, int k, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    for (int b = 0; b < LK_BAND_COUNT; b++) {
        const struct lk_judged_band *band = &s->bands[b];
        const struct lk_judged *j = &s->points[band->at];

        if (!band->n)
            continue;
        LK_TRY(lk_table_row(t));
        BAND_COLUMNS(LK_TABLE_CELL)
    }
out:
    return st;
}

static enum lk_status add_points(const struct lk_judged_set *s, int k, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < s->n; i++) {
        const struct lk_judged *j = &s->points[i];

        LK_TRY(lk_table_row(t));
        POINT_COLUMNS(LK_TABLE_CELL)
    }
out:
    return st;
}

static enum lk_status add_suspects(const struct collectives_side *side,
                                   const struct lk_judged_set *s, int k, struct lk_table *t)
{
    enum lk_status st = LK_OK;
    const struct lk_suspect *list[LK_SUSPECTS_MAX];
    size_t n;

    lk_suspects_of(&side->x.e, &side->x.v, s, list, &n);
    for (size_t i = 0; i < n; i++) {
        LK_TRY(lk_table_row(t));
        SUSPECT_COLUMNS(LK_TABLE_CELL)
    }
out:
    return st;
}

/* Add the sizes that a set of side k has in common with one of A. */
static enum lk_status add_common(const struct collectives_side *first,
                                 const struct lk_judged_set *s, int k, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    for (size_t m = 0; m < first->x.v.n; m++) {
        const struct lk_judged_set *a = &first->x.v.sets[m];

        for (size_t i = 0, l = 0; lk_coll_key_equal(a->at, s->at) && i < a->n; i++) {
            const struct lk_judged *p = &a->points[i], *q;

            while (l < s->n && s->points[l].measured->bytes < p->measured->bytes)
                l++;
            if (l == s->n || s->points[l].measured->bytes != p->measured->bytes)
                continue;
            q = &s->points[l];
            LK_TRY(lk_table_row(t));
            COMMON_COLUMNS(LK_TABLE_CELL)
        }
    }
out:
    return st;
}

enum lk_status collectives_tables(const struct collectives_side *sides, int n, struct lk_page *page)
{
    static const struct lk_column band_columns[] = {BAND_COLUMNS(LK_TABLE_COLUMN)};
    static const struct lk_column point_columns[] = {POINT_COLUMNS(LK_TABLE_COLUMN)};
    static const struct lk_column suspect_columns[] = {SUSPECT_COLUMNS(LK_TABLE_COLUMN)};
    static const struct lk_column common_columns[] = {COMMON_COLUMNS(LK_TABLE_COLUMN)};
    static const struct lk_view_column band_view[] = {LK_VIEW("side"),
                                                      {.name = "collective", .setting = true},
                                                      {.name = "gpus", .setting = true},
                                                      {.name = "nodes", .setting = true},
                                                      LK_VIEW("bytes"),
                                                      LK_VIEW("time_s"),
                                                      LK_VIEW("busbw_Bps"),
                                                      LK_VIEW("share"),
                                                      LK_VIEW("verdict"),
                                                      {.name = "expected_busbw_Bps",
                                                       .lo = "expected_busbw_lo_Bps",
                                                       .hi = "expected_busbw_hi_Bps",
                                                       .optional = true},
                                                      {.name = "public_tables", .optional = true},
                                                      {.name = "public_slower", .optional = true}};
    static const struct lk_view_column suspect_view[] = {
        LK_VIEW("side"),    LK_VIEW("collective"), LK_VIEW("gpus"), LK_VIEW("nodes"),
        LK_VIEW("suspect"), LK_VIEW("what"),       LK_VIEW("tell")};
    enum lk_status st = LK_OK;
    struct lk_table *bands = NULL, *points = NULL, *suspects = NULL, *common = NULL;
    const size_t skip = n == 1; /* one side needs no letter */

    LK_TRY(lk_table_create("Verdicts, at each band's size of median slowdown", band_columns,
                           LK_COUNT(band_columns), &bands));
    LK_TRY(lk_table_create("Sizes", point_columns, LK_COUNT(point_columns), &points));
    LK_TRY(lk_table_create("Suspects: whose signature fits", suspect_columns,
                           LK_COUNT(suspect_columns), &suspects));
    LK_TRY(lk_table_create("Sizes that A and another side have in common", common_columns,
                           LK_COUNT(common_columns), &common));
    for (int k = 0; k < n; k++)
        for (size_t i = 0; i < sides[k].x.v.n; i++) {
            const struct lk_judged_set *s = &sides[k].x.v.sets[i];

            LK_TRY(add_bands(s, k, bands));
            LK_TRY(add_points(s, k, points));
            LK_TRY(add_suspects(&sides[k], s, k, suspects));
            if (k)
                LK_TRY(add_common(&sides[0], s, k, common));
        }
    LK_TRY(lk_page_table(page, "bands", LK_PAGE_MAIN, band_view + skip, LK_COUNT(band_view) - skip,
                         &bands));
    if (suspects->n_rows)
        LK_TRY(lk_page_table(page, "suspects", LK_PAGE_MAIN, suspect_view + skip,
                             LK_COUNT(suspect_view) - skip, &suspects));
    if (common->n_rows)
        LK_TRY(lk_page_table(page, "common", LK_PAGE_MAIN, NULL, 0, &common));
    LK_TRY(lk_page_table(page, "sizes", LK_PAGE_DETAIL, NULL, 0, &points));
out:
    lk_table_destroy(bands);
    lk_table_destroy(points);
    lk_table_destroy(suspects);
    lk_table_destroy(common);
    return st;
}

/* Return the least share of the sizes of a band; NaN: nothing is expected. */
static double least_share(const struct lk_judged_set *s, int b)
{
    double least = NAN;

    for (size_t i = 0; i < s->bands[b].n; i++)
        least = fmin(least, 1 / s->points[s->bands[b].first + i].slowdown);
    return least;
}

static enum lk_status put_share(const struct lk_judged_set *s, int b, int k, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char *labels = NULL;

    LK_TRY(lk_label_add(&labels, "side", "%s", letter_of(k)));
    LK_TRY(lk_label_add(&labels, "collective", "%s", lk_coll_name(s->at.coll)));
    LK_TRY(lk_label_add(&labels, "gpus", "%d", s->at.ranks));
    LK_TRY(lk_label_add(&labels, "nodes", "%d", s->at.nodes));
    LK_TRY(lk_label_add(&labels, "band", "%s", lk_band_name((enum lk_band)b)));
    LK_TRY(
        lk_page_value(page, "share", labels, LK_DIM_NONE, 1 / s->points[s->bands[b].at].slowdown));
    LK_TRY(lk_page_value(page, "share_least", labels, LK_DIM_NONE, least_share(s, b)));
out:
    free(labels);
    return st;
}

enum lk_status collectives_values(const struct collectives_side *sides, int n, struct lk_page *page)
{
    for (int k = 0; k < n; k++)
        for (size_t i = 0; i < sides[k].x.v.n; i++) {
            const struct lk_judged_set *s = &sides[k].x.v.sets[i];

            for (int b = 0; b < LK_BAND_COUNT; b++)
                if (s->bands[b].n)
                    LK_PASS(put_share(s, b, k, page));
        }
    return LK_OK;
}
