/*
 * Score forecasts of collectives against public nccl-tests tables:
 *
 *     build/bench/accuracy_collectives nccl_tables.csv [CLUSTERS_DIR] [--csv | --rows | POINTS.csv]
 *
 * Splits are nested by source: whatever is predicted, the rows of sim/collective/nccl_fit.c are
 * made anew without any table of its source. POINTS.csv gets every point of ours; --rows prints the
 * rows that all tables together give.
 *
 * Each figure is printed twice (bench/lib/bands.h): of all rows, and of the "even" ones, in whose
 * table no larger size was faster; beside our interval one of the constant width that scores best
 * on the other sources. Machines of unknown kind are left out where the preset is asked for.
 */
#include "base/array.h"
#include "base/stats.h"
#include "bench/lib/bands.h"
#include "bench/lib/nested_rows.h"
#include "sim/collective/coll_cost.h"
#include "sim/collective/nccl_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LARGE_BYTES = 32.0 * (1 << 20);

/* NCCL's own constants: factors 1, no fill. */
static const struct lk_nccl_factors nccl_own = {.ln = {[LK_NCCL_FILL] = -INFINITY}};

static const char *const place_names[LK_NCCL_FABRIC_COUNT] = {[LK_NCCL_IN_NVLINK] = "nvlink",
                                                              [LK_NCCL_IN_PCI] = "pcie",
#define NETWORK_NAME(kind, name) [LK_NCCL_OVER + kind] = (name),
                                                              LK_NETWORK_LIST(NETWORK_NAME)
#undef NETWORK_NAME
};

/* The tables, and work space for all of their rows. */
struct tables {
    const struct lk_public_table *s;
    size_t n;
    struct lk_nccl_point *nccl;
    struct lk_cluster_point *points;
    struct lk_cost *cost;
};

/* ---- Scores ---- */

static enum lk_status count_cost(struct band *scores, const struct lk_public_table *s, size_t k,
                                 const struct lk_cost *cost)
{
    return band_count(scores, s, k, cost->seconds * 1e6, cost->lo * 1e6, cost->hi * 1e6);
}

/* Count all sizes of a series, of which cost has one item each. */
static enum lk_status count_all(struct band *scores, const struct lk_public_table *s,
                                const struct lk_cost *cost)
{
    enum lk_status st = LK_OK;

    for (size_t k = 0; k < s->n; k++)
        LK_TRY(count_cost(scores, s, k, &cost[k]));
out:
    return st;
}

/* ---- What is predicted ---- */

/* The sizes of a table that are known: those from `least` to `most` bytes, but the one at `skip`.
 */
struct known {
    double least, most;
    size_t skip;
};
static const struct known all_sizes = {0, INFINITY, SIZE_MAX};

static bool is_known(const struct lk_public_table *s, const struct known *k, size_t i)
{
    return s->bytes[i] >= k->least && s->bytes[i] <= k->most && i != k->skip;
}

/* A row is the mean of so many calls, nccl-tests' default. */
enum { CALLS_OF_A_ROW = 20 };

/* Points of the known sizes of a series, into a cluster that borrows them. */
static void fill_points(const struct lk_public_table *s, const struct known *k,
                        struct lk_cluster *c)
{
    static char source[] = "table";

    for (size_t i = 0; i < s->n; i++)
        if (is_known(s, k, i))
            c->points[c->n_points++] = (struct lk_cluster_point){
                .coll = s->coll,
                .algo = s->algo,
                .timing = LK_TIMING_BACK_TO_BACK,
                .ranks = s->ranks,
                .nodes = s->nodes,
                .bytes = (uint64_t)s->bytes[i],
                .time_s = {s->us[i] * 1e-6, NAN, NAN, CALLS_OF_A_ROW, source}};
}

/* Return true for two tables of one collective between the nodes of one source's known machine. */
static bool is_same_machine(const struct lk_public_table *a, const struct lk_public_table *b)
{
    return a->machine >= 0 && a->machine == b->machine && !strcmp(a->source, b->source) &&
           a->coll == b->coll && a->nodes > 1 && b->nodes > 1;
}

