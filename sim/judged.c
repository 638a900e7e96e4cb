/* Verdicts on measured collectives; see the header. Divisions: the expectation, points, bands. */
#include "sim/judged.h"

#include "base/array.h"
#include "base/stats.h"
#include "facts/place.h"
#include "sim/collective/links.h"
#include "sim/collective/nccl_model.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct lk_words lk_band_words = LK_WORDS("size band", LK_BAND_LIST);
const struct lk_words lk_judgement_words = LK_WORDS("verdict", LK_JUDGEMENT_LIST);

/* 39 of 40 draws of a normal distribution lie within this many standard deviations. */
static const double LEVEL_Z = 2.2414;
/* A band that is this many times as slow as the other bands is slow. */
static const double BESIDE = 3.1;
/* Other bands that are faster than this part of the expected time count as this. */
static const double BESIDE_LEAST = 0.6;
/* Above 1 MiB a larger size that is this many times faster is no noise. */
static const double FALL = 2;

static const double band_ends[] = {LK_BAND_LIST(LK_WORD_THIRD)};

/* ---- The expectation ---- */

/* Take out a number that was measured; its source is the owner's. */
static void keep_stated(struct lk_quantity *q)
{
    if (q->n)
        *q = lk_quantity_none();
}

enum lk_status lk_expectation_create(const struct lk_cluster *c,
                                     const struct lk_nccl_factors *prior,
                                     const struct lk_public_table *tables, size_t n_tables,
                                     const char *without, struct lk_expectation *out)
{
    struct lk_expectation e = {
        .machine = *c, .tables = tables, .n_tables = n_tables, .without = without};

    e.machine.points = NULL;
    e.machine.fits = NULL;
    e.machine.n_points = e.machine.n_fits = 0;
    keep_stated(&e.machine.intra.latency_s);
    keep_stated(&e.machine.intra.bandwidth_Bps);
    keep_stated(&e.machine.inter.latency_s);
    keep_stated(&e.machine.inter.bandwidth_Bps);
    LK_PASS(lk_cost_model_create(&e.machine, NULL, prior, &e.model));
    *out = e;
    return LK_OK;
}

void lk_expectation_fini(struct lk_expectation *e)
{
    lk_cost_model_destroy(e->model);
    *e = (struct lk_expectation){0};
}

/* ---- A point ---- */

/* Return true if a public table is of this machine: the same device and node; between nodes also
 * the same network and, within a tenth, its rate. */
static bool is_same_machine(const struct lk_cluster *a, const struct lk_cluster *b, int nodes)
{
    static const double ALIKE = 0.1;
    const double rate_a = lk_link_node_bandwidth(a).value;
    const double rate_b = lk_link_node_bandwidth(b).value;

    return a->gpu && b->gpu && lk_device_same(a->gpu, b->gpu) == 1 &&
           a->gpus_per_node == b->gpus_per_node && a->topology.gpu_link == b->topology.gpu_link &&
           (nodes == 1 ||
            (a->topology.network == b->topology.network && fabs(rate_a / rate_b - 1) < ALIKE));
}

/* Return a table's time at a size, linear in the logarithms between its sizes; NaN outside. */
static double table_s(const struct lk_public_table *t, double bytes)
{
    static const double SAME = 1e-3;

    for (size_t i = 0; i < t->n; i++) {
        if (fabs(t->bytes[i] / bytes - 1) < SAME)
            return t->us[i] * 1e-6;
        if (i && t->bytes[i - 1] < bytes && bytes < t->bytes[i]) {
            double at = log(bytes / t->bytes[i - 1]) / log(t->bytes[i] / t->bytes[i - 1]);

            return t->us[i - 1] * pow(t->us[i] / t->us[i - 1], at) * 1e-6;
        }
    }
    return NAN;
}

static enum lk_status rank_among_public(const struct lk_expectation *e, struct lk_judged *j)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_point *p = j->measured;
    double *seconds = NULL;

    LK_TRY(lk_alloc(&seconds, e->n_tables, sizeof *seconds));
    for (size_t i = 0; i < e->n_tables; i++) {
        const struct lk_public_table *t = &e->tables[i];
        double s;

        if (t->machine < 0 || t->coll != p->coll || t->ranks != p->ranks || t->nodes != p->nodes ||
            (e->without && !strcmp(t->source, e->without)) ||
            !is_same_machine(&t->cluster, &e->machine, p->nodes))
            continue;
        s = table_s(t, (double)p->bytes);
        if (isnan(s) || s == p->time_s.value) /* it is this very table */
            continue;
        seconds[j->n_public++] = s;
        j->n_public_slower += s > p->time_s.value;
    }
    if (j->n_public)
        j->public_s = lk_stats_median(seconds, j->n_public);
