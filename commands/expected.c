/* Measured collectives are held against an expectation; see the header. Divisions: the machine,
 * sentences. */
#include "commands/expected.h"

#include "base/array.h"
#include "base/file.h"
#include "base/units.h"
#include "commands/inputs.h"
#include "facts/place.h"
#include "facts/preset.h"
#include "sim/suspects.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void expected_fini(struct expected *x)
{
    lk_verdicts_fini(&x->v);
    lk_expectation_fini(&x->e);
    lk_public_tables_fini(&x->tables);
    lk_cluster_fini(&x->machine);
    free(x->missing);
    *x = (struct expected){0};
}

/* ---- The machine ---- */

/* The most nodes, and the most ranks on one, of a cluster's points. */
struct shape {
    int nodes, ranks_per_node;
};

static struct shape shape_of(const struct lk_cluster *c)
{
    struct shape s = {1, 1};

    for (size_t i = 0; i < c->n_points; i++) {
        const struct lk_cluster_point *p = &c->points[i];

        s.nodes = p->nodes > s.nodes ? p->nodes : s.nodes;
        if (p->ranks / p->nodes > s.ranks_per_node)
            s.ranks_per_node = p->ranks / p->nodes;
    }
    return s;
}

static bool is_stated(const struct lk_quantity *q)
{
    return lk_quantity_known(q) && !q->n;
}

/* Return true if a cluster file says of itself what its links should reach. */
static bool states_links(const struct lk_cluster *c, struct shape s)
{
    return is_stated(s.nodes > 1 ? &c->inter.bandwidth_Bps : &c->intra.bandwidth_Bps);
}

/* Presets that a device may be of. */
struct candidates {
    char first[64], list[512];
    size_t n;
};

static enum lk_status find_candidates(const char *gpu, struct shape s, struct candidates *out)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    size_t n = 0, at = 0;

    *out = (struct candidates){0};
    LK_TRY(lk_preset_names(&names, &n));
    for (size_t i = 0; i < n; i++) {
        struct lk_cluster c;
        bool fits;

        LK_TRY(find_cluster(names[i], &c));
        fits = lk_device_same(c.gpu, gpu) == 1 && c.gpus_per_node >= s.ranks_per_node;
        lk_cluster_fini(&c);
        if (!fits)
            continue;
        if (!out->n++)
            snprintf(out->first, sizeof out->first, "%s", names[i]);
        if (at < sizeof out->list)
            at += (size_t)snprintf(out->list + at, sizeof out->list - at, "%s%s", at ? ", " : "",
                                   names[i]);
    }
out:
    lk_names_free(names, n);
    return st;
}

/* Find the machine by its device; out->missing says why there is none. Inside a node all presets of
 * a device are alike. */
static enum lk_status machine_by_device(const struct lk_cluster *c, struct shape s,
                                        struct expected *out)
{
    struct candidates found;

    LK_PASS(find_candidates(c->gpu, s, &found));
    if (!found.n)
        return lk_asprintf(&out->missing,
                           "no preset is of the device '%s' with %d a node, and the input has no "
                           "datasheet's rates of its links: give --base PRESET or a cluster file "
                           "with %s.bandwidth",
                           c->gpu ? c->gpu : "unknown", s.ranks_per_node,
                           s.nodes > 1 ? "inter" : "intra");
    if (found.n > 1 && s.nodes > 1)
        return lk_asprintf(&out->missing,
                           "the device '%s' is in several presets, whose networks differ: give "
                           "--base with one of %s",
                           c->gpu, found.list);
    return find_cluster(found.first, &out->machine);
}

static enum lk_status find_machine(const struct lk_cluster *c, const char *base,
                                   struct expected *out)
{
    const struct shape s = shape_of(c);

    if (base)
        return find_cluster(base, &out->machine);
    if (!states_links(c, s))
        return machine_by_device(c, s, out);
    return LK_OK;
}