static enum lk_status eval(const struct lk_cluster *c, const struct lk_nccl_factors *rows,
                           const struct lk_public_table *s, size_t only, struct lk_cost *out)
{
    enum lk_status st = LK_OK;
    struct lk_cost_model *m = NULL;

    LK_TRY(lk_cost_model_create(c, NULL, rows, &m));
    for (size_t i = 0; i < s->n; i++) {
        uint64_t bytes = (uint64_t)s->bytes[i];

        if (only == SIZE_MAX || i == only)
            LK_TRY(lk_cost_eval(m, s->coll, s->algo, s->ranks, s->nodes, &bytes, 1,
                                &out[only == SIZE_MAX ? i : 0]));
    }
out:
    lk_cost_model_destroy(m);
    return st;
}

/* Print the mean errors of a series up to LARGE_BYTES and above. */
static void print_series(const struct lk_public_table *s, const struct lk_cost *cost)
{
    double error[2] = {0}, n[2] = {0};

    for (size_t k = 0; k < s->n; k++) {
        bool large = s->bytes[k] > LARGE_BYTES;

        error[large] += fabs(cost[k].seconds * 1e6 / s->us[k] - 1);
        n[large]++;
    }
    fprintf(stderr, "%-60s %4d x %-3d %5.1f %% to 32 MB, %5.1f %% above\n", s->label, s->ranks,
            s->nodes, 100 * error[0] / fmax(n[0], 1), 100 * error[1] / fmax(n[1], 1));
}

/* Predict from the preset alone, with rows made without the source; beside it with NCCL's own
 * constants. */
static enum lk_status preset_alone(const struct tables *t, struct band *ours, struct band *own)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_factors rows[LK_NCCL_FABRIC_COUNT], nccl[LK_NCCL_FABRIC_COUNT];

    for (int p = 0; p < LK_NCCL_FABRIC_COUNT; p++)
        nccl[p] = nccl_own;
    for (size_t i = 0; i < t->n; i++) {
        const struct lk_public_table *s = &t->s[i];

        if (s->machine < 0)
            continue;
        nested_rows(t->s, t->n, t->nccl, s->source, rows);
        LK_TRY(eval(&s->cluster, rows, s, SIZE_MAX, t->cost));
        LK_TRY(count_all(ours, s, t->cost));
        print_series(s, t->cost);
        LK_TRY(eval(&s->cluster, nccl, s, SIZE_MAX, t->cost));
        LK_TRY(count_all(own, s, t->cost));
    }
out:
    return st;
}

/* Predict each size from its whole table: the error is what averaging neighbours costs. Limits
 * move outwards by more than a rounding error, so that a point is inside its own interval. */
static enum lk_status measured_sizes(const struct tables *t, struct band *ours)
{
    enum lk_status st = LK_OK;
    const struct lk_cost *cost = t->cost;

    for (size_t i = 0; i < t->n; i++) {
        const struct lk_public_table *s = &t->s[i];
        struct lk_cluster c = s->cluster;

        c.points = t->points;
        c.n_points = 0;
        fill_points(s, &all_sizes, &c);
        LK_TRY(eval(&c, NULL, s, SIZE_MAX, t->cost));
        for (size_t k = 0; k < s->n; k++)
            LK_TRY(band_count(ours, s, k, cost[k].seconds * 1e6, cost[k].lo * (1e6 - 1e-3),
                              cost[k].hi * (1e6 + 1e-3)));
    }
out:
    return st;
}

/* Predict each size but the ends from the others of its table; beside it from the nearest point,
 * in proportion to the bytes. */
static enum lk_status left_out_sizes(const struct tables *t, struct band *ours,
                                     struct band *nearest)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < t->n; i++) {
        const struct lk_public_table *s = &t->s[i];

        for (size_t k = 1; k + 1 < s->n; k++) {
            struct lk_cluster c = s->cluster;
            struct lk_cost cost;
            double near;

            c.points = t->points;
            c.n_points = 0;
            fill_points(s, &(struct known){0, INFINITY, k}, &c);
            LK_TRY(eval(&c, NULL, s, k, &cost));
            LK_TRY(count_cost(ours, s, k, &cost));
            near = s->us[k - 1] * s->bytes[k] / s->bytes[k - 1];
            LK_TRY(band_count(nearest, s, k, near, near, near));
        }
    }
out:
    return st;
}

/*
 * Predict the sizes of each table outside a part of it that a sweep might have had; beside it from
 * the preset alone.
 */
static enum lk_status outside_the_sweep(const struct tables *t, struct band *ours,
                                        struct band *preset)
{
    static const struct known sweeps[] = {
        {512e6, INFINITY, SIZE_MAX}, {0, 1 << 20, SIZE_MAX}, {1 << 20, 64 << 20, SIZE_MAX}};
    enum lk_status st = LK_OK;
    struct lk_nccl_factors rows[LK_NCCL_FABRIC_COUNT];