out:
    free(seconds);
    return st;
}

static void name_choice(const struct lk_expectation *e, struct lk_judged *j)
{
    static const char *const protocols[] = {
        [LK_NCCL_LL] = "LL", [LK_NCCL_LL128] = "LL128", [LK_NCCL_SIMPLE] = "Simple"};
    const struct lk_cluster_point *p = j->measured;
    struct lk_nccl_choice offers[LK_NCCL_OFFERS_MAX];
    struct lk_nccl_machine machine;
    struct lk_nccl_comm comm;

    if (!lk_nccl_machine_of(&e->machine, &machine) ||
        !lk_nccl_comm_of(&machine, p->ranks, p->nodes, &comm) ||
        !lk_nccl_offers(&comm, p->coll, p->algo, (double)p->bytes, offers))
        return;
    j->algorithm = lk_algo_name(offers[0].algo);
    j->protocol = protocols[offers[0].proto];
}

static enum lk_status judge(const struct lk_expectation *e, const struct lk_cluster_point *p,
                            struct lk_judged *out)
{
    struct lk_judged j = {.measured = p,
                          .expected_s = NAN,
                          .lo_s = NAN,
                          .hi_s = NAN,
                          .slowdown = NAN,
                          .algorithm = "",
                          .protocol = "",
                          .public_s = NAN};
    struct lk_cost c;
    enum lk_status st =
        lk_cost_eval(e->model, p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &c);

    if (st != LK_OK && st != LK_EEVIDENCE)
        return st;
    if (st == LK_OK && c.seconds > 0) {
        j.expected_s = c.seconds;
        j.lo_s = c.seconds * pow(c.lo / c.seconds, LEVEL_Z / LK_Z90);
        j.hi_s = c.seconds * pow(c.hi / c.seconds, LEVEL_Z / LK_Z90);
        j.slowdown = p->time_s.value / c.seconds;
        name_choice(e, &j);
    }
    LK_PASS(rank_among_public(e, &j));
    *out = j;
    return LK_OK;
}

double lk_judged_busbw(const struct lk_coll_key *at, double bytes, double seconds)
{
    return bytes / seconds * lk_coll_busbw_factor(at->coll, at->ranks);
}

/* ---- Bands and sets ---- */

struct slowdown_at {
    double slowdown;
    size_t at;
};

