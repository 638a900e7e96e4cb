/*
 * The doctor (sim/throughput/doctor.h) on planted causes (bench/lib/sick.h).
 *
 *     build/bench/accuracy_doctor [CASES [SEED [DRAWS]]]   prints tables in Markdown
 *
 * CASES (default 200) are those of the seeds from SEED (default 1000001) on that are cases. The
 * doctor knows the model's name, the preset and the rates. Its first cause is compared with the
 * planted one, of two rates (1 GPU and all) and of rates at every doubling, before and after the
 * experiment that it names, which is simulated, too. DRAWS (default 100; 0: none) are of each
 * cause, for what the best possible answer would reach from the rates.
 *
 * Divisions: scores / asking / tables.
 */
#include "bench/lib/sick.h"
#include "bench/lib/sick_bound.h"
#include "sim/throughput/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 200, ROWS_MAX = 16, DOCTOR_DRAWS = 400 };

/* ---- Scores ---- */

struct scores {
    size_t seen[LK_CAUSE_COUNT][LK_CAUSE_COUNT]; /* planted, first */
    size_t n, right, second, told, told_right;
    char names[LK_EXPERIMENTS_MAX][24]; /* experiments that were named, and how often */
    size_t named[LK_EXPERIMENTS_MAX];
    size_t best_right; /* of the best possible answer */
    double best_odds;  /* sum of its first cause's */
};

static void score(const struct sick *s, const struct lk_diagnosis *d, struct scores *out)
{
    bool tells;
    enum lk_cause first = lk_diagnosis_first(d, &tells);
    size_t before = 0;

    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        before += d->odds[c] > d->odds[s->cause];
    out->seen[s->cause][first]++;
    out->n++;
    out->right += first == s->cause;
    out->second += before < 2;
    out->told += tells;
    out->told_right += tells && first == s->cause;
}

static void count_named(const char *name, struct scores *out)
{
    int i = 0;

    while (*out->names[i] && strcmp(out->names[i], name) != 0)
        i++;
    snprintf(out->names[i], sizeof out->names[i], "%s", name);
    out->named[i]++;
}

static enum lk_status score_best(const struct sick *s, const struct lk_doctor_row *rows, size_t n,
                                 size_t draws, struct scores *out)
{
    double odds[LK_CAUSE_COUNT];
    int first = 0;

    LK_PASS(sick_posterior(s, rows, n, draws, odds));
    for (int c = 1; c < LK_CAUSE_COUNT; c++)
        first = odds[c] > odds[first] ? c : first;
    out->best_right += first == (int)s->cause;
    out->best_odds += odds[first];
    return LK_OK;
}

/* ---- Asking ---- */

/* Ask the doctor, run what it names, and ask again. doublings: rates between the ends, too. */
static enum lk_status ask(const struct sick *s, bool doublings, size_t draws, struct scores *before,
                          struct scores *after)
{
    struct lk_doctor_row rows[ROWS_MAX];
    struct lk_doctor_question q = {.rows = rows,
                                   .cluster = s->cluster,
                                   .flops_per_sample = s->model->flops,
                                   .peak_flops = sick_peak(s->cluster),
                                   .draws = DOCTOR_DRAWS,
                                   .seed = 1};
    struct lk_job bare = s->job;
    struct lk_trial t = {.config = s->most};
    struct lk_diagnosis d;
    const struct lk_experiment *e = &d.experiments[0];

    bare.n_compute = 0; /* nobody measured it */
    q.job = &bare;
    for (int gpus = 1; gpus < s->most.world_size; gpus *= 2) {
        t.config.world_size = gpus;
        t.config.nodes = gpus > s->cluster->gpus_per_node ? s->most.nodes : 1;
        if (doublings || gpus == 1)
            LK_PASS(sick_measure(s, &t, false, &rows[q.n_rows++]));
    }
    t.config = s->most;
    LK_PASS(sick_measure(s, &t, false, &rows[q.n_rows++]));
    if (draws)
        LK_PASS(score_best(s, rows, q.n_rows, draws, before));
    LK_PASS(lk_doctor(&q, &d));
    score(s, &d, before);
    count_named(e->name, before);
    for (size_t i = 0; i < e->n_trials; i++)
        LK_PASS(sick_measure(s, &e->trials[i], e->profiled, &rows[q.n_rows++]));
    LK_PASS(lk_doctor(&q, &d));
    score(s, &d, after);
    return LK_OK;
}

/* ---- Tables ---- */

static double percent(double part, size_t of)
{
    return 100 * part / (double)(of ? of : 1);
}

static void print_scores(const char *what, const struct scores *s, bool best)
{
    printf("\n%s: right first in %.0f %% of %zu, among the first two in %.0f %%; tells in %.0f %%, "
           "and is then right in %.0f %%.",
           what, percent((double)s->right, s->n), s->n, percent((double)s->second, s->n),
           percent((double)s->told, s->n), percent((double)s->told_right, s->told));
    if (best)
        printf(" The best possible answer is right in %.0f to %.0f %%.",
               percent((double)s->best_right, s->n), percent(s->best_odds, s->n));
    for (int i = 0; *s->names[i]; i++)
        printf("%s `%s` %zu", i ? "," : " Named:", s->names[i], s->named[i]);
    printf("%s\n\n| planted | cases | right |", *s->names[0] ? "." : "");
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        printf(" %s |", lk_cause_name((enum lk_cause)c));
    printf("\n|---|---|---|");
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        printf("---|");
    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        size_t n = 0;

        for (int k = 0; k < LK_CAUSE_COUNT; k++)
            n += s->seen[c][k];
        printf("\n| %s | %zu | %.0f %% |", lk_cause_name((enum lk_cause)c), n,
               percent((double)s->seen[c][c], n));
        for (int k = 0; k < LK_CAUSE_COUNT; k++)
            printf(" %zu |", s->seen[c][k]);
    }
    printf("\n");
}

static enum lk_status run(size_t cases, uint64_t seed, size_t draws)
{
    static const char *const texts[2][2] = {
        {"Two rates", "Two rates and the experiment"},
        {"Rates of every doubling", "Rates of every doubling and the experiment"}};
    enum lk_status st = LK_OK;
    struct lk_cluster clusters[SICK_CLUSTERS] = {0};
    struct scores scores[2][2] = {0};
    struct sick s = {0};

    LK_TRY(sick_clusters(clusters));
    for (size_t n = 0; n < cases; seed++) {
        bool counts;

        sick_fini(&s);
        LK_TRY(sick_draw(seed, clusters, &s, &counts));
        if (!counts)
            continue;
        for (int k = 0; k < 2; k++)
            LK_TRY(ask(&s, k == 1, draws, &scores[k][0], &scores[k][1]));
        n++;
    }
    for (int k = 0; k < 2; k++)
        for (int after = 0; after < 2; after++)
            print_scores(texts[k][after], &scores[k][after], draws && !after);
out:
    sick_fini(&s);
    for (int i = 0; i < SICK_CLUSTERS; i++)
        lk_cluster_fini(&clusters[i]);
    return st;
}

/* Return a word as a number; `otherwise` where there is none. */
static uint64_t number(int argc, char **argv, int i, uint64_t otherwise)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    enum lk_status st = run((size_t)number(argc, argv, 1, CASES), number(argc, argv, 2, 1000001),
                            (size_t)number(argc, argv, 3, 100));

    if (st != LK_OK)
        fprintf(stderr, "accuracy_doctor: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