    for (size_t i = 0; i < t->n; i++) {
        const struct lk_public_table *s = &t->s[i];
        struct lk_cost *alone = t->cost + s->n;

        if (s->machine < 0)
            continue;
        nested_rows(t->s, t->n, t->nccl, s->source, rows);
        LK_TRY(eval(&s->cluster, rows, s, SIZE_MAX, alone));
        for (size_t j = 0; j < LK_COUNT(sweeps); j++) {
            struct lk_cluster c = s->cluster;

            c.points = t->points;
            c.n_points = 0;
            fill_points(s, &sweeps[j], &c);
            if (c.n_points < 2)
                continue;
            LK_TRY(eval(&c, rows, s, SIZE_MAX, t->cost));
            for (size_t k = 0; k < s->n; k++) {
                if (is_known(s, &sweeps[j], k))
                    continue;
                LK_TRY(count_cost(ours, s, k, &t->cost[k]));
                LK_TRY(count_cost(preset, s, k, &alone[k]));
            }
        }
    }
out:
    return st;
}

/*
 * Predict each count of nodes from the smallest of its source and machine that has several nodes;
 * beside it from the preset alone.
 */
static enum lk_status carried(const struct tables *t, struct band *ours, struct band *preset)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_factors rows[LK_NCCL_FABRIC_COUNT];

    for (size_t i = 0; i < t->n; i++) {
        const struct lk_public_table *s = &t->s[i];
        struct lk_cluster c = s->cluster;
        int least = s->ranks;

        c.points = t->points;
        c.n_points = 0;
        for (size_t j = 0; j < t->n; j++)
            if (is_same_machine(s, &t->s[j]) && t->s[j].ranks < least)
                least = t->s[j].ranks;
        for (size_t j = 0; least < s->ranks && j < t->n; j++)
            if (is_same_machine(s, &t->s[j]) && t->s[j].ranks == least)
                fill_points(&t->s[j], &all_sizes, &c);
        if (!c.n_points)
            continue;
        nested_rows(t->s, t->n, t->nccl, s->source, rows);
        LK_TRY(eval(&c, rows, s, SIZE_MAX, t->cost));
        LK_TRY(count_all(ours, s, t->cost));
        LK_TRY(eval(&s->cluster, rows, s, SIZE_MAX, t->cost));
        LK_TRY(count_all(preset, s, t->cost));
    }
out:
    return st;
}

/* Predict each count of nodes from the other counts of its source and machine that have several
 * nodes; beside it by the nearest count's time, and by alpha-beta. */
static enum lk_status left_out_ranks(const struct tables *t, struct band *ours,
                                     struct band *nearest, struct band *plain)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_factors rows[LK_NCCL_FABRIC_COUNT];

    for (size_t i = 0; i < t->n; i++) {
        const struct lk_public_table *s = &t->s[i], *near = NULL;
        struct lk_cluster c = s->cluster;

        c.points = t->points;
        c.n_points = 0;
        for (size_t j = 0; j < t->n; j++) {
            const struct lk_public_table *o = &t->s[j];

            if (!is_same_machine(s, o) || o->ranks == s->ranks)
                continue;
            fill_points(o, &all_sizes, &c);
            if (!near || abs(o->ranks - s->ranks) < abs(near->ranks - s->ranks))
                near = o;
        }
        if (!near)
            continue;
        nested_rows(t->s, t->n, t->nccl, s->source, rows);
        LK_TRY(eval(&c, rows, s, SIZE_MAX, t->cost));
        LK_TRY(count_all(ours, s, t->cost));
        for (size_t k = 0; k < s->n && k < near->n; k++)
            LK_TRY(band_count(nearest, s, k, near->us[k], near->us[k], near->us[k]));
        c.device.compute_capability = 0;
        LK_TRY(eval(&c, rows, s, SIZE_MAX, t->cost));
        LK_TRY(count_all(plain, s, t->cost));
    }
out:
    return st;
}

/* Predict a size by another source with the same platform, ranks and collective: how far labs
 * differ. */
static enum lk_status between_labs(const struct tables *t, struct band *out)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < t->n; j++) {
            const struct lk_public_table *a = &t->s[i], *b = &t->s[j];

