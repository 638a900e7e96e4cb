/*
 * One question in two spellings has one answer: random jobs on random presets, asked of `predict`
 * and `whatif` by options, units, files and words that come to the same.
 *
 * LOCKSTEP_CASES=1000 build/test_lockstep equal_questions asks as many pairs; the default is five
 * of each.
 */
#include "base/array.h"
#include "base/csv.h"
#include "base/rng.h"
#include "facts/cluster.h"
#include "facts/preset.h"
#include "sim/collective/links.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 256 };

/* A case draws these, by the letters that stand for it in a question. */
struct drawn {
    char preset[64]; /* $P */
    int gpus;        /* $G */
    int local_batch; /* $B */
    int global;      /* $S: samples a step */
    int rank;        /* $R: one of the GPUs */
    int half;        /* $H: half of a node's GPUs, or one */
    double rate;     /* $N: Gbit/s of a network card; $M of a node's */
    int cards;
};

/* Pairs of spellings. j.json is the job, own.json the preset as a file of one's own; none.json is
 * the job without overlap. */
static const struct {
    const char *a, *b;
} pairs[] = {
    {"predict j.json $P --gpus $G", "predict j.json own.json --gpus $G"},
    {"predict j.json $P --gpus $G", "predict j.json $P --gpus $G --local-batch $B "
                                    "--accumulation 1 --level 0.9 --seed 1"},
    {"predict j.json $P --gpus $G", "predict j.json $P --gpus $G --global-batch $S "
                                    "--local-batch $B"},
    {"predict j.json $P --gpus $G", "predict j.json $P --gpus $G --bucket-cap 26.2144MB "
                                    "--first-bucket 1024KiB"},
    {"predict j.json $P --gpus $G --bucket-cap tensor",
     "whatif j.json $P --gpus $G --bucket-cap 1B"},
    {"predict j.json $P --gpus $G", "whatif j.json $P --gpus $G --nic-bandwidth x1"},
    {"predict j.json $P --gpus $G", "whatif j.json $P --gpus $G --sharding ddp --slow-rank none"},
    {"predict j.json $P --gpus $G", "predict j.json --cluster $P --gpus $G"},
    {"predict j.json $P --gpus $G --slow-rank $R:1.3",
     "whatif j.json $P --gpus $G --slow-rank $R:1.3"},
    {"predict j.json $P --gpus $G --overlap-slowdown 1.2",
     "whatif j.json $P --gpus $G --overlap-slowdown 1.2"},
    {"whatif j.json $P --gpus $G --nic-bandwidth $NGbit/s",
     "whatif j.json $P --gpus $G --node-bandwidth $MGbit/s"},
    {"predict j.json $P --gpus $G --gpus-per-node $H",
     "whatif j.json $P --gpus $G --gpus-per-node $H"},
    {"predict none.json $P --gpus $G", "whatif j.json $P --gpus $G --overlap none"},
    {"predict --throughput t.csv --gpus $G j.json $P",
     "whatif --throughput t.csv --gpus $G j.json $P"},
    {"predict --throughput t.csv --gpus 4,8", "predict --throughput plain.csv --gpus 8,4 "
                                              "--local-batch $B"},
};

/* ---- Files ---- */

static void put(const char *name, const char *text)
{
    free(scratch_put(name, text, strlen(text)));
}

static double between(struct lk_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, lk_rng_uniform(g));
}

static void put_jobs(struct lk_rng *g, int batch, double forward_s)
{
    char text[8192];
    size_t n = 0;
    int tensors = 1 + (int)lk_rng_below(g, 30);

    n += (size_t)snprintf(text, sizeof text,
                          "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"j\", "
                          "\"gradients\": [");
    for (int i = 0; i < tensors; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s{\"name\": \"t%d\", \"elements\": %.0f, \"dtype\": \"float32\"}",
                              i ? ", " : "", i, between(g, 1e3, 2e7));
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "], \"compute\": [{\"local_batch\": %d, \"forward\": {\"value\": %.9g, "
                          "\"unit\": \"s\", \"source\": \"drawn\"}, \"backward\": {\"value\": "
                          "%.9g, \"unit\": \"s\", \"source\": \"drawn\"}}]",
                          batch, forward_s, 2 * forward_s);
    ck_assert_uint_lt(n + 32, sizeof text);
    strcpy(text + n, "}");
    put("j.json", text);
    strcpy(text + n, ", \"overlap\": \"none\"}");
    put("none.json", text);
}

/* Write the rows of a table, once with the batch as a column, and once without. */
static void put_tables(struct lk_rng *g, int batch, double step_s)
{
    char with[512] = "gpus,throughput,local_batch\n", without[512] = "gpus,throughput\n";
    double loss = 0.03 * lk_rng_uniform(g);

    for (int k = 1; k <= 4; k *= 2) {
        double per_s = batch * k / (step_s * (1 + loss * log2(k)));

        snprintf(with + strlen(with), sizeof with - strlen(with), "%d,%.9g,%d\n", k, per_s, batch);
        snprintf(without + strlen(without), sizeof without - strlen(without), "%d,%.9g\n", k,
                 per_s);
    }
    put("t.csv", with);
    put("plain.csv", without);
}

/* Write a cluster that has all of a preset, and does not call itself one. */
static void put_own(const char *preset)
{
    char text[WORD];

    snprintf(text, sizeof text,
             "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"base\": \"%s\", \"name\": "
             "\"%s\", \"preset\": false}",
             preset, preset);
    put("own.json", text);
}

