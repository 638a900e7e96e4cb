/*
 * How well collectives are forecast, against public nccl-tests tables:
 *
 *     build/bench/accuracy_collectives nccl_tables.csv [CLUSTERS_DIR] [--csv | --rows | POINTS.csv]
 *
 * Splits are nested by source: whatever is predicted, the rows of sim/nccl_prior.c are made anew
 * without any table of its source. POINTS.csv gets every point of ours; --rows prints the rows that
 * all tables together give.
 *
 * Left out by rule: several processes on one GPU (time-sliced), rows that their source marks as
 * DEGRADED, collectives other than ours, in-place rows (the same run again), machines of unknown
 * kind where the preset is asked for. Each figure twice: of all rows, and of the "even" ones, in
 * whose table no larger size was faster.
 */
#include "base/array.h"
#include "base/csv.h"
#include "base/stats.h"
#include "sim/coll_cost.h"
#include "sim/nccl_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LARGE_BYTES = 32.0 * (1 << 20);

enum { SOURCE_MAX = 80, BANDS = 4, SOURCES_MAX = 64 };
static const double band_ends[BANDS] = {32768, 1048576, 33554432, INFINITY};
static const char *const band_names[BANDS] = {"<=32K", "<=1M", "<=32M", ">32M"};

/* Which preset a table's words mean, and what differs from it; 0: nothing. First match counts. */
static const struct machine {
    const char *wires, *gpu, *preset;
    int gpus_per_node, nics;
    double nic_Bps, gpu_Bps;
    int compute_capability;
} machines[] = {
    {"TCPXO",                "H100",      "hgx-h100-tcpxo",  0, 0,  0,      0,    0  },
    {"TCPX",                 "H100",      "hgx-h100-tcpx",   0, 0,  0,      0,    0  },
    {"EFA 32x100",           "H100",      "hgx-h100-efa",    0, 0,  0,      0,    0  },
    {"EFA 4x100",            "A100",      "hgx-a100-efa",    0, 0,  0,      0,    0  },
    {"InfiniBand HDR 8x200", "A100",      "dgx-a100",        0, 0,  0,      0,    0  },
    {"RoCE/SR-IOV 8x200",    "A100",      "dgx-a100-roce",   0, 0,  0,      0,    0  },
    {"RoCE 16x100",          "A100",      "dgx-a100-roce",   0, 16, 12.5e9, 0,    0  },
    {"Slingshot-11 1x200",   "GH200",     "gh200-slingshot", 1, 1,  0,      0,    0  },
    {"4xGH200/node",         "GH200",     "gh200-slingshot", 0, 0,  0,      0,    0  },
    {"PCIe5 + CX-8",         "RTX 6000D", "pcie-l40s",       8, 8,  50e9,   48e9, 120},
    {"NVLink4+NVSwitch",     "H100",      "dgx-h100",        0, 0,  0,      0,    0  },
    {"NVLink3+NVSwitch",     "A100",      "dgx-a100",        0, 0,  0,      0,    0  },
};

/* One table: a source's sizes of one collective on one machine. */
struct series {
    char source[SOURCE_MAX], label[2 * SOURCE_MAX], platform[2 * SOURCE_MAX];
    enum lk_coll coll;
    enum lk_algo algo;
    int ranks, nodes, machine; /* -1: of unknown kind */
    size_t n, bytes_capacity, us_capacity;
    double *bytes, *us;
    struct lk_cluster cluster; /* without points */
};

struct tables {
    struct series *s;
    size_t n, capacity, left_out;
    /* Work space, for all rows. */
    struct lk_nccl_point *nccl;
    struct lk_cluster_point *points;
    struct lk_cost *cost;
};

enum { SOURCE, GPU, GPUS, NODES, WIRES, COLL, BYTES, TIME, IN_PLACE, N_COLUMNS };
static const struct lk_csv_column columns[N_COLUMNS] = {
    [SOURCE] = {"source",       true},
      [GPU] = {"gpu",          true},
    [GPUS] = {"n_gpus",       true},
      [NODES] = {"n_nodes",      true},
    [WIRES] = {"interconnect", true},
      [COLL] = {"collective",   true},
    [BYTES] = {"size_bytes",   true},
      [TIME] = {"time_us",      true},
    [IN_PLACE] = {"in_place",     true}
};

