/* Findings about links: which host or pair of hosts is slow, by the rates of the hops. */
#include "base/array.h"
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/hops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_busy(const struct lk_analysis *a, size_t rank)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].id == LK_FINDING_HOST_BUSY && a->findings[i].host &&
            !strcmp(a->findings[i].host, a->run->traces[rank].info.host))
            return true;
    return false;
}

/* Return whether a rank is late by its own work: by arriving last, or, where another one is later
 * still, by what its own durations say. */
static bool is_late(const struct lk_analysis *a, size_t rank)
{
    const struct lk_analysis_rank *r = &a->ranks[rank];

    for (size_t i = 0; i < a->n_findings; i++) {
        const struct lk_finding *f = &a->findings[i];

        if (f->rank == (int)rank &&
            (f->id == LK_FINDING_SLOW_RANK || f->id == LK_FINDING_RANK_INPUT ||
             f->id == LK_FINDING_RANK_LAUNCH))
            return true;
    }
    return (double)r->n_late * r->own_late_s / (double)a->run->n_steps >=
           LK_FINDING_LOSS_SHARE * a->step_s;
}

/* Fill an excuse a rank. Hosts that are all busy are alike: that excuses none. */
static void find_excuses(const struct lk_analysis *a, struct lk_hop_excuse *out)
{
    size_t n = a->run->n, busy = 0;

    for (size_t k = 0; k < n; k++) {
        out[k] = (struct lk_hop_excuse){.late = is_late(a, k), .busy = is_busy(a, k)};
        busy += out[k].busy;
    }
    for (size_t k = 0; k < n; k++)
        out[k].busy = out[k].busy && busy < n;
}

/* "host node2", or a rank where hosts have no names of their own. */
static struct lk_rank_text end_text(const struct lk_analysis *a, size_t rank)
{
    struct lk_rank_text t = lk_rank_text_(a, rank);

    if (strchr(t.buf, '('))
        snprintf(t.buf, sizeof t.buf, "host %s", a->run->traces[rank].info.host);
    return t;
}

static enum lk_status add(struct lk_analysis *a, const struct lk_run_hops *h,
                          const struct lk_slow_link *x, double cost)
{
    const struct lk_run_hop *hop = &h->hops[x->pair ? x->at : 0];
    char rate[32], others[32], where[256];

    (void)lk_units_format(LK_DIM_RATE, x->rate_Bps, rate, sizeof rate);
    (void)lk_units_format(LK_DIM_RATE, x->others_Bps, others, sizeof others);
    if (x->pair)
        snprintf(where, sizeof where, "%s -> %s moves %s", lk_rank_text_(a, hop->from).buf,
                 lk_rank_text_(a, hop->to).buf, rate);
    else
        snprintf(where, sizeof where, "%s moves %s at the least, to and from it",
                 end_text(a, x->at).buf, rate);
    LK_PASS(lk_finding_add_(
        a, LK_FINDING_SLOW_LINK, -1, cost,
        "slow link: %s while busy, %.0f %% of the other hops' median, %s, and less in %zu of %zu "
        "steps%s",
        where, 100 * x->rate_Bps / x->others_Bps, others, x->n_below, h->n_steps,
        x->pair ? ": the sender's side, the path or the receiver's side" : ""));
    if (!x->pair && strchr(lk_rank_text_(a, x->at).buf, '('))
        a->findings[a->n_findings - 1].host = a->run->traces[x->at].info.host;
    return LK_OK;
}

static bool is_of(const struct lk_run_hops *h, size_t hop, const struct lk_slow_link *x)
{
    return x->pair ? x->at == hop : h->hops[hop].from_end == x->at || h->hops[hop].to_end == x->at;
}

/* Return the rate of the slowest hop that is of none of the slow ends and pairs, at most the
 * others' median. */
static double rate_when_mended(const struct lk_run_hops *h, const struct lk_slow_link *found,
                               size_t n)
{
    double least = found[n - 1].others_Bps;

    for (size_t k = 0; k < h->n; k++) {
        bool slow = false;

        for (size_t i = 0; i < n; i++)
            slow = slow || is_of(h, k, &found[i]);
        if (!slow)
            least = fmin(least, lk_run_hop_rate(&h->hops[k]));
    }
    return fmax(least, found[n - 1].rate_Bps);
}

/*
 * Report slow hosts and pairs. The slowest hop sets a ring's pace: mending it wins until the next
 * slower one does. Of the communication that compute does not cover, and the waits for ranks whose
 * collectives end late, that is its share.
 */
static enum lk_status report(struct lk_analysis *a, const struct lk_run_hops *h,
                             const struct lk_slow_link *found, size_t n)
{
    double inherited = a->late.lag_s > 0 ? 1 - a->late.own_s / a->late.lag_s : 0;
    double base = fmax(0, lk_exposed_wire_(a)) +
                  inherited * (lk_knows_waits_(a) ? a->losses_s[LK_LOSS_STRAGGLER] : 0);

    for (size_t i = 0; i < n; i++) {
        double next = i + 1 < n ? found[i + 1].rate_Bps : rate_when_mended(h, found, n);
        double won = found[0].rate_Bps / found[i].rate_Bps - found[0].rate_Bps / next;

        LK_PASS(add(a, h, &found[i], a->exposure_known ? base * won : NAN));
    }
    return LK_OK;
}

enum lk_status lk_find_slow_links_(struct lk_analysis *a)
{
    struct lk_slow_link *found = NULL;
    struct lk_run_hops h = {0};
    enum lk_status st = LK_OK;
    struct lk_hop_excuse *excuses = NULL;
    size_t n = 0;

    LK_TRY(lk_run_hops_read(a->run, &h));
    if (h.n < 3)
        goto out;
    LK_TRY(lk_alloc(&excuses, a->run->n, sizeof *excuses));
    find_excuses(a, excuses);
    LK_TRY(lk_alloc(&found, 2 * h.n, sizeof *found));
    LK_TRY(lk_run_hops_slow(&h, excuses, found, &n));
    LK_TRY(report(a, &h, found, n));
out:
    free(found);
    free(excuses);
    lk_run_hops_fini(&h);
    return st;
}

static bool has_hops(const struct lk_trace *t)
{
    for (size_t i = 0; i < t->n_names; i++)
        if (!strcmp(t->names[i], lk_hop_value_name(LK_HOP_BYTES)))
            return true;
    return false;
}

const char *lk_links_known_(const struct lk_analysis *a)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].id == LK_FINDING_SLOW_LINK)
            return "a slow link does";
    for (size_t k = 0; k < a->run->n; k++)
        if (has_hops(&a->run->traces[k]))
            return "some link is slow, and the rates of the hops do not tell which";
    if (!strcmp(a->run->traces[0].info.comm, "nccl"))
        return "some link is slow, and which is not recorded: lockstep profile --with=preload does "
               "with LOCKSTEP_PROFILE_LINKS=1";
    return "some link is slow, and which is not recorded";
}