            if (a->machine < 0 || strcmp(a->platform, b->platform) || !strcmp(a->source, b->source))
                continue;
            for (size_t k = 0; k < a->n; k++)
                for (size_t l = 0; l < b->n; l++)
                    if (fabs(a->bytes[k] / b->bytes[l] - 1) < 1e-3)
                        LK_TRY(band_count(out, a, k, b->us[l], b->us[l], b->us[l]));
        }
out:
    return st;
}

static void print_rows(const struct tables *t)
{
    struct lk_nccl_factors rows[LK_NCCL_FABRIC_COUNT];

    nested_rows(t->s, t->n, t->nccl, NULL, rows);
    for (int p = 0; p < LK_NCCL_FABRIC_COUNT; p++) {
        printf("%-12s", place_names[p]);
        for (int i = 0; i < LK_NCCL_FACTOR_COUNT; i++)
            printf(" %6.2f,", rows[p].ln[i]);
        printf("\n");
    }
}

static enum lk_status print_all(const struct tables *t, bool csv, FILE *points)
{
    enum lk_status st = LK_OK;
    struct band a[2 * BANDS] = {{0}}, b[2 * BANDS] = {{0}}, c[2 * BANDS] = {{0}};

    band_heading(csv);
    if (points)
        fprintf(points, "measured,predicted,lo,hi\n");
    LK_TRY(measured_sizes(t, c));
    LK_TRY(band_print("measured sizes", c, csv));
    a->points = points;
    LK_TRY(left_out_sizes(t, a, b));
    LK_TRY(band_print("left-out sizes", a, csv));
    LK_TRY(band_print("  proportional from the next", b, csv));
    a->points = points;
    LK_TRY(outside_the_sweep(t, a, b));
    LK_TRY(band_print("sizes outside the sweep", a, csv));
    LK_TRY(band_print("  preset alone, there", b, csv));
    a->points = points;
    LK_TRY(left_out_ranks(t, a, b, c));
    LK_TRY(band_print("left-out rank counts", a, csv));
    LK_TRY(band_print("  time of the nearest count", b, csv));
    LK_TRY(band_print("  alpha-beta", c, csv));
    a->points = points;
    LK_TRY(carried(t, a, b));
    LK_TRY(band_print("carried from the smallest count", a, csv));
    LK_TRY(band_print("  preset alone, there", b, csv));
    a->points = points;
    LK_TRY(preset_alone(t, a, b));
    LK_TRY(band_print("preset alone", a, csv));
    LK_TRY(band_print("  NCCL's model as it is", b, csv));
    a->points = NULL;
    LK_TRY(between_labs(t, a));
    LK_TRY(band_print("one lab for another (noise floor)", a, csv));
out:
    return st;
}

int main(int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct lk_public_tables all = {0};
    struct tables t = {0};
    const char *last = argc > 2 ? argv[argc - 1] : "";
    const char *dir = argc > 2 && argv[2][0] != '-' ? argv[2] : "clusters";
    FILE *points = NULL;

    if (argc < 2) {
        fprintf(stderr, "usage: %s nccl_tables.csv [CLUSTERS_DIR] [--csv | --rows | POINTS.csv]\n",
                argv[0]);
        return 2;
    }
    LK_TRY(lk_public_tables_read(argv[1], dir, LK_PUBLIC_SOUND, &all));
    t.s = all.s;
    t.n = all.n;
    LK_TRY(lk_alloc(&t.nccl, all.n_rows, sizeof *t.nccl));
    LK_TRY(lk_alloc(&t.points, all.n_rows, sizeof *t.points));
    LK_TRY(lk_alloc(&t.cost, all.n_rows, sizeof *t.cost));
    fprintf(stderr, "%zu tables, %zu rows left out by rule\n", all.n, all.n_left_out);
    if (argc > 3 && last[0] != '-' && !(points = fopen(last, "w")))
        LK_TRY(lk_fail(LK_EIO, "%s: cannot be written", last));
    if (!strcmp(last, "--rows"))
        print_rows(&t);
    else
        LK_TRY(print_all(&t, !strcmp(last, "--csv"), points));
out:
    if (points && fclose(points) && st == LK_OK)
        st = lk_fail(LK_EIO, "%s: cannot be written", last);
    if (st != LK_OK)
        fprintf(stderr, "%s\n", lk_error_text());
    lk_public_tables_fini(&all);
    free(t.nccl);
    free(t.points);
    free(t.cost);
    return lk_status_exit_code(st);
}
