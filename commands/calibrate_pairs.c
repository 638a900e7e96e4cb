/* lockstep calibrate --pairs: rates between any two hosts, and which host or pair is slow. */
#include "commands/calibrate.h"

#include "base/array.h"
#include "base/units.h"
#include "profiler/analysis/hops.h"
#include "runtime/comm/comm.h"
#include "runtime/probe/probe.h"
#include "sim/calibration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS_MOST = 64 };

/* ---- Members ---- */

/* Each rank tells this of itself. */
struct card {
    char host[120];
    int32_t local_rank, zero;
};

/* One rank a host; on one host all ranks. */
struct members {
    int rank[PAIRS_MOST];
    char name[PAIRS_MOST][128]; /* hosts; where these are not told apart by name, ranks */
    bool hosts;                 /* the names are those of hosts */
    size_t n;
};

static enum lk_status read_cards(const struct lk_rank_env *env, struct lk_comm *comm,
                                 struct card **out)
{
    struct card mine = {.local_rank = env->local_rank};
    enum lk_status st = LK_OK;
    struct card *all = NULL;

    if (gethostname(mine.host, sizeof mine.host - 1))
        snprintf(mine.host, sizeof mine.host, "rank %d", env->rank);
    LK_TRY(lk_alloc(&all, (size_t)env->world_size, sizeof *all));
    LK_TRY(lk_comm_gather(comm, LK_U8, &mine, sizeof mine, all));
    *out = all;
    all = NULL;
out:
    free(all);
    return st;
}

static enum lk_status find_members(const struct lk_rank_env *env, const struct card *cards,
                                   struct members *m)
{
    *m = (struct members){.hosts = env->nodes > 1};
    for (int r = 0; r < env->world_size; r++) {
        if (env->nodes > 1 && cards[r].local_rank)
            continue;
        if (m->n == PAIRS_MOST)
            return lk_fail(
                LK_EUSAGE,
                "--pairs: more than %d hosts: measure them in parts, each with some that "
                "another part has, too",
                PAIRS_MOST);
        for (size_t k = 0; k < m->n; k++)
            m->hosts = m->hosts && strcmp(cards[m->rank[k]].host, cards[r].host) != 0;
        m->rank[m->n++] = r;
    }
    for (size_t k = 0; k < m->n; k++)
        if (m->hosts)
            snprintf(m->name[k], sizeof m->name[k], "%.119s", cards[m->rank[k]].host);
        else
            snprintf(m->name[k], sizeof m->name[k], "rank %d", m->rank[k]);
    return LK_OK;
}

/* ---- The cluster file ---- */

static enum lk_status add_pair(const struct lk_probe_pairs *p, const struct members *m, size_t from,
                               size_t to, double *rates, struct lk_cluster *c)
{
    struct lk_cluster_pair *pair = &c->pairs[c->n_pairs];
    struct lk_estimate e;
    size_t n = 0;

    for (size_t i = p->warmup; i < p->n; i++) {
        double Bps = p->Bps[(i * m->n + from) * m->n + to];

        if (Bps > 0)
            rates[n++] = Bps;
    }
    if (!n)
        return LK_OK;
    LK_PASS(lk_calibration_median(rates, n, from * m->n + to, &e));
    *pair = (struct lk_cluster_pair){.bandwidth_Bps = lk_quantity_none()};
    c->n_pairs++;
    LK_PASS(lk_strdup(&pair->from, m->name[from]));
    LK_PASS(lk_strdup(&pair->to, m->name[to]));
    return lk_quantity_set(&pair->bandwidth_Bps, e.value, e.lo, e.hi, e.n,
                           "calibrate --pairs: over TCP");
}

static enum lk_status add_pairs(const struct lk_probe_pairs *p, const struct members *m,
                                struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    double *rates = NULL;

    LK_TRY(lk_alloc(&rates, p->n, sizeof *rates));
    LK_TRY(lk_alloc(&c->pairs, m->n * m->n, sizeof *c->pairs));
    for (size_t from = 0; from < m->n; from++)
        for (size_t to = 0; to < m->n; to++)
            if (from != to)
                LK_TRY(add_pair(p, m, from, to, rates, c));
out:
    free(rates);
    return st;
}

/* ---- The verdict ---- */

/* Make hops of the pairs, with the members as ends. */
static enum lk_status hops_of(const struct lk_probe_pairs *p, size_t n, struct lk_run_hops *h)
{
    LK_PASS(lk_alloc(&h->hops, n * n, sizeof *h->hops));
    LK_PASS(lk_alloc(&h->rates, p->n * n * n, sizeof *h->rates));
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++) {
            struct lk_run_hop x = {from, to, from, to, {0}};

            for (size_t i = p->warmup; i < p->n && from != to; i++) {
                double Bps = p->Bps[(i * n + from) * n + to];

                h->rates[(i - p->warmup) * n * (n - 1) + h->n] = Bps;
                x.sum[LK_HOP_BYTES] += 1;
                x.sum[LK_HOP_BUSY] += 1 / Bps;
            }
            if (from != to)
                h->hops[h->n++] = x;
        }
    h->n_steps = p->n - p->warmup;
    return LK_OK;
}

