/* Results that several commands write; see the header. */
#include "commands/output.h"

#include "base/array.h"
#include "base/file.h"
#include "reports/print.h"
#include "sim/collective/alpha_beta_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum lk_status forecast_write(const struct lk_forecast *f, const char *out, const char *csv)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    if (out)
        LK_TRY(lk_forecast_write(out, f));
    if (csv) {
        LK_TRY(lk_forecast_csv_table(f, &t));
        LK_TRY(lk_report_table(t, LK_FORMAT_CSV, csv));
    }
out:
    lk_table_destroy(t);
    return st;
}

enum lk_status check_writable(const char *path)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;
    struct stat s;

    if (stat(path, &s) || S_ISREG(s.st_mode) || S_ISDIR(s.st_mode))
        st = lk_writer_open(path, false, &w);
    lk_writer_abandon(w);
    return st;
}

/* ---- A cluster file ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define POINTS(X)                                                                                  \
    X("collective", "collective", LK_DIM_NONE,  -1, lk_coll_name(p->coll))                         \
    X("algorithm",  "algorithm",  LK_DIM_NONE,  -1, lk_algo_name(p->algo))                         \
    X("timing",     "timing",     LK_DIM_NONE,  -1, lk_timing_words.names[p->timing])              \
    X("ranks",      "ranks",      LK_DIM_NONE,  -1, p->ranks)                                      \
    X("bytes",      "size",       LK_DIM_BYTES, -1, (double)p->bytes)                              \
    X("time_s",     "time",       LK_DIM_TIME,  -1, p->time_s.value)                               \
    X("lo_s",       "from",       LK_DIM_TIME,  -1, p->time_s.lo)                                  \
    X("hi_s",       "to",         LK_DIM_TIME,  -1, p->time_s.hi)                                  \
    X("algbw_Bps",  "algbw",      LK_DIM_RATE,  -1, rate)                                          \
    X("busbw_Bps",  "busbw",      LK_DIM_RATE,  -1, rate * lk_coll_busbw_factor(p->coll, p->ranks)) \
    X("n",          "n",          LK_DIM_NONE,  -1, (double)p->time_s.n)
#define FITS(X)                                                                                    \
    X("collective",    "collective",   LK_DIM_NONE, -1, lk_coll_name(f->coll))                     \
    X("algorithm",     "algorithm",    LK_DIM_NONE, -1, lk_algo_name(f->algo))                     \
    X("launch_s",      "launch",       LK_DIM_TIME, -1, f->launch_s.value)                         \
    X("alpha_s",       "a hop",        LK_DIM_TIME, -1, f->alpha_s.value)                          \
    X("bandwidth_Bps", "bandwidth",    LK_DIM_RATE, -1, f->bandwidth_Bps.value)                    \
    X("error_percent", "rms error, %", LK_DIM_NONE, 1,  100 * f->error.value)
#define EFFECTS(X)                                                                                 \
    X("key",    "key",         LK_DIM_NONE, LK_TABLE_DATA, key)                                    \
    X("ranks",  "ranks",       LK_DIM_NONE, LK_TABLE_DATA, ranks)                                  \
    X("effect", "effect",      LK_DIM_NONE, -1, text)                                              \
    X("value",  "value",       LK_DIM_NONE, LK_TABLE_PERCENT, q->value)                            \
    X("lo",     "from",        LK_DIM_NONE, LK_TABLE_PERCENT, q->lo)                               \
    X("hi",     "to",          LK_DIM_NONE, LK_TABLE_PERCENT, q->hi)                               \
    X("source", "measured by", LK_DIM_NONE, -1, q->source)

static const struct lk_column point_columns[] = {POINTS(LK_TABLE_COLUMN)};
static const struct lk_column fit_columns[] = {FITS(LK_TABLE_COLUMN)};
static const struct lk_column effect_columns[] = {EFFECTS(LK_TABLE_COLUMN)};
/* clang-format on */

