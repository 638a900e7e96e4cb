/* Hops of a run and which are slow; see the header. Divisions: reading, judging. */
#include "profiler/analysis/hops.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

static double rate(const double *v)
{
    double busy = v[LK_HOP_BUSY] - v[LK_HOP_RECEIVER];

    return v[LK_HOP_BYTES] > 0 && busy > 0 ? v[LK_HOP_BYTES] / busy : NAN;
}

double lk_run_hop_rate(const struct lk_run_hop *h)
{
    return rate(h->sum);
}

/* Map the trace's names to values of a hop; LK_HOP_VALUES: none. out[id - 1]. Return whether there
 * are any. */
static bool find_names(const struct lk_trace *t, int *out)
{
    bool any = false;

    for (size_t i = 0; i < t->n_names; i++) {
        out[i] = LK_HOP_VALUES;
        for (int k = 0; k < LK_HOP_VALUES; k++)
            if (!strcmp(t->names[i], lk_hop_value_name((enum lk_hop_value)k)))
                out[i] = k;
        any = any || out[i] < LK_HOP_VALUES;
    }
    return any;
}

static size_t index_of_rank(const struct lk_run *run, int rank)
{
    size_t k = 0;

    while (k < run->n && lk_run_rank(run, k) != rank)
        k++;
    return k;
}

/* Return the first rank of a rank's host; where all hosts have one name, ranks that a network joins
 * are hosts of their own. */
static size_t end_of(const struct lk_run *run, size_t rank)
{
    const char *host = run->traces[rank].info.host;
    size_t first = run->n, others = 0;

    for (size_t k = 0; k < run->n; k++) {
        if (strcmp(host, run->traces[k].info.host) != 0)
            others++;
        else if (first == run->n)
            first = k;
    }
    return others ? first : rank;
}

/* Hops as they are found, with what was sent in each step: n rows of n_steps * LK_HOP_VALUES. */
struct reading {
    const struct lk_run *run;
    struct lk_run_hop *hops;
    double *steps;
    size_t n, hops_capacity, steps_capacity;
};

/* Find or make the hop between two ranks, among those of this sender, which are the last. */
static enum lk_status hop_of(struct reading *r, size_t first, size_t from, size_t to, size_t *out)
{
    const size_t per_hop = r->run->n_timed * LK_HOP_VALUES;

    for (*out = first; *out < r->n; ++*out)
        if (r->hops[*out].to == to)
            return LK_OK;
    LK_PASS(lk_array_grow(&r->hops, &r->hops_capacity, r->n + 1, sizeof *r->hops));
    LK_PASS(lk_array_grow(&r->steps, &r->steps_capacity, (r->n + 1) * per_hop, sizeof *r->steps));
    memset(&r->steps[r->n * per_hop], 0, per_hop * sizeof *r->steps);
    r->hops[r->n++] = (struct lk_run_hop){from, to, end_of(r->run, from), end_of(r->run, to), {0}};
    return LK_OK;
}

/* Read what a rank sent to others in each step. */
static enum lk_status read_rank(struct reading *r, size_t rank)
{
    const struct lk_run *run = r->run;
    const struct lk_trace *t = &run->traces[rank];
    const size_t first = r->n;
    enum lk_status st = LK_OK;
    int *names = NULL;
    bool any;

    LK_TRY(lk_alloc(&names, t->n_names + 1, sizeof *names));
    any = find_names(t, names);
    for (size_t i = 0; any && i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        size_t step = lk_steps_find(run->timed, run->n_timed, s->step), to, k;

        if (s->kind != LK_SPAN_COUNTER || !s->name || names[s->name - 1] == LK_HOP_VALUES ||
            step == run->n_timed || (to = index_of_rank(run, s->index)) == run->n)
            continue;
        LK_TRY(hop_of(r, first, rank, to, &k));
        r->steps[(k * run->n_timed + step) * LK_HOP_VALUES + (size_t)names[s->name - 1]] +=
            s->value;
        r->hops[k].sum[names[s->name - 1]] += s->value;
    }
out:
    free(names);
    return st;
}

/* Leave out the hops without a rate, and those that carry little: small messages are slow
 * everywhere. */
static void keep_hops(struct reading *r)
{
    const size_t per_hop = r->run->n_timed * LK_HOP_VALUES;
    double most = 0;
    size_t n = 0;

    for (size_t k = 0; k < r->n; k++)
        most = fmax(most, r->hops[k].sum[LK_HOP_BYTES]);
    for (size_t k = 0; k < r->n; k++) {
        if (!(lk_run_hop_rate(&r->hops[k]) > 0) ||
            r->hops[k].sum[LK_HOP_BYTES] < LK_HOP_MINOR * most)
            continue;
        memmove(&r->steps[n * per_hop], &r->steps[k * per_hop], per_hop * sizeof *r->steps);
        r->hops[n++] = r->hops[k];
    }
    r->n = n;
}