static enum lk_status read_tables(struct lk_public_tables *out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_preset_table_find("nccl_tables.csv", &path));
    if (path)
        LK_TRY(lk_public_tables_read(path, NULL, LK_PUBLIC_SOUND, out));
out:
    free(path);
    return st;
}

enum lk_status expected_judge(const struct lk_cluster *c, const char *base, struct expected *out)
{
    enum lk_status st = LK_OK;
    struct expected x = {0};
    const struct lk_cluster *machine;

    lk_cluster_init(&x.machine);
    LK_TRY(find_machine(c, base, &x));
    LK_TRY(read_tables(&x.tables));
    machine = x.machine.name ? &x.machine : c;
    LK_TRY(lk_expectation_create(machine, NULL, x.tables.s, x.tables.n, NULL, &x.e));
    LK_TRY(lk_verdicts_of(&x.e, c->points, c->n_points, &x.v));
    *out = x;
    x = (struct expected){0};
out:
    expected_fini(&x);
    return st;
}

/* ---- Sentences ---- */

static void name_size(const struct lk_judged_set *s, double bytes, char *buf, size_t size)
{
    char text[40], nodes[32] = "";
    const bool is_auto = s->at.algo == LK_ALGO_AUTO;

    if (s->at.nodes > 1)
        snprintf(nodes, sizeof nodes, " of %d nodes", s->at.nodes);
    snprintf(buf, size, "%s%s%s on %d GPU%s%s, %s", lk_coll_name(s->at.coll), is_auto ? "" : " ",
             is_auto ? "" : lk_algo_name(s->at.algo), s->at.ranks, s->at.ranks == 1 ? "" : "s",
             nodes, lk_units_format(LK_DIM_BYTES, bytes, text, sizeof text));
}

void expected_sentence(const struct lk_judged_set *s, const struct lk_judged_band *band, char *buf,
                       size_t size)
{
    const struct lk_judged *j = &s->points[band->falls ? band->fall_from : band->at];
    const double bytes = (double)j->measured->bytes, t = j->measured->time_s.value;
    const bool is_rate = bytes > 1048576; /* a rate says little where latency is all */
    char what[128], is[32], should[32], range[64];
    int n;

    name_size(s, bytes, what, sizeof what);
    if (is_rate) {
        const double rate = lk_judged_busbw(&s->at, bytes, j->expected_s);

        lk_units_format(LK_DIM_RATE, lk_judged_busbw(&s->at, bytes, t), is, sizeof is);
        lk_units_format(LK_DIM_RATE, rate, should, sizeof should);
        lk_units_interval(LK_DIM_RATE, rate, lk_judged_busbw(&s->at, bytes, j->hi_s),
                          lk_judged_busbw(&s->at, bytes, j->lo_s), range, sizeof range);
    } else {
        lk_units_format(LK_DIM_TIME, t, is, sizeof is);
        lk_units_format(LK_DIM_TIME, j->expected_s, should, sizeof should);
        lk_units_interval(LK_DIM_TIME, j->expected_s, j->lo_s, j->hi_s, range, sizeof range);
    }
    if (isnan(j->expected_s)) {
        snprintf(buf, size, "%s: %s", what, is);
        return;
    }
    n = snprintf(buf, size, "%s: %s, expected %s (%s): ", what, is, should, range);
    if (n < 0 || (size_t)n >= size)
        return;
    if (is_rate)
        n += snprintf(buf + n, size - (size_t)n, "%.3g %%", 100 / j->slowdown);
    else
        n += snprintf(buf + n, size - (size_t)n, "%.2g times as long", j->slowdown);
    if (j->n_public && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n,
                 "; %zu of %zu public table%s of such machines %s faster",
                 j->n_public - j->n_public_slower, j->n_public, j->n_public == 1 ? "" : "s",
                 j->n_public == 1 ? "is" : "are");
}

