/* What a cluster file has of collectives, as tables. */
#include "commands/cluster_table.h"

#include "base/array.h"
#include "sim/coll_fit.h"

static const struct lk_column point_columns[] = {
    {"collective", "collective", LK_DIM_NONE,  -1},
    {"algorithm",  "algorithm",  LK_DIM_NONE,  -1},
    {"timing",     "timing",     LK_DIM_NONE,  -1},
    {"ranks",      "ranks",      LK_DIM_NONE,  -1},
    {"bytes",      "size",       LK_DIM_BYTES, -1},
    {"time_s",     "time",       LK_DIM_TIME,  -1},
    {"lo_s",       "from",       LK_DIM_TIME,  -1},
    {"hi_s",       "to",         LK_DIM_TIME,  -1},
    {"algbw_Bps",  "algbw",      LK_DIM_RATE,  -1},
    {"busbw_Bps",  "busbw",      LK_DIM_RATE,  -1},
    {"n",          "n",          LK_DIM_NONE,  -1},
};

static enum lk_status point_row(struct lk_table *t, const struct lk_cluster_point *p)
{
    enum lk_status st = LK_OK;
    double rate = (double)p->bytes / p->time_s.value;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "collective", "%s", lk_coll_name(p->coll)));
    LK_TRY(lk_table_text(t, "algorithm", "%s", lk_algo_name(p->algo)));
    LK_TRY(lk_table_text(t, "timing", "%s", lk_timing_names[p->timing]));
    LK_TRY(lk_table_number(t, "ranks", p->ranks));
    LK_TRY(lk_table_number(t, "bytes", (double)p->bytes));
    LK_TRY(lk_table_number(t, "time_s", p->time_s.value));
    LK_TRY(lk_table_number(t, "lo_s", p->time_s.lo));
    LK_TRY(lk_table_number(t, "hi_s", p->time_s.hi));
    LK_TRY(lk_table_number(t, "algbw_Bps", rate));
    LK_TRY(lk_table_number(t, "busbw_Bps", rate * lk_coll_busbw_factor(p->coll, p->ranks)));
    LK_TRY(lk_table_number(t, "n", (double)p->time_s.n));
out:
    return st;
}

enum lk_status cluster_point_table(const struct lk_cluster *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_create("Collectives: median of n samples, 90 % interval", point_columns,
                           LK_COUNT(point_columns), out));
    for (size_t i = 0; i < c->n_points; i++)
        LK_TRY(point_row(*out, &c->points[i]));
    LK_TRY(lk_table_note(*out, "alone: from the last rank's arrival; back_to_back: a call of a "
                               "burst. busbw is algbw times nccl-tests' factor"));
out:
    return st;
}

static const struct lk_column fit_columns[] = {
    {"collective",    "collective",   LK_DIM_NONE, -1},
    {"algorithm",     "algorithm",    LK_DIM_NONE, -1},
    {"launch_s",      "launch",       LK_DIM_TIME, -1},
    {"alpha_s",       "a hop",        LK_DIM_TIME, -1},
    {"bandwidth_Bps", "bandwidth",    LK_DIM_RATE, -1},
    {"error_percent", "rms error, %", LK_DIM_NONE, 1 },
};

enum lk_status cluster_fit_table(const struct lk_cluster *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_create("Fits: launch + hops x a hop + bytes on the wire / bandwidth",
                           fit_columns, LK_COUNT(fit_columns), out));
    for (size_t i = 0; i < c->n_fits; i++) {
        const struct lk_cluster_fit *f = &c->fits[i];

        LK_TRY(lk_table_row(*out));
        LK_TRY(lk_table_text(*out, "collective", "%s", lk_coll_name(f->coll)));
        LK_TRY(lk_table_text(*out, "algorithm", "%s", lk_algo_name(f->algo)));
        LK_TRY(lk_table_number(*out, "launch_s", f->launch_s.value));
        LK_TRY(lk_table_number(*out, "alpha_s", f->alpha_s.value));
        LK_TRY(lk_table_number(*out, "bandwidth_Bps", f->bandwidth_Bps.value));
        LK_TRY(lk_table_number(*out, "error_percent", 100 * f->error.value));
    }
    if (!c->n_fits)
        LK_TRY(lk_table_note(*out, "none: a fit needs %d sizes of a collective and algorithm",
                             (int)LK_COLL_FIT_POINTS_MIN));
out:
    return st;
}