/* A source is a repository (or a file of the code index): what one lab made. */
static void source_of(const char *text, char *out)
{
    size_t n = 0;

    if (!strncmp(text, "code-index file id ", 19))
        n = 19 + strcspn(text + 19, " ");
    else
        n = strcspn(text, " ");
    n = n < SOURCE_MAX - 1 ? n : SOURCE_MAX - 1;
    memcpy(out, text, n);
    out[n] = 0;
}

static int machine_of(const char *wires, const char *gpu)
{
    for (size_t i = 0; i < LK_COUNT(machines); i++)
        if (strstr(wires, machines[i].wires) && strstr(gpu, machines[i].gpu))
            return (int)i;
    return -1;
}

static enum lk_status read_cluster(const char *dir, struct series *s)
{
    enum lk_status st = LK_OK;
    char path[512];
    const struct machine *m;

    if (s->machine < 0)
        return LK_OK;
    m = &machines[s->machine];
    snprintf(path, sizeof path, "%s/%s.json", dir, m->preset);
    LK_TRY(lk_cluster_read(path, &s->cluster));
    if (m->gpus_per_node)
        s->cluster.gpus_per_node = m->gpus_per_node;
    if (m->nics)
        s->cluster.topology.nics_per_node = m->nics;
    if (m->nic_Bps > 0)
        s->cluster.inter.bandwidth_Bps.value = m->nic_Bps;
    if (m->gpu_Bps > 0)
        s->cluster.intra.bandwidth_Bps.value = m->gpu_Bps;
    if (m->compute_capability)
        s->cluster.device.compute_capability = m->compute_capability;
out:
    return st;
}

static enum lk_status add_row(struct tables *t, const struct lk_csv *csv, size_t i, const char *dir)
{
    enum lk_status st = LK_OK;
    const char *source, *gpu, *wires, *coll;
    char label[2 * SOURCE_MAX];
    enum lk_coll c;
    int64_t ranks, nodes, bytes, in_place;
    double us;
    struct series *s;

    LK_TRY(lk_csv_text(csv, i, SOURCE, &source));
    LK_TRY(lk_csv_text(csv, i, GPU, &gpu));
    LK_TRY(lk_csv_text(csv, i, WIRES, &wires));
    LK_TRY(lk_csv_text(csv, i, COLL, &coll));
    LK_TRY(lk_csv_int(csv, i, GPUS, 1, 1 << 20, &ranks));
    LK_TRY(lk_csv_int(csv, i, NODES, 1, 1 << 20, &nodes));
    LK_TRY(lk_csv_int(csv, i, BYTES, 0, INT64_MAX, &bytes));
    LK_TRY(lk_csv_int(csv, i, IN_PLACE, 0, 1, &in_place));
    LK_TRY(lk_csv_real(csv, i, TIME, 0, INFINITY, &us));
    if (strstr(wires, "processes on ONE GPU") || strstr(wires, "DEGRADED") || in_place || us <= 0 ||
        bytes <= 0 || lk_coll_from_name(coll, &c) != LK_OK) {
        t->left_out += !in_place;
        return LK_OK;
    }
    snprintf(label, sizeof label, "%.90s %s", strrchr(source, '/') ? strrchr(source, '/') : source,
             coll);
    s = t->n ? &t->s[t->n - 1] : NULL;
    if (!s || strcmp(s->label, label) || s->ranks != ranks || s->nodes != nodes) {
        LK_TRY(lk_array_grow(&t->s, &t->capacity, t->n + 1, sizeof *t->s));
        s = &t->s[t->n++];
        memset(s, 0, sizeof *s);
        snprintf(s->label, sizeof s->label, "%s", label);
        source_of(source, s->source);
        s->coll = c;
        s->algo = strstr(wires, "NCCL_ALGO=RING") ? LK_ALGO_RING : LK_ALGO_AUTO;
        s->ranks = (int)ranks;
        s->nodes = (int)nodes;
        s->machine = machine_of(wires, gpu);
        snprintf(s->platform, sizeof s->platform, "%d/%d/%d/%s", s->machine, s->ranks, s->nodes,
                 coll);
        LK_TRY(read_cluster(dir, s));
    }
    LK_TRY(lk_array_grow(&s->bytes, &s->bytes_capacity, s->n + 1, sizeof *s->bytes));
    LK_TRY(lk_array_grow(&s->us, &s->us_capacity, s->n + 1, sizeof *s->us));
    s->bytes[s->n] = (double)bytes;
    s->us[s->n++] = us;
out:
    return st;
}

