/* lockstep analyze: a run's collectives beside the same ones outside of it, by a cluster's costs.
 */
#include "base/array.h"
#include "commands/analyze_impl.h"
#include "commands/inputs.h"
#include "facts/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum lk_status analyze_alone_init(struct alone *a, const char *cluster)
{
    *a = (struct alone){0};
    if (!cluster)
        return LK_OK;
    LK_PASS(find_cluster(cluster, &a->cluster));
    return lk_cost_model_create(&a->cluster, NULL, NULL, &a->cost);
}

void analyze_alone_fini(struct alone *a)
{
    lk_cost_model_destroy(a->cost);
    lk_cluster_fini(&a->cluster);
}

/* Return true if a bucket's collective is one of all ranks that cluster files have. */
static bool is_priced(const struct lk_analysis_bucket *b, const struct lk_run_info *info)
{
    return b->bytes && b->coll < LK_BARRIER && b->ranks == info->world_size;
}

/* Return true if a run's ranks are surely of another kind of machine than the cluster's. */
static bool is_elsewhere(const struct alone *alone, const struct lk_run_info *info)
{
    return !info->simulated &&
           lk_device_same(lk_run_info_on_host(info) ? "cpu" : info->device, alone->cluster.gpu) < 0;
}

/* Return what a bucket's collectives take where they queue as often as the job's. */
static double as_queued(const struct lk_cost *c, const struct lk_analysis_bucket *b)
{
    return c->seconds * (1 + b->queued * c->behind);
}

enum lk_status analyze_alone_compare(const struct alone *alone, struct lk_analysis *a)
{
    const struct lk_run_info *info = lk_run_about(a->run);
    enum lk_status st = LK_OK;
    double *alone_s = NULL;

    if (!alone->cost || info->world_size < 2 || lk_run_is_grouped(a->run) ||
        is_elsewhere(alone, info))
        return LK_OK;
    LK_TRY(lk_alloc(&alone_s, a->n_buckets, sizeof *alone_s));
    for (size_t i = 0; i < a->n_buckets; i++) {
        struct lk_cost c = {.seconds = NAN};

        if (a->buckets[i].bucket >= 0 && is_priced(&a->buckets[i], info))
            LK_TRY(lk_cost_eval(alone->cost, a->buckets[i].coll, LK_ALGO_AUTO, info->world_size,
                                info->nodes, &a->buckets[i].bytes, 1, &c));
        alone_s[i] = as_queued(&c, &a->buckets[i]);
    }
    LK_TRY(lk_analysis_set_alone(a, alone->cluster.name, alone_s));
out:
    free(alone_s);
    return st;
}

/* ---- By size ---- */

/* A row: what the job's collectives of a bucket take, and the same one alone and right behind
 * another. Rates are bus bandwidths. */
#define BESIDE_COLUMNS(X)                                                                          \
    X("collective", "collective", LK_DIM_NONE, -1, lk_coll_name(b->coll))                          \
    X("bucket", "bucket", LK_DIM_NONE, -1, b->bucket >= 0 ? (double)b->bucket : NAN)               \
    X("bytes", "size", LK_DIM_BYTES, -1, (double)b->bytes)                                         \
    X("n", "n", LK_DIM_NONE, -1, (double)b->n)                                                     \
    X("wait_s", "wait", LK_DIM_TIME, -1, b->wait_s)                                                \
    X("wire_s", "wire", LK_DIM_TIME, -1, b->wire_s)                                                \
    X("alone_s", "alone", LK_DIM_TIME, -1, c.seconds)                                              \
    X("alone_lo_s", "from", LK_DIM_TIME, -1, c.lo)                                                 \
    X("alone_hi_s", "to", LK_DIM_TIME, -1, c.hi)                                                   \
    X("behind_s", "behind", LK_DIM_TIME, -1, c.behind > 0 ? c.seconds * (1 + c.behind) : NAN)      \
    X("queued", "queued", LK_DIM_NONE, 2, b->queued)                                               \
    X("times_alone", "times", LK_DIM_NONE, 2, b->wire_s / as_queued(&c, b))                        \
    X("busbw_Bps", "busbw", LK_DIM_RATE, -1, (double)b->bytes *factor / b->wire_s)                 \
    X("alone_busbw_Bps", "alone", LK_DIM_RATE, -1, (double)b->bytes *factor / c.seconds)           \
    X("evidence", "evidence", LK_DIM_NONE, -1, lk_evidence_name(c.evidence))

static enum lk_status add_beside(const struct alone *alone, const struct lk_analysis *a,
                                 const struct lk_analysis_bucket *b, struct lk_table *t)
{
    const struct lk_run_info *info = lk_run_about(a->run);
    enum lk_status st = LK_OK;
    struct lk_cost c = {.seconds = NAN, .lo = NAN, .hi = NAN, .evidence = LK_EVIDENCE_NONE};
    double factor;

    if (!is_priced(b, info))
        return LK_OK;
    factor = lk_coll_busbw_factor(b->coll, b->ranks);
    st = lk_cost_eval(alone->cost, b->coll, LK_ALGO_AUTO, info->world_size, info->nodes, &b->bytes,
                      1, &c);
    if (st == LK_EEVIDENCE)
        st = LK_OK;
    LK_TRY(st);
    LK_TRY(lk_table_row(t));
    BESIDE_COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status analyze_alone_table(const struct alone *alone, const struct lk_analysis *a,
                                   struct lk_table **out)
{
    static const struct lk_column columns[] = {BESIDE_COLUMNS(LK_TABLE_COLUMN)};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    *out = NULL;
    if (!alone->cost || lk_run_about(a->run)->world_size < 2 || lk_run_is_grouped(a->run))
        return LK_OK;
    LK_TRY(lk_table_create("The job's collectives beside the same ones alone", columns,
                           LK_COUNT(columns), &t));
    for (size_t i = 0; i < a->n_buckets; i++)
        LK_TRY(add_beside(alone, a, &a->buckets[i], t));
    LK_TRY(lk_table_note(t,
                         "wire: after all have arrived; alone: as %s has it, measured, or by "
                         "its evidence; behind: right behind another, as queued ones are; times: "
                         "wire beside both, as often as the job's queue",
                         alone->cluster.name));
    if (is_elsewhere(alone, lk_run_about(a->run)))
        LK_TRY(lk_table_note(t,
                             "the run is of another machine (%s) than %s (%s): what is longer here "
                             "is not what training makes longer",
                             lk_run_about(a->run)->device, alone->cluster.name,
                             alone->cluster.gpu));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