/* Say that a band is slow, and why where its interval does not show it. */
static enum lk_status say_slow(const struct lk_judged_set *s, const struct lk_judged_band *band,
                               const char *prefix, struct lk_page *page)
{
    char text[320], from[40], to[40];

    expected_sentence(s, band, text, sizeof text);
    if (!band->falls)
        return lk_page_say(page, "%s%s%s.", prefix, text,
                           band->beside ? ", slow beside its other sizes" : "");
    lk_units_format(LK_DIM_BYTES, (double)s->points[band->fall_from].measured->bytes, from,
                    sizeof from);
    lk_units_format(LK_DIM_BYTES, (double)s->points[band->fall_to].measured->bytes, to, sizeof to);
    return lk_page_say(page, "%s%s; %s takes %.2g times as long as %s.", prefix, text, from,
                       band->fall, to);
}

static enum lk_status say_suspect(const struct expected *x, const struct lk_judged_set *s,
                                  const char *prefix, struct lk_page *page)
{
    const struct lk_suspect *list[LK_SUSPECTS_MAX];
    size_t n;

    lk_suspects_of(&x->e, &x->v, s, list, &n);
    return n ? lk_page_say(page, "%sFirst suspect, by its signature: %s. What would tell: %s.",
                           prefix, list[0]->sentence, list[0]->tell)
             : LK_OK;
}

/* Say that all is as expected, with the largest sizes of the last set. */
static enum lk_status say_sound(const struct expected *x, const char *prefix, size_t n_bands,
                                struct lk_page *page)
{
    const struct lk_judged_set *s = &x->v.sets[x->v.n - 1];
    int b = LK_BAND_COUNT - 1;
    size_t fast = 0;
    char text[320];

    for (size_t i = 0; i < x->v.n; i++)
        for (int k = 0; k < LK_BAND_COUNT; k++)
            fast += x->v.sets[i].bands[k].n && x->v.sets[i].bands[k].verdict == LK_JUDGEMENT_FAST;
    while (b > 0 && (!s->bands[b].n || s->bands[b].verdict == LK_JUDGEMENT_UNKNOWN))
        b--;
    expected_sentence(s, &s->bands[b], text, sizeof text);
    LK_PASS(lk_page_say(page, "%sNone of %zu bands of sizes is slow: %s.", prefix, n_bands, text));
    return fast ? lk_page_say(page,
                              "%s%zu of them are faster than %s allows: it may be another machine.",
                              prefix, fast, x->e.machine.name ? x->e.machine.name : "the file")
                : LK_OK;
}

enum lk_status expected_say(const struct expected *x, const char *prefix, int most,
                            struct lk_page *page, size_t *slow)
{
    size_t known = 0;
    int said = 0;

    *slow = 0;
    for (size_t i = 0; i < x->v.n; i++) {
        const struct lk_judged_set *s = &x->v.sets[i];
        size_t of_set = 0;

        for (int b = LK_BAND_COUNT - 1; b >= 0; b--) {
            const struct lk_judged_band *band = &s->bands[b];

            known += band->n && band->verdict != LK_JUDGEMENT_UNKNOWN;
            if (!band->n || band->verdict != LK_JUDGEMENT_SLOW)
                continue;
            of_set++;
            if (said++ < most)
                LK_PASS(say_slow(s, band, prefix, page));
        }
        if (of_set && said <= most)
            LK_PASS(say_suspect(x, s, prefix, page));
        *slow += of_set;
    }
    if (said > most)
        LK_PASS(lk_page_say(page, "%s%d more band%s of sizes %s slow.", prefix, said - most,
                            said - most == 1 ? "" : "s", said - most == 1 ? "is" : "are"));
    if (x->missing)
        return lk_page_say(page, "%sNothing says what these collectives should take: %s.", prefix,
                           x->missing);
    if (!known)
        return lk_page_say(page,
                           "%sNothing says what these collectives should take: what they are held "
                           "against states no rate of the links that they use.",
                           prefix);
    return *slow ? LK_OK : say_sound(x, prefix, known, page);
}