static struct drawn draw(uint64_t number)
{
    struct lk_rng g = lk_rng_init(37, number);
    struct drawn d = {.gpus = 2 << lk_rng_below(&g, 7), .local_batch = 1 << lk_rng_below(&g, 6)};
    double forward_s = between(&g, 1e-3, 0.2);
    char **names = NULL, *path = NULL;
    struct lk_cluster c;
    size_t n = 0;

    ck_assert_int_eq(lk_preset_names(&names, &n), LK_OK);
    snprintf(d.preset, sizeof d.preset, "%s", names[lk_rng_below(&g, n)]);
    lk_names_free(names, n);
    ck_assert_int_eq(lk_preset_find(NULL, d.preset, &path), LK_OK);
    ck_assert_msg(lk_cluster_read(path, &c) == LK_OK, "%s", lk_error_text());
    put_own(d.preset);
    d.half = c.gpus_per_node > 1 ? c.gpus_per_node / 2 : 1;
    d.cards = lk_link_cards(&c);
    lk_cluster_fini(&c);
    free(path);
    d.global = d.gpus * d.local_batch;
    d.rank = (int)lk_rng_below(&g, (uint64_t)d.gpus);
    d.rate = 50 * (double)(1 + lk_rng_below(&g, 8));
    put_jobs(&g, d.local_batch, forward_s);
    put_tables(&g, d.local_batch, 3 * forward_s);
    return d;
}

/* ---- Questions ---- */

static void spell(const struct drawn *d, const char *question, char *out, size_t size)
{
    size_t n = 0;

    for (const char *p = question; *p; p++) {
        if (*p != '$') {
            n += (size_t)snprintf(out + n, size - n, "%c", *p);
            continue;
        }
        switch (*++p) {
        case 'P':
            n += (size_t)snprintf(out + n, size - n, "%s", d->preset);
            break;
        case 'N':
            n += (size_t)snprintf(out + n, size - n, "%g", d->rate);
            break;
        case 'M':
            n += (size_t)snprintf(out + n, size - n, "%g", d->rate * d->cards);
            break;
        default:
            n += (size_t)snprintf(out + n, size - n, "%d",
                                  *p == 'G'   ? d->gpus
                                  : *p == 'B' ? d->local_batch
                                  : *p == 'S' ? d->global
                                  : *p == 'R' ? d->rank
                                              : d->half);
        }
        ck_assert_uint_lt(n, size);
    }
}

/* An answer: the exit code, and step with interval of the row of the most GPUs that was asked for:
 * a comparison has the current configuration behind it. */
struct answer {
    int code;
    double gpus, v[3];
};

static struct answer ask(const char *words)
{
    static const struct lk_csv_column columns[] = {
        {"gpus", true}, {"step_s", true}, {"step_lo_s", true}, {"step_hi_s", true}};
    struct shell_result r =
        shell_program(scratch_dir, "%s --draws 40 --anyway --csv out.csv", words);
    char *path = scratch_path(scratch_dir, "out.csv");
    struct answer a = {.code = r.code, .v = {NAN, NAN, NAN}};
    struct lk_csv *t = NULL;

    ck_assert_msg(r.code < 2, "%s: %s", words, r.text);
    ck_assert_msg(lk_csv_load(path, columns, LK_COUNT(columns), LK_CSV_EXTRA, &t) == LK_OK,
                  "%s: %s: %s", words, lk_error_text(), r.text);
    for (size_t i = 0; i < lk_csv_rows(t); i++) {
        double gpus;

        ck_assert_int_eq(lk_csv_real(t, i, 0, 1, INFINITY, &gpus), LK_OK);
        if (gpus <= a.gpus)
            continue;
        a.gpus = gpus;
        for (size_t c = 0; c < 3; c++)
            ck_assert_int_eq(lk_csv_real(t, i, c + 1, 0, INFINITY, &a.v[c]), LK_OK);
    }
    lk_csv_free(t);
    ck_assert_int_eq(remove(path), 0);
    free(path);
    return a;
}

START_TEST(two_spellings_one_answer)
{
    for (uint64_t k = (uint64_t)_i; k < cases_or(5 * LK_COUNT(pairs)); k += LK_COUNT(pairs)) {
        struct drawn d = draw(k);
        char a[WORD], b[WORD];
        struct answer x, y;

        spell(&d, pairs[_i].a, a, sizeof a);
        spell(&d, pairs[_i].b, b, sizeof b);
        x = ask(a);
        y = ask(b);
        ck_assert_msg(x.code == y.code, "%s: exit %d; %s: exit %d", a, x.code, b, y.code);
        for (size_t c = 0; c < LK_COUNT(x.v); c++)
            ck_assert_msg(fabs(x.v[c] / y.v[c] - 1) < 1e-9, "%s: %.12g s; %s: %.12g s", a, x.v[c],
                          b, y.v[c]);
    }
}
END_TEST

/* Nodes of other sizes are no change to ranks that one node holds either way. */
START_TEST(what_comes_to_the_same_is_one_row)
{
    struct shell_result r;

    (void)draw(1);
    r = shell_program(scratch_dir, "whatif j.json dgx-a100 --gpus 4 --gpus-per-node 4 --draws 20 "
                                   "--format=csv --table=points | wc -l");
    ck_assert_msg(r.code == 0 && atoi(r.text) == 2, "%s", r.text);
}
END_TEST

SUITE(equal_questions, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, two_spellings_one_answer, 0, (int)LK_COUNT(pairs));
    tcase_add_test(c, what_comes_to_the_same_is_one_row);
}