enum lk_status cluster_point_table(const struct lk_cluster *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t;

    LK_TRY(lk_table_create("Collectives: median of n samples, 90 % interval", point_columns,
                           LK_COUNT(point_columns), out));
    t = *out;
    for (const struct lk_cluster_point *p = c->points; p < c->points + c->n_points; p++) {
        double rate = (double)p->bytes / p->time_s.value;

        LK_TRY(lk_table_row(t));
        POINTS(LK_TABLE_CELL)
    }
    LK_TRY(lk_table_note(t, "alone: from the last rank's arrival; back_to_back: one collective "
                            "of a burst. busbw is algbw times nccl-tests' factor"));
out:
    return st;
}

/* Return the most points of a collective and algorithm between nodes of several GPUs. */
static int most_between_nodes(const struct lk_cluster *c)
{
    int n[LK_COLL_MODELLED][LK_ALGO_COUNT] = {{0}}, most = 0;

    for (const struct lk_cluster_point *p = c->points; p < c->points + c->n_points; p++)
        if (p->nodes > 1 && p->ranks > p->nodes && ++n[p->coll][p->algo] > most)
            most = n[p->coll][p->algo];
    return most;
}

enum lk_status cluster_fit_table(const struct lk_cluster *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t;

    LK_TRY(lk_table_create("Fits: launch + hops x a hop + bytes on the wire / bandwidth",
                           fit_columns, LK_COUNT(fit_columns), out));
    t = *out;
    for (const struct lk_cluster_fit *f = c->fits; f < c->fits + c->n_fits; f++) {
        LK_TRY(lk_table_row(t));
        FITS(LK_TABLE_CELL)
    }
    if (!c->n_fits && most_between_nodes(c) >= LK_ALPHA_BETA_FIT_POINTS_MIN)
        LK_TRY(lk_table_note(t,
                             "none: a fit between nodes of several GPUs needs one inside a node, "
                             "of the same collective and algorithm; forecasts use the points"));
    else if (!c->n_fits)
        LK_TRY(lk_table_note(t, "none: a fit needs %d sizes of a collective and algorithm",
                             (int)LK_ALPHA_BETA_FIT_POINTS_MIN));
out:
    return st;
}

/* ranks: NaN, or of which number of ranks the row is. */
static enum lk_status effect_row(struct lk_table *t, const struct lk_quantity *q, const char *key,
                                 double ranks, const char *text)
{
    enum lk_status st = LK_OK;

    if (!lk_quantity_known(q))
        return LK_OK;
    LK_TRY(lk_table_row(t));
    EFFECTS(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status cluster_effect_table(const struct lk_cluster *c, struct lk_table **out)
{
    const struct {
        const struct lk_quantity *quantity;
        const char *key, *text;
    } rows[] = {
        {&c->gamma_wait, "gamma_wait", "compute slows while a collective waits, by"},
        {&c->gamma_wire, "gamma_wire", "compute slows while a collective moves, by"},
        {&c->delta, "delta", "a collective slows beside compute, by"},
        {&c->rank_sd, "rank_sd", "ranks differ by (standard deviation)"},
        {&c->transient_sd, "transient_sd", "a rank varies from time to time by"},
        {&c->common_sd, "common_sd", "all ranks vary together by"},
        {&c->tail_share, "tail_share", "micro-batches that take much longer"},
        {&c->tail_scale, "tail_scale", "these take longer on average by"},
    };

    LK_PASS(lk_table_create("How ranks slow each other, relative", effect_columns,
                            LK_COUNT(effect_columns), out));
    for (size_t i = 0; i < c->n_kappa; i++) {
        char text[64];

        snprintf(text, sizeof text, "compute slows when %d ranks share the node, by",
                 c->kappa[i].ranks);
        LK_PASS(effect_row(*out, &c->kappa[i].kappa, "kappa", c->kappa[i].ranks, text));
    }
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        LK_PASS(effect_row(*out, rows[i].quantity, rows[i].key, NAN, rows[i].text));
    return LK_OK;
}