/* ---- The rows, without a source ---- */

static size_t nccl_points(const struct series *s, struct lk_nccl_point *out,
                          enum lk_nccl_place *place)
{
    struct lk_nccl_machine m;
    struct lk_nccl_comm comm;

    if (s->machine < 0 || !lk_nccl_machine_of(&s->cluster, &m) ||
        !lk_nccl_comm_of(&m, s->ranks, s->nodes, &comm))
        return 0;
    *place = lk_nccl_place_of(&comm, m.topology.network);
    for (size_t i = 0; i < s->n; i++)
        out[i] = (struct lk_nccl_point){comm, s->coll, s->algo, s->bytes[i], s->us[i]};
    return s->n;
}

/* What is assumed before any table: NCCL's own, fill and hops by the wide spread. */
static struct lk_nccl_factors vague(void)
{
    struct lk_nccl_factors f = {
        {0   },
        {0.7,  0.7, 0.7, 0.7, 0.7, 0.5, 0.1},
        {0}
    };

    return f;
}

/* Sources' own factors of a place, then their mean, with `all` as if that were one source. */
static struct lk_nccl_factors pooled(const struct tables *t, const char *without, int place,
                                     const struct lk_nccl_factors *all)
{
    struct lk_nccl_factors f = *all, v = vague();
    double values[LK_NCCL_FACTOR_COUNT][SOURCES_MAX + 1];
    size_t seen[LK_NCCL_FACTOR_COUNT] = {0};

    for (size_t i = 0; i < t->n; i++) {
        const char *source = t->s[i].source;
        size_t n = 0;
        bool first = true;

        for (size_t j = 0; j < i; j++)
            first &= strcmp(t->s[j].source, source) != 0;
        if (!first || (without && !strcmp(source, without)))
            continue;
        for (size_t j = i; j < t->n; j++) {
            enum lk_nccl_place at;
            size_t k;

            if (strcmp(t->s[j].source, source))
                continue;
            k = nccl_points(&t->s[j], t->nccl + n, &at);
            if (k && (place < 0 || (int)at == place) && (place != -2 || at >= LK_NCCL_OVER) &&
                (place != -1 || at < LK_NCCL_OVER))
                n += k;
        }
        if (!n)
            continue;
        v = vague();
        v = lk_nccl_fit(t->nccl, n, &v);
        for (int k = 0; k < LK_NCCL_FACTOR_COUNT; k++)
            if (seen[k] < SOURCES_MAX)
                values[k][seen[k]++] = v.ln[k];
    }
    for (int k = 0; k < LK_NCCL_FACTOR_COUNT; k++) {
        values[k][seen[k]++] = all->ln[k];
        f.ln[k] = lk_stats_mean(values[k], seen[k]);
    }
    return f;
}

static void make_rows(const struct tables *t, const char *without, struct lk_nccl_factors *rows)
{
    struct lk_nccl_factors own = vague(), inside = pooled(t, without, -1, &own),
                           between = pooled(t, without, -2, &own);

    for (int p = 0; p < LK_NCCL_PLACE_COUNT; p++) {
        rows[p] = pooled(t, without, p, p < LK_NCCL_OVER ? &inside : &between);
        memcpy(rows[p].sd, lk_nccl_prior((enum lk_nccl_place)p).sd, sizeof rows[p].sd);
        memcpy(rows[p].error, lk_nccl_prior((enum lk_nccl_place)p).error, sizeof rows[p].error);
    }
}