static enum lk_status say_slow(const struct lk_run_hops *h, const struct members *m,
                               const struct lk_slow_link *x, struct calibrate_pairs *out)
{
    const struct lk_run_hop *hop = &h->hops[x->pair ? x->at : 0];
    char rate[32], others[32];

    (void)lk_units_format(LK_DIM_RATE, x->rate_Bps, rate, sizeof rate);
    (void)lk_units_format(LK_DIM_RATE, x->others_Bps, others, sizeof others);
    LK_PASS(lk_text_add(&out->slow, "%s%s%s%s %s, %.0f %% of the other pairs' median, %s",
                        out->slow ? "; " : "", m->name[x->pair ? hop->from : x->at],
                        x->pair ? " -> " : "", x->pair ? m->name[hop->to] : " to and from all",
                        rate, 100 * x->rate_Bps / x->others_Bps, others));
    return x->pair || !m->hosts
               ? LK_OK
               : lk_text_add(&out->exclude, "%s%s", out->exclude ? "," : "", m->name[x->at]);
}

static enum lk_status judge(const struct lk_probe_pairs *p, const struct members *m,
                            struct calibrate_pairs *out)
{
    struct lk_hop_excuse *none = NULL;
    struct lk_slow_link *found = NULL;
    struct lk_run_hops h = {0};
    enum lk_status st = LK_OK;
    size_t n;

    LK_TRY(hops_of(p, m->n, &h));
    LK_TRY(lk_alloc(&none, m->n, sizeof *none));
    LK_TRY(lk_alloc(&found, 2 * h.n, sizeof *found));
    LK_TRY(lk_run_hops_slow(&h, none, found, &n));
    out->few = h.n > 2 && !lk_run_hops_suffice(&h) ? h.n_steps : 0;
    for (size_t i = 0; i < n; i++)
        LK_TRY(say_slow(&h, m, &found[i], out));
out:
    lk_run_hops_fini(&h);
    free(found);
    free(none);
    return st;
}

void calibrate_pairs_fini(struct calibrate_pairs *p)
{
    free(p->slow);
    free(p->exclude);
    *p = (struct calibrate_pairs){0};
}

enum lk_status calibrate_pairs(const struct calibrate_options *o, const struct lk_rank_env *env,
                               struct lk_store *store, struct lk_cluster *c,
                               struct calibrate_pairs *out)
{
    const struct lk_comm_config config = {.rank = env->rank,
                                          .world_size = env->world_size,
                                          .store = store,
                                          .timeout_ns = lk_ns_from_s(o->timeout_s)};
    struct lk_probe_pairs_config probe = {.bytes = o->pair_bytes,
                                          .effort.repetitions = (size_t)o->repetitions,
                                          .effort.warmup = (size_t)o->warmup,
                                          .effort.budget_s = o->budget_s / 2};
    struct lk_probe_pairs pairs = {0};
    struct lk_comm *comm = NULL;
    struct card *cards = NULL;
    enum lk_status st = LK_OK;
    struct members m;

    LK_TRY(lk_comm_open("tcp", &config, &comm));
    LK_TRY(read_cards(env, comm, &cards));
    LK_TRY(find_members(env, cards, &m));
    probe.members = m.rank;
    probe.n_members = m.n;
    calibrate_announce(env, 0, 0, "pairs");
    LK_TRY(lk_probe_pairs(comm, &probe, &pairs));
    if (env->rank != 0 || pairs.n <= pairs.warmup)
        goto out;
    LK_TRY(add_pairs(&pairs, &m, c));
    out->n = m.n;
    out->network = env->nodes > 1;
    if (out->network)
        LK_TRY(judge(&pairs, &m, out));
out:
    lk_probe_pairs_fini(&pairs);
    lk_comm_close(comm);
    free(cards);
    return st;
}

enum lk_status calibrate_pairs_say(const struct calibrate_pairs *p, struct lk_page *page)
{
    if (!p->n)
        return LK_OK;
    if (!p->network)
        return lk_page_say(page, "All pairs are on one host: no link between hosts was measured.");
    if (!p->slow && p->few)
        return lk_page_say(page,
                           "%zu repetition%s too few to tell whether a pair of %zu hosts is slow: "
                           "--repetitions, --budget.",
                           p->few, p->few == 1 ? " is" : "s are", p->n);
    if (!p->slow)
        return p->n > 2 ? lk_page_say(page, "No host and no pair of %zu hosts is slow.", p->n)
                        : lk_page_say(page, "The links of two hosts have no other to be compared "
                                            "with.");
    LK_PASS(lk_page_say(page, "Slow: %s.", p->slow));
    return p->exclude ? lk_page_next(page, "without it (Slurm): --exclude=%s", p->exclude) : LK_OK;
}