/* Keep the steps in which all hops have a rate. */
static void set_rates(struct lk_run_hops *h, const double *steps, size_t n_steps)
{
    for (size_t i = 0; i < n_steps; i++) {
        double *row = &h->rates[h->n_steps * h->n];
        bool all = true;

        for (size_t k = 0; k < h->n; k++) {
            row[k] = rate(&steps[(k * n_steps + i) * LK_HOP_VALUES]);
            all = all && row[k] > 0;
        }
        h->n_steps += all;
    }
}

enum lk_status lk_run_hops_read(const struct lk_run *run, struct lk_run_hops *out)
{
    struct reading r = {.run = run};
    struct lk_run_hops h = {0};
    enum lk_status st = LK_OK;

    for (size_t k = 0; k < run->n; k++)
        LK_TRY(read_rank(&r, k));
    keep_hops(&r);
    LK_TRY(lk_alloc(&h.rates, run->n_timed * r.n + 1, sizeof *h.rates));
    h.hops = r.hops;
    h.n = r.n;
    r.hops = NULL;
    set_rates(&h, r.steps, run->n_timed);
    *out = h;
out:
    free(r.hops);
    free(r.steps);
    return st;
}

void lk_run_hops_fini(struct lk_run_hops *h)
{
    free(h->hops);
    free(h->rates);
    *h = (struct lk_run_hops){0};
}

/* ---- Judging ---- */

struct judge {
    const struct lk_run_hops *h;
    bool *accused;  /* a hop of a slow end: no measure for others */
    bool *suspect;  /* the hops in question */
    double *others; /* room for the rates of the others */
};

/* Return the upper median of n numbers, which it sorts: half of the hops may be those of a slow
 * host. */
static double upper_median(double *v, size_t n)
{
    lk_stats_sort(v, n);
    return v[n / 2];
}

/* Collect the rates of the hops that are neither suspect nor accused, and the highest of the
 * suspects'. rates NULL: over all steps. */
static size_t collect(const struct judge *j, const double *rates, double *highest, double *lowest)
{
    size_t n = 0;

    *highest = 0;
    *lowest = INFINITY;
    for (size_t k = 0; k < j->h->n; k++) {
        double x = rates ? rates[k] : lk_run_hop_rate(&j->h->hops[k]);

        if (j->suspect[k]) {
            *highest = fmax(*highest, x);
            *lowest = fmin(*lowest, x);
        } else if (!j->accused[k]) {
            j->others[n++] = x;
        }
    }
    return n;
}

/*
 * Return the probability that, of n equal values, m given ones are all below the upper median of
 * the others: at most n_others / 2 of the others are below the highest of the m. In all C(n, m)
 * orders, C(i + m - 1, m - 1) have i of the others below it.
 */
static double chance_below(size_t n_others, size_t m)
{
    double ways = 1, sum = 0, all = 1;

    for (size_t i = 1; i <= m; i++)
        all *= (double)(n_others + i) / (double)i;
    for (size_t i = 0; i <= n_others / 2; i++) {
        sum += ways;
        ways *= (double)(i + m) / (double)(i + 1);
    }
    return sum / all;
}

bool lk_run_hops_suffice(const struct lk_run_hops *h)
{
    return h->n > 2 &&
           (double)h->n * pow(chance_below(h->n - 1, 1), (double)h->n_steps) < LK_HOP_CHANCE;
}

/* Judge the suspect hops, one of `of` sets that are judged: return whether they are slow. */
static bool judge(const struct judge *j, size_t of, struct lk_slow_link *out)
{
    double highest, lowest;
    size_t n = collect(j, NULL, &highest, &out->rate_Bps), m = 0;

    for (size_t k = 0; k < j->h->n; k++)
        m += j->suspect[k];
    if (!n || !m || !j->h->n_steps)
        return false;
    out->others_Bps = upper_median(j->others, n);
    if (!(highest < LK_HOP_SLOW * out->others_Bps))
        return false;
    out->n_below = 0;
    for (size_t i = 0; i < j->h->n_steps; i++) {
        collect(j, &j->h->rates[i * j->h->n], &highest, &lowest);
        out->n_below += highest < upper_median(j->others, n);
    }
    return (double)of * lk_stats_binomial_tail(out->n_below, j->h->n_steps, chance_below(n, m)) <
           LK_HOP_CHANCE;
}

/* Mark the hops of an end that no slow end explains; return true if there are some in and some out.
 */
