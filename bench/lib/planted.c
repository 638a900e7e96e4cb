/* Verdicts on public tables, with planted faults; see the header. */
#include "bench/lib/planted.h"

#include "base/array.h"
#include "bench/lib/nested_rows.h"
#include "sim/collective/links.h"
#include "sim/suspects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const planted_names[PLANTED_COUNT] = {PLANTED_LIST(LK_WORD_NAME)};
static const char *const causes[PLANTED_COUNT] = {PLANTED_LIST(LK_WORD_THIRD)};

static const double ends[] = {LK_BAND_LIST(LK_WORD_THIRD)};

/* This holds the tables that are judged, which may be of another file, and all that are evidence.
 */
struct judging {
    const struct lk_public_table *all;
    size_t n_all;
    struct lk_nccl_point *space;
    struct lk_cluster_point *points; /* room for the rows of a source */
    const char *source;              /* of the rows */
    struct lk_nccl_factors rows[LK_NCCL_FABRIC_COUNT];
};

static int band_of(double bytes)
{
    int b = 0;

    while (bytes > ends[b])
        b++;
    return b;
}

static double busbw(const struct lk_public_table *t, size_t i, double us)
{
    return t->bytes[i] / (us * 1e-6) * lk_coll_busbw_factor(t->coll, t->ranks);
}

static double best_busbw(const struct lk_public_table *t)
{
    double best = 0;

    for (size_t i = 0; i < t->n; i++)
        best = fmax(best, busbw(t, i, t->us[i]));
    return best;
}

/* Return the us at one rate up to 16 MiB, which is such that 16 MiB take 4 times as long as the
 * next size of the table; 0 above. */
static double cliff_us(const struct lk_public_table *t, double bytes)
{
    static const double END = 16 << 20, FALL = 4;
    size_t next = 0;

    while (next + 1 < t->n && t->bytes[next] <= END)
        next++;
    return bytes <= END ? FALL * t->us[next] * bytes / END : 0;
}

/* Return the us of size i that the fault makes of those of the table. Rates are of the bus. */
static double planted_us(const struct lk_public_table *t, size_t i, enum planted what, int band)
{
    static const double WIRE = 0.9;
    const double at_1_Bps = t->us[i] * busbw(t, i, t->us[i]); /* us at a bus rate of 1 byte/s */

    switch (what) {
    case PLANTED_QUARTER:
        return band_of(t->bytes[i]) == band ? 4 * t->us[i] : t->us[i];
    case PLANTED_ONE_RAIL:
        return fmax(t->us[i], at_1_Bps / (WIRE * t->cluster.inter.bandwidth_Bps.value));
    case PLANTED_LL:
        return fmax(t->us[i], cliff_us(t, t->bytes[i]));
    case PLANTED_LATENCY:
        return t->us[i] + 9 * t->us[0];
    case PLANTED_SLOW_NODE:
        return fmax(t->us[i], 3 * at_1_Bps / best_busbw(t));
    case PLANTED_NO_GPUDIRECT:
        return t->us[i] + at_1_Bps / best_busbw(t);
    case PLANTED_NONE:
    case PLANTED_STATED:
    case PLANTED_COUNT:
        break;
    }
    return t->us[i];
}

/* Return true if the fault is possible there: it needs cards, small sizes or a band. */
static bool is_possible(const struct lk_public_table *t, enum planted what, int band)
{
    switch (what) {
    case PLANTED_ONE_RAIL:
        return t->nodes > 1 && lk_link_cards(&t->cluster) > 1;
    case PLANTED_LL:
        return t->bytes[0] < 4 << 20 && t->bytes[t->n - 1] > ends[LK_BAND_MIDDLE];
    case PLANTED_LATENCY:
        return t->bytes[0] < ends[LK_BAND_LATENCY] && t->bytes[t->n - 1] > ends[LK_BAND_SMALL];
    case PLANTED_SLOW_NODE:
        return t->nodes > 1;
    case PLANTED_NO_GPUDIRECT: /* superchips lose little without it */
        return t->nodes > 1 && t->cluster.device.compute_capability > 0 &&
               strncmp(t->cluster.gpu, "GH", 2) != 0 && strncmp(t->cluster.gpu, "GB", 2) != 0;
    case PLANTED_QUARTER:
        for (size_t i = 0; i < t->n; i++)
            if (band_of(t->bytes[i]) == band)
                return true;
        return false;
    case PLANTED_NONE:
    case PLANTED_STATED:
    case PLANTED_COUNT:
        break;
    }
    return true;
}

static size_t add_points(struct judging *j, size_t at, const struct lk_public_table *t,
                         enum planted what, int band)
{
    static char source[] = "table";

    for (size_t i = 0; i < t->n; i++)
        j->points[at++] = (struct lk_cluster_point){
            .coll = t->coll,
            .algo = t->algo,
            .timing = LK_TIMING_BACK_TO_BACK,
            .ranks = t->ranks,
            .nodes = t->nodes,
            .bytes = (uint64_t)t->bytes[i],
            .time_s = {planted_us(t, i, what, band) * 1e-6, NAN, NAN, 20, source}};
    return at;
}

