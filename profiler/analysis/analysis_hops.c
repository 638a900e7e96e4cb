/* The table of a run's hops: what each carried, and its rate beside the others'. */
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/hops.h"

#include "base/array.h"
#include "base/stats.h"

#include <stdlib.h>

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define HOPS(X)                                                                                    \
    X("from",      "from rank",      LK_DIM_NONE,  -1, lk_run_rank(a->run, hop->from))             \
    X("from_host", "host",           LK_DIM_NONE,  -1,                                             \
      (const char *)a->run->traces[hop->from].info.host)                                           \
    X("to",        "to rank",        LK_DIM_NONE,  -1, lk_run_rank(a->run, hop->to))               \
    X("to_host",   "host",           LK_DIM_NONE,  -1,                                             \
      (const char *)a->run->traces[hop->to].info.host)                                             \
    X("bytes",     "bytes a step",   LK_DIM_BYTES, 0,  hop->sum[LK_HOP_BYTES] / n)                 \
    X("busy_s",    "busy",           LK_DIM_TIME,  0,  hop->sum[LK_HOP_BUSY] / n)                  \
    X("full_s",    "receiver full",  LK_DIM_TIME,  0,  hop->sum[LK_HOP_RECEIVER] / n)              \
    X("rate_Bps",  "rate",           LK_DIM_RATE,  0,  lk_run_hop_rate(hop))                       \
    X("of_median", "of median",      LK_DIM_NONE,  LK_TABLE_PERCENT,                               \
      lk_run_hop_rate(hop) / median_Bps)

static const struct lk_column columns[] = {HOPS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status fill(const struct lk_analysis *a, const struct lk_run_hops *h,
                           double median_Bps, struct lk_table *t)
{
    const double n = (double)a->run->n_timed;
    enum lk_status st = LK_OK;

    for (const struct lk_run_hop *hop = h->hops; hop < h->hops + h->n; hop++) {
        LK_TRY(lk_table_row(t));
        HOPS(LK_TABLE_CELL)
    }
    LK_TRY(lk_table_note(t, "rate: bytes over the time in which something was on its way and the "
                            "receiver had room; hops with less than a tenth of the bytes of the "
                            "one with most are left out"));
out:
    return st;
}

enum lk_status lk_analysis_hops_(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_run_hops h = {0};
    struct lk_table *t = NULL;
    double *rates = NULL;

    *out = NULL;
    LK_TRY(lk_run_hops_read(a->run, &h));
    if (!h.n)
        goto out;
    LK_TRY(lk_alloc(&rates, h.n, sizeof *rates));
    for (size_t k = 0; k < h.n; k++)
        rates[k] = lk_run_hop_rate(&h.hops[k]);
    LK_TRY(lk_analysis_create_(a, "Hops between hosts", columns, LK_COUNT(columns), &t));
    LK_TRY(fill(a, &h, lk_stats_median(rates, h.n), t));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    free(rates);
    lk_run_hops_fini(&h);
    return st;
}