/* ---- Scores ---- */

struct score {
    size_t n, inside;
    double error, worst, width, interval;
    double *errors;
    size_t capacity;
    FILE *points; /* of the first band: where each point goes, too; may be NULL */
};

/* Relative error, and the interval score of the 90 % interval in logarithms (Gneiting and Raftery
 * 2007, eq. 43), so that sizes count alike. */
static enum lk_status count(struct score *s, double us, double measured, double lo, double hi)
{
    enum lk_status st = LK_OK;
    double e = fabs(us / measured - 1), width = log(hi / lo);

    LK_TRY(lk_array_grow(&s->errors, &s->capacity, s->n + 1, sizeof *s->errors));
    s->errors[s->n++] = e;
    s->error += e;
    s->worst = fmax(s->worst, e);
    s->inside += measured >= lo && measured <= hi;
    s->width += width;
    s->interval += width + (measured < lo ? 20 * log(lo / measured) : 0) +
                   (measured > hi ? 20 * log(measured / hi) : 0);
out:
    return st;
}

/*
 * Whether a larger size of the same table was faster by more than 5 %: then something else went on.
 * Such sizes count in the first BANDS scores but not in the second; they stay in what predicts.
 */
static bool is_odd(const struct series *s, size_t k)
{
    for (size_t j = 0; j < s->n; j++)
        if (s->bytes[j] > s->bytes[k] && s->us[j] < 0.95 * s->us[k])
            return true;
    return false;
}

static enum lk_status count_at(struct score *scores, const struct series *s, size_t k, double us,
                               double lo, double hi)
{
    enum lk_status st = LK_OK;
    int b = 0;

    while (s->bytes[k] > band_ends[b])
        b++;
    LK_TRY(count(&scores[b], us, s->us[k], lo, hi));
    if (scores->points)
        fprintf(scores->points, "%.9g,%.9g,%.9g,%.9g\n", s->us[k], us, lo, hi);
    if (!is_odd(s, k))
        LK_TRY(count(&scores[BANDS + b], us, s->us[k], lo, hi));
out:
    return st;
}

static void print_scores(const char *what, struct score *s, bool csv)
{
    for (int b = 0; b < 2 * BANDS; b++) {
        double n = (double)s[b].n;
        struct lk_estimate in = lk_stats_share(s[b].inside, s[b].n, 0.9);

        if (!s[b].n)
            continue;
        printf(csv ? "%s,%s,%s,%zu,%.2f,%.2f,%.2f,%.1f,%.1f,%.1f,%.1f,%.1f\n"
                   : "%-34s %-6s %-5s %5zu %8.1f %8.1f %8.1f %7.1f (%3.0f-%3.0f) %7.1f %7.1f\n",
               what, band_names[b % BANDS], b < BANDS ? "all" : "even", s[b].n,
               100 * s[b].error / n, 100 * lk_stats_median(s[b].errors, s[b].n), 100 * s[b].worst,
               100 * (double)s[b].inside / n, 100 * in.lo, 100 * in.hi, 100 * s[b].width / n,
               100 * s[b].interval / n);
        free(s[b].errors);
        s[b] = (struct score){0};
    }
}

/* ---- What is predicted ---- */

/* Points of a series, but `skip`, into a cluster that borrows them. */
static void fill_points(const struct series *s, size_t skip, struct lk_cluster *c)
{
    static char source[] = "table";

    for (size_t i = 0; i < s->n; i++)
        if (i != skip)
            c->points[c->n_points++] = (struct lk_cluster_point){
                .coll = s->coll,
                .algo = LK_ALGO_AUTO,
                .timing = LK_TIMING_BACK_TO_BACK,
                .ranks = s->ranks,
                .nodes = s->nodes,
                .bytes = (uint64_t)s->bytes[i],
                .time_s = {s->us[i] * 1e-6, NAN, NAN, 1, source}
            };
}