static bool suspect_end(struct judge *j, size_t end)
{
    bool in = false, out = false;

    for (size_t k = 0; k < j->h->n; k++) {
        const struct lk_run_hop *x = &j->h->hops[k];

        j->suspect[k] = !j->accused[k] && (x->from_end == end || x->to_end == end);
        in = in || (j->suspect[k] && x->to_end == end);
        out = out || (j->suspect[k] && x->from_end == end);
    }
    return in && out;
}

/* Return true if a rank of the end is late: what is sent to it is slow, too. */
static bool is_late_end(const struct lk_run_hops *h, const struct lk_hop_excuse *excuses,
                        size_t end)
{
    for (size_t k = 0; k < h->n; k++)
        if (h->hops[k].to_end == end && excuses[h->hops[k].to].late)
            return true;
    return false;
}

static int rate_order(const void *a, const void *b)
{
    const struct lk_slow_link *x = a, *y = b;

    return (x->rate_Bps > y->rate_Bps) - (x->rate_Bps < y->rate_Bps);
}

static bool is_among(const struct lk_slow_link *ends, size_t n, size_t end)
{
    for (size_t i = 0; i < n; i++)
        if (ends[i].at == end)
            return true;
    return false;
}

/* Return true if an end has a hop of its own: the other end is none of those found, and no late
 * rank receives there, which makes any hop slow. One between two slow ends, or between one and a
 * late rank, has none, and they explain it. */
static bool has_own_hop(const struct lk_run_hops *h, const struct lk_hop_excuse *excuses,
                        const struct lk_slow_link *found, size_t n, size_t end)
{
    for (size_t k = 0; k < h->n; k++) {
        const struct lk_run_hop *x = &h->hops[k];

        if (!excuses[x->to].late && ((x->from_end == end && !is_among(found, n, x->to_end)) ||
                                     (x->to_end == end && !is_among(found, n, x->from_end))))
            return true;
    }
    return false;
}

/* Find the slow ends among those that are late, or among the others. */
static size_t find_ends(struct judge *j, const struct lk_hop_excuse *excuses, bool late,
                        struct lk_slow_link *out)
{
    size_t n = 0, kept = 0;

    for (size_t e = 0; e < j->h->n; e++) {
        struct lk_slow_link x = {.at = j->h->hops[e].from_end};

        if (!is_among(out, n, x.at) && !excuses[x.at].busy &&
            is_late_end(j->h, excuses, x.at) == late && suspect_end(j, x.at) &&
            judge(j, j->h->n, &x))
            out[n++] = x;
    }
    for (size_t k = 0; k < j->h->n; k++)
        j->accused[k] = j->accused[k] || is_among(out, n, j->h->hops[k].from_end) ||
                        is_among(out, n, j->h->hops[k].to_end);
    for (size_t i = 0; i < n; i++) /* swaps keep the set that they are compared with */
        if (has_own_hop(j->h, excuses, out, n, out[i].at)) {
            struct lk_slow_link x = out[kept];

            out[kept++] = out[i];
            out[i] = x;
        }
    return kept;
}

static size_t find_pairs(struct judge *j, const struct lk_hop_excuse *excuses,
                         struct lk_slow_link *out)
{
    size_t n = 0;

    for (size_t k = 0; k < j->h->n; k++) {
        const struct lk_hop_excuse *from = &excuses[j->h->hops[k].from];
        const struct lk_hop_excuse *to = &excuses[j->h->hops[k].to];
        struct lk_slow_link x = {.pair = true, .at = k};

        memset(j->suspect, 0, j->h->n * sizeof *j->suspect);
        j->suspect[k] = true;
        if (!j->accused[k] && !to->late && !to->busy && !from->busy && judge(j, j->h->n, &x))
            out[n++] = x;
    }
    return n;
}

enum lk_status lk_run_hops_slow(const struct lk_run_hops *h, const struct lk_hop_excuse *excuses,
                                struct lk_slow_link *out, size_t *n)
{
    struct judge j = {.h = h};
    enum lk_status st = LK_OK;

    *n = 0;
    LK_TRY(lk_alloc(&j.accused, h->n + 1, sizeof *j.accused));
    LK_TRY(lk_alloc(&j.suspect, h->n + 1, sizeof *j.suspect));
    LK_TRY(lk_alloc(&j.others, h->n + 1, sizeof *j.others));
    if (h->n > 2) {
        *n = find_ends(&j, excuses, false, out);
        *n += find_ends(&j, excuses, true, out + *n);
        *n += find_pairs(&j, excuses, out + *n);
    }
    qsort(out, *n, sizeof *out, rate_order);
out:
    free(j.accused);
    free(j.suspect);
    free(j.others);
    return st;
}