static int compare_slowdowns(const void *a, const void *b)
{
    const struct slowdown_at *x = a, *y = b;

    if (x->slowdown > y->slowdown || x->slowdown < y->slowdown)
        return x->slowdown > y->slowdown ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Return the slowdown of a band; NaN where it has no points or nothing is expected. */
double lk_judged_slowdown(const struct lk_judged_set *s, enum lk_band band)
{
    return s->bands[band].n ? s->points[s->bands[band].at].slowdown : NAN;
}

/* Return the median slowdown of the bands but one; NaN without another. */
static double slowdown_of_others(const struct lk_judged_set *s, int but)
{
    double v[LK_BAND_COUNT];
    size_t n = 0;

    for (int b = 0; b < LK_BAND_COUNT; b++)
        if (b != but && !isnan(lk_judged_slowdown(s, (enum lk_band)b)))
            v[n++] = lk_judged_slowdown(s, (enum lk_band)b);
    return n ? lk_stats_median(v, n) : NAN;
}

static void judge_band(struct lk_judged_set *s, int b)
{
    struct lk_judged_band *band = &s->bands[b];
    const struct lk_judged *j = &s->points[band->at];
    const double t = j->measured->time_s.value;

    if (isnan(j->expected_s))
        band->verdict = LK_JUDGEMENT_UNKNOWN;
    else if (t > j->hi_s)
        band->verdict = LK_JUDGEMENT_SLOW;
    else if (t < j->lo_s)
        band->verdict = LK_JUDGEMENT_FAST;
    else
        band->verdict = LK_JUDGEMENT_EXPECTED;
    band->falls = b >= LK_BAND_MIDDLE && band->fall > FALL;
    band->beside = band->verdict == LK_JUDGEMENT_EXPECTED &&
                   j->slowdown > BESIDE * fmax(slowdown_of_others(s, b), BESIDE_LEAST);
    if (band->beside || band->falls)
        band->verdict = LK_JUDGEMENT_SLOW;
}

/* Find the largest fall of each band: from its sizes to any larger one. */
static void find_falls(struct lk_judged_set *s)
{
    size_t least = s->n;

    for (int b = LK_BAND_COUNT - 1; b >= 0; b--) {
        struct lk_judged_band *band = &s->bands[b];

        for (size_t i = band->first + band->n; i-- > band->first;) {
            const double t = s->points[i].measured->time_s.value;

            if (least < s->n && t / s->points[least].measured->time_s.value > band->fall &&
                s->points[i].measured->bytes < s->points[least].measured->bytes) {
                band->fall = t / s->points[least].measured->time_s.value;
                band->fall_from = i;
                band->fall_to = least;
            }
            if (least == s->n || t < s->points[least].measured->time_s.value)
                least = i;
        }
    }
}

/* Fill the bands: each stands at its point of median slowdown, of an even number the higher. */
static enum lk_status judge_bands(struct lk_judged_set *s)
{
    enum lk_status st = LK_OK;
    struct slowdown_at *v = NULL;
    size_t i = 0;

    LK_TRY(lk_alloc(&v, s->n, sizeof *v));
    for (int b = 0; b < LK_BAND_COUNT; b++) {
        struct lk_judged_band *band = &s->bands[b];

        band->first = i;
        for (; i < s->n && (double)s->points[i].measured->bytes <= band_ends[b]; i++)
            v[band->n++] = (struct slowdown_at){s->points[i].slowdown, i};
        if (!band->n)
            continue;
        qsort(v, band->n, sizeof *v, compare_slowdowns);
        band->at = v[band->n / 2].at;
    }
    find_falls(s);
    for (int b = 0; b < LK_BAND_COUNT; b++)
        if (s->bands[b].n)
            judge_band(s, b);
out:
    free(v);
    return st;
}

static int compare_points(const void *a, const void *b)
{
    const struct lk_cluster_point *p = *(const struct lk_cluster_point *const *)a;
    const struct lk_cluster_point *q = *(const struct lk_cluster_point *const *)b;

    if (p->coll != q->coll)
        return p->coll < q->coll ? -1 : 1;
    if (p->algo != q->algo)
        return p->algo < q->algo ? -1 : 1;
    if (p->nodes != q->nodes)
        return p->nodes < q->nodes ? -1 : 1;
    if (p->ranks != q->ranks)
        return p->ranks < q->ranks ? -1 : 1;
    return (p->bytes > q->bytes) - (p->bytes < q->bytes);
}

static struct lk_coll_key key_of(const struct lk_cluster_point *p)
{
    return (struct lk_coll_key){p->coll, p->algo, p->ranks, p->nodes};
}

static enum lk_status add_set(const struct lk_expectation *e,
                              const struct lk_cluster_point *const *points, size_t n,
                              struct lk_verdicts *out)
{
    struct lk_judged_set *s = &out->sets[out->n];

    *s = (struct lk_judged_set){.at = key_of(points[0])};
    LK_PASS(lk_alloc(&s->points, n, sizeof *s->points));
    out->n++;
    for (; s->n < n; s->n++)
        LK_PASS(judge(e, points[s->n], &s->points[s->n]));
    return judge_bands(s);
}

enum lk_status lk_verdicts_of(const struct lk_expectation *e, const struct lk_cluster_point *points,
                              size_t n, struct lk_verdicts *out)
{
    enum lk_status st = LK_OK;
    struct lk_verdicts v = {0};
    const struct lk_cluster_point **at = NULL;
    size_t used = 0;

    LK_TRY(lk_alloc(&at, n, sizeof *at));
    LK_TRY(lk_alloc(&v.sets, n, sizeof *v.sets));
    for (size_t i = 0; i < n; i++)
        if (points[i].ranks > 1 && points[i].bytes && points[i].ranks % points[i].nodes == 0 &&
            points[i].coll != LK_BARRIER)
            at[used++] = &points[i];
    if (used)
        qsort(at, used, sizeof *at, compare_points);
    for (size_t i = 0, next; i < used; i = next) {
        for (next = i + 1; next < used && lk_coll_key_equal(key_of(at[next]), key_of(at[i]));
             next++)
            ;
        LK_TRY(add_set(e, at + i, next - i, &v));
    }
    *out = v;
    v = (struct lk_verdicts){0};
out:
    free(at);
    lk_verdicts_fini(&v);
    return st;
}

void lk_verdicts_fini(struct lk_verdicts *v)
{
    for (size_t i = 0; i < v->n; i++)
        free(v->sets[i].points);
    free(v->sets);
    *v = (struct lk_verdicts){0};
}