static enum lk_status eval(const struct lk_cluster *c, const struct lk_nccl_factors *rows,
                           const struct series *s, size_t only, struct lk_cost *out)
{
    enum lk_status st = LK_OK;
    struct lk_cost_model *m = NULL;

    LK_TRY(lk_cost_model_create_from(c, NULL, rows, &m));
    for (size_t i = 0; i < s->n; i++) {
        uint64_t bytes = (uint64_t)s->bytes[i];

        if (only == SIZE_MAX || i == only)
            LK_TRY(lk_cost_eval(m, s->coll, c->n_points ? LK_ALGO_AUTO : s->algo, s->ranks,
                                s->nodes, &bytes, 1, &out[only == SIZE_MAX ? i : 0]));
    }
out:
    lk_cost_model_destroy(m);
    return st;
}

/* From the preset alone, rows made without the source; beside it NCCL's own constants. */
static enum lk_status preset_alone(const struct tables *t, struct score *ours, struct score *own,
                                   bool verbose)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_factors rows[LK_NCCL_PLACE_COUNT], nccl[LK_NCCL_PLACE_COUNT];
    struct lk_cost *cost = t->cost;

    for (int p = 0; p < LK_NCCL_PLACE_COUNT; p++)
        nccl[p] = lk_nccl_own();
    for (size_t i = 0; i < t->n; i++) {
        const struct series *s = &t->s[i];
        struct score here[2] = {{0}};

        if (s->machine < 0)
            continue;
        make_rows(t, s->source, rows);
        LK_TRY(eval(&s->cluster, rows, s, SIZE_MAX, cost));
        for (size_t k = 0; k < s->n; k++) {
            LK_TRY(count_at(ours, s, k, cost[k].seconds * 1e6, cost[k].lo * 1e6, cost[k].hi * 1e6));
            LK_TRY(count(&here[s->bytes[k] > LARGE_BYTES], cost[k].seconds * 1e6, s->us[k], 1, 2));
            if (verbose)
                fprintf(stderr, "%s %dx%d %.0f %.1f %.1f %.3f\n", s->label, s->ranks, s->nodes,
                        s->bytes[k], s->us[k], cost[k].seconds * 1e6,
                        cost[k].seconds * 1e6 / s->us[k]);
        }
        fprintf(stderr, "%-60s %4d x %-3d %5.1f %% to 32 MB, %5.1f %% above\n", s->label, s->ranks,
                s->nodes, 100 * here[0].error / (double)(here[0].n ? here[0].n : 1),
                100 * here[1].error / (double)(here[1].n ? here[1].n : 1));
        free(here[0].errors);
        free(here[1].errors);
        LK_TRY(eval(&s->cluster, nccl, s, SIZE_MAX, cost));
        for (size_t k = 0; k < s->n; k++)
            LK_TRY(count_at(own, s, k, cost[k].seconds * 1e6, cost[k].lo * 1e6, cost[k].hi * 1e6));
    }
out:
    return st;
}

/* Each size from its whole table: what averaging neighbours costs. */
static enum lk_status measured_sizes(const struct tables *t, struct score *ours)
{
    enum lk_status st = LK_OK;
    struct lk_cost *cost = t->cost;

    for (size_t i = 0; i < t->n; i++) {
        const struct series *s = &t->s[i];
        struct lk_cluster c = s->cluster;

        c.points = t->points;
        c.n_points = 0;
        fill_points(s, SIZE_MAX, &c);
        LK_TRY(eval(&c, NULL, s, SIZE_MAX, cost));
        for (size_t k = 0; k < s->n; k++)
            LK_TRY(count_at(ours, s, k, cost[k].seconds * 1e6, cost[k].lo * (1e6 - 1e-3),
                            cost[k].hi * (1e6 + 1e-3)));
    }
out:
    return st;
}

