/*
 * The 90 % interval over all held-out points there are: a line of docs/accuracy.md for each file,
 * and one for all together.
 *
 *     build/bench/accuracy_all NAME=FILE.csv ...
 *
 * A file has the columns measured, predicted, lo and hi, with or without "_s".
 */
#include "base/array.h"
#include "base/csv.h"
#include "facts/score.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LEVEL = 0.90;

enum { MEASURED, PREDICTED, LO, HI, CPU, N_COLUMNS };
static const struct lk_csv_column columns[N_COLUMNS] = {
    [MEASURED] = {"measured|measured_s", true},
    [PREDICTED] = {"predicted|predicted_s", true},
    [LO] = {"lo|lo_s", true},
    [HI] = {"hi|hi_s", true},
    [CPU] = {"cpu_share", false},
};

/* Runs that used more of the processors measured the machine (bench/net.c). */
static const double CPU_MOST = 0.70;

struct points {
    struct lk_scored *v;
    size_t n, capacity;
};

static enum lk_status add_file(const char *path, struct points *p)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;

    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_EXTRA, &t));
    for (size_t i = 0; i < lk_csv_rows(t); i++) {
        struct lk_scored s;
        double cpu = 0;

        LK_TRY(lk_csv_real(t, i, MEASURED, 0, 1e30, &s.measured));
        LK_TRY(lk_csv_real(t, i, PREDICTED, 0, 1e30, &s.predicted));
        LK_TRY(lk_csv_real(t, i, LO, 0, 1e30, &s.lo));
        LK_TRY(lk_csv_real(t, i, HI, 0, 1e30, &s.hi));
        if (lk_csv_has(t, i, CPU))
            LK_TRY(lk_csv_real(t, i, CPU, 0, 1e3, &cpu));
        if (cpu > CPU_MOST)
            continue;
        LK_TRY(lk_array_grow(&p->v, &p->capacity, p->n + 1, sizeof *p->v));
        p->v[p->n++] = s;
    }
out:
    lk_csv_free(t);
    return st;
}

static enum lk_status print_line(const char *name, const struct lk_scored *v, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_score s;

    LK_TRY(lk_score_of(v, n, LEVEL, &s));
    printf("| %s | %zu | %.1f / %.1f / %.0f | %zu (%.0f to %.0f %%) | %.1f %% | %.3f | %.1f %% | "
           "%.3f |\n",
           name, s.n, 100 * s.errors.mean, 100 * s.errors.median, 100 * s.errors.worst, s.inside,
           100 * s.share.lo, 100 * s.share.hi, 100 * s.width, s.score, 100 * s.constant_width,
           s.constant_score);
out:
    return st;
}

int main(int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct points p = {0};

    if (argc < 2) {
        fprintf(stderr, "usage: accuracy_all NAME=FILE.csv ...\n");
        return 2;
    }
    printf(
        "\n| held out | points | error: mean / median / worst %% | inside | mean width | score | "
        "constant width | its score |\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 1; i < argc; i++) {
        const char *path = strchr(argv[i], '=');
        size_t from = p.n;
        char name[80];

        if (!path) {
            fprintf(stderr, "accuracy_all: '%s': NAME=FILE.csv is needed\n", argv[i]);
            return 2;
        }
        snprintf(name, sizeof name, "%.*s", (int)(path - argv[i]), argv[i]);
        LK_TRY(add_file(path + 1, &p));
        LK_TRY(print_line(name, p.v + from, p.n - from));
    }
    LK_TRY(print_line("**all**", p.v, p.n));
out:
    if (st != LK_OK)
        fprintf(stderr, "accuracy_all: %s\n", lk_error_text());
    free(p.v);
    return st == LK_OK ? 0 : 1;
}