/* Return true if the other table is of the same run: one source and machine, fewer nodes. */
static bool is_smaller(const struct lk_public_table *o, const struct lk_public_table *t)
{
    return o->coll == t->coll && o->machine == t->machine && o->nodes < t->nodes &&
           !strcmp(o->source, t->source);
}

static void count(const struct lk_expectation *e, const struct lk_verdicts *v,
                  const struct lk_public_table *t, enum planted what, struct planted_score *score)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct lk_judged_set *s = &v->sets[i];
        const struct lk_suspect *suspects[LK_SUSPECTS_MAX];
        size_t n;
        bool slow = false;

        if (s->at.ranks != t->ranks || s->at.nodes != t->nodes)
            continue;
        for (int b = 0; b < LK_BAND_COUNT; b++)
            slow |= s->bands[b].n && s->bands[b].verdict == LK_JUDGEMENT_SLOW;
        score->n++;
        score->flagged += slow;
        lk_suspects_of(e, v, s, suspects, &n);
        if (!slow || !*causes[what])
            continue;
        score->stated++;
        score->right += n > 0 && !strcmp(suspects[0]->name, causes[what]);
    }
}

/* Return what the runs on fewer nodes have of a fault of a run: nothing of a slow node's, and all
 * of what all nodes lack; PLANTED_COUNT: the run is judged alone. */
static enum planted of_fewer(enum planted what)
{
    return what == PLANTED_SLOW_NODE      ? PLANTED_NONE
           : what == PLANTED_NO_GPUDIRECT ? what
                                          : PLANTED_COUNT;
}

/* Judge one table with a fault, beside the runs on fewer nodes where these tell faults apart. */
static enum lk_status judge(struct judging *j, const struct lk_public_table *t, enum planted what,
                            int band, struct planted_score *score)
{
    enum lk_status st = LK_OK;
    struct lk_expectation e = {0};
    struct lk_verdicts v = {0};
    size_t n = 0;

    if (!is_possible(t, what, band))
        return LK_OK;
    for (size_t i = 0; of_fewer(what) != PLANTED_COUNT && i < j->n_all; i++)
        if (is_smaller(&j->all[i], t))
            n = add_points(j, n, &j->all[i], of_fewer(what), 0);
    n = add_points(j, n, t, what, band);
    LK_TRY(lk_expectation_create(&t->cluster, j->rows, j->all, j->n_all, t->source, &e));
    LK_TRY(lk_verdicts_of(&e, j->points, n, &v));
    count(&e, &v, t, what, score);
out:
    lk_verdicts_fini(&v);
    lk_expectation_fini(&e);
    return st;
}

static enum lk_status judge_sound(struct judging *j, const struct lk_public_table *t,
                                  struct planted_score *score)
{
    for (int what = 0; what < PLANTED_COUNT; what++)
        for (int band = 0; band < (what == PLANTED_QUARTER ? LK_BAND_COUNT : 1); band++)
            if (what != PLANTED_STATED)
                LK_PASS(judge(j, t, (enum planted)what, band, &score[what]));
    return LK_OK;
}

/* Make the rows without a table's source, unless they are there. */
static void nest(struct judging *j, const struct lk_public_table *t)
{
    if (!j->source || strcmp(j->source, t->source) != 0)
        nested_rows(j->all, j->n_all, j->space, t->source, j->rows);
    j->source = t->source;
}

enum lk_status planted_score_all(const char *tables, const char *clusters_dir,
                                 struct planted_score score[PLANTED_COUNT])
{
    enum lk_status st = LK_OK;
    struct lk_public_tables sound = {0}, degraded = {0};
    struct judging j = {0};

    memset(score, 0, PLANTED_COUNT * sizeof *score);
    LK_TRY(lk_public_tables_read(tables, clusters_dir, LK_PUBLIC_SOUND, &sound));
    LK_TRY(lk_public_tables_read(tables, clusters_dir, LK_PUBLIC_DEGRADED, &degraded));
    j.all = sound.s;
    j.n_all = sound.n;
    LK_TRY(lk_alloc(&j.space, sound.n_rows, sizeof *j.space));
    LK_TRY(lk_alloc(&j.points, sound.n_rows, sizeof *j.points));
    for (size_t i = 0; i < sound.n; i++)
        if (sound.s[i].machine >= 0) {
            nest(&j, &sound.s[i]);
            LK_TRY(judge_sound(&j, &sound.s[i], score));
        }
    for (size_t i = 0; i < degraded.n; i++)
        if (degraded.s[i].machine >= 0) {
            nest(&j, &degraded.s[i]);
            LK_TRY(judge(&j, &degraded.s[i], PLANTED_STATED, 0, &score[PLANTED_STATED]));
        }
out:
    free(j.space);
    free(j.points);
    lk_public_tables_fini(&sound);
    lk_public_tables_fini(&degraded);
    return st;
}