/* Each size but the ends from the others of its table; beside it the nearest point by bytes. */
static enum lk_status left_out_sizes(const struct tables *t, struct score *ours,
                                     struct score *nearest)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < t->n; i++) {
        const struct series *s = &t->s[i];

        for (size_t k = 1; k + 1 < s->n; k++) {
            struct lk_cluster c = s->cluster;
            struct lk_cost cost;
            double near;

            c.points = t->points;
            c.n_points = 0;
            fill_points(s, k, &c);
            LK_TRY(eval(&c, NULL, s, k, &cost));
            LK_TRY(count_at(ours, s, k, cost.seconds * 1e6, cost.lo * 1e6, cost.hi * 1e6));
            near = s->us[k - 1] * s->bytes[k] / s->bytes[k - 1];
            LK_TRY(count_at(nearest, s, k, near, near, near));
        }
    }
out:
    return st;
}

/* Each count of nodes from the other counts of its source and machine that have several nodes;
 * beside it the nearest count's time, and alpha-beta. */
static enum lk_status left_out_ranks(const struct tables *t, struct score *ours,
                                     struct score *nearest, struct score *plain, bool verbose)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_factors rows[LK_NCCL_PLACE_COUNT];
    struct lk_cost *cost = t->cost;

    for (size_t i = 0; i < t->n; i++) {
        const struct series *s = &t->s[i], *near = NULL;
        struct lk_cluster c = s->cluster;

        c.points = t->points;
        c.n_points = 0;
        for (size_t j = 0; s->machine >= 0 && j < t->n; j++) {
            const struct series *o = &t->s[j];

            if (strcmp(o->source, s->source) || o->machine != s->machine || o->coll != s->coll ||
                o->ranks == s->ranks || s->nodes < 2 || o->nodes < 2)
                continue;
            fill_points(o, SIZE_MAX, &c);
            if (!near || abs(o->ranks - s->ranks) < abs(near->ranks - s->ranks))
                near = o;
        }
        if (!near)
            continue;
        make_rows(t, s->source, rows);
        LK_TRY(eval(&c, rows, s, SIZE_MAX, cost));
        for (size_t k = 0; k < s->n; k++) {
            LK_TRY(count_at(ours, s, k, cost[k].seconds * 1e6, cost[k].lo * 1e6, cost[k].hi * 1e6));
            if (verbose)
                fprintf(stderr, "left out: %s %dx%d %.0f %.1f %.1f %.3f\n", s->label, s->ranks,
                        s->nodes, s->bytes[k], s->us[k], cost[k].seconds * 1e6,
                        cost[k].seconds * 1e6 / s->us[k]);
        }
        for (size_t k = 0; k < s->n && k < near->n; k++)
            LK_TRY(count_at(nearest, s, k, near->us[k], near->us[k], near->us[k]));
        c.device.compute_capability = 0;
        LK_TRY(eval(&c, rows, s, SIZE_MAX, cost));
        for (size_t k = 0; k < s->n; k++)
            LK_TRY(
                count_at(plain, s, k, cost[k].seconds * 1e6, cost[k].lo * 1e6, cost[k].hi * 1e6));
    }
out:
    return st;
}

/* The same platform, ranks, collective and size by two sources: how far labs differ. */
static enum lk_status between_labs(const struct tables *t, struct score *out)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < t->n; j++) {
            const struct series *a = &t->s[i], *b = &t->s[j];

            if (a->machine < 0 || strcmp(a->platform, b->platform) || !strcmp(a->source, b->source))
                continue;
            for (size_t k = 0; k < a->n; k++)
                for (size_t l = 0; l < b->n; l++)
                    if (fabs(a->bytes[k] / b->bytes[l] - 1) < 1e-3)
                        LK_TRY(count_at(out, a, k, b->us[l], b->us[l], b->us[l]));
        }
out:
    return st;
}

static void print_rows(const struct tables *t)
{
    struct lk_nccl_factors rows[LK_NCCL_PLACE_COUNT];

    make_rows(t, NULL, rows);
    for (int p = 0; p < LK_NCCL_PLACE_COUNT; p++) {
        printf("%-12s", lk_nccl_place_name((enum lk_nccl_place)p));
        for (int i = 0; i < LK_NCCL_FACTOR_COUNT; i++)
            printf(" %6.2f,", rows[p].ln[i]);
        printf("\n");
    }
}

static enum lk_status print_all(const struct tables *t, bool csv, bool verbose, FILE *points)
{
    enum lk_status st = LK_OK;
    struct score a[2 * BANDS] = {{0}}, b[2 * BANDS] = {{0}}, c[2 * BANDS] = {{0}};

    printf(csv ? "what,bytes,rows,n,mean_error_percent,median_error_percent,worst_percent,"
                 "inside_percent,inside_lo,inside_hi,width_percent,interval_score_percent\n"
               : "%-34s %-6s %-5s %5s %8s %8s %8s %17s %7s %7s\n",
           "# what", "bytes", "rows", "n", "mean %", "median", "worst", "inside % (90 %)", "width",
           "score");
    if (points)
        fprintf(points, "measured,predicted,lo,hi\n");
    LK_TRY(measured_sizes(t, c));
    print_scores("measured sizes", c, csv);
    a->points = points;
    LK_TRY(left_out_sizes(t, a, b));
    print_scores("left-out sizes", a, csv);
    print_scores("  proportional from the next", b, csv);
    a->points = points;
    LK_TRY(left_out_ranks(t, a, b, c, verbose));
    print_scores("left-out rank counts", a, csv);
    print_scores("  time of the nearest count", b, csv);
    print_scores("  alpha-beta", c, csv);
    a->points = points;
    LK_TRY(preset_alone(t, a, b, verbose));
    print_scores("preset alone", a, csv);
    print_scores("  NCCL's model as it is", b, csv);
    a->points = NULL;
    LK_TRY(between_labs(t, a));
    print_scores("one lab for another (noise floor)", a, csv);
out:
    return st;
}

int main(int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;
    struct tables t = {0};
    const char *last = argc > 2 ? argv[argc - 1] : "";
    const char *dir = argc > 2 && argv[2][0] != '-' ? argv[2] : "clusters";
    FILE *points = NULL;

    if (argc < 2) {
        fprintf(stderr, "usage: %s nccl_tables.csv [CLUSTERS_DIR] [--csv | --rows | POINTS.csv]\n",
                argv[0]);
        return 2;
    }
    LK_TRY(lk_csv_load(argv[1], columns, N_COLUMNS, LK_CSV_EXTRA, &csv));
    LK_TRY(lk_alloc(&t.nccl, lk_csv_rows(csv), sizeof *t.nccl));
    LK_TRY(lk_alloc(&t.points, lk_csv_rows(csv), sizeof *t.points));
    LK_TRY(lk_alloc(&t.cost, lk_csv_rows(csv), sizeof *t.cost));
    for (size_t i = 0; i < lk_csv_rows(csv); i++)
        LK_TRY(add_row(&t, csv, i, dir));
    fprintf(stderr, "%zu tables, %zu rows left out by rule\n", t.n, t.left_out);
    if (argc > 3 && last[0] != '-' && !(points = fopen(last, "w")))
        LK_TRY(lk_fail(LK_EIO, "%s: cannot be written", last));
    if (!strcmp(last, "--rows"))
        print_rows(&t);
    else
        LK_TRY(print_all(&t, !strcmp(last, "--csv"), !strcmp(last, "--verbose"), points));
out:
    if (points && fclose(points) && st == LK_OK)
        st = lk_fail(LK_EIO, "%s: cannot be written", last);
    if (st != LK_OK)
        fprintf(stderr, "%s\n", lk_error_text());
    for (size_t i = 0; i < t.n; i++) {
        free(t.s[i].bytes);
        free(t.s[i].us);
        lk_cluster_fini(&t.s[i].cluster);
    }
    free(t.s);
    free(t.nccl);
    free(t.points);
    free(t.cost);
    lk_csv_free(csv);
    return lk_status_exit_code(st);
}
