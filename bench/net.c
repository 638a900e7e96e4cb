/*
 * Score forecasts against runs on shaped links: reads what tests/net/validate or bench/net_torch.sh
 * measured, forecasts each held-out run from the job of the 1- and 2-rank runs and the 2-rank
 * calibration, as `lockstep predict` does, and prints the errors beside those of three lesser
 * models:
 *
 *     no overlap   every gradient is ready when backward ends
 *     one bucket   all bytes in one collective
 *     gamma 0      collectives and compute do not slow each other
 *
 * and, for each group and rank count with several bucket caps, what the cap that `lockstep whatif`
 * names costs against the best one measured, and how many of the gains that it says were measured
 * inside their intervals. Runs that used more than 70 % of the processors are
 * left out: they measured the machine.
 *
 * slow_rank and slow_link are what a user knows and evidence of two ranks cannot show, as predict's
 * options have it.
 *
 * A run is a run's directory, or a job file that has the run; `single` may be a job file with all
 * of the evidence, and `pair` then is empty.
 *
 *     build/bench/net LOCKSTEP LIST.csv [RESULTS.csv [SHARE]]
 *
 * SHARE of the processors in place of 70 %: training on processors uses them, and is not left out.
 *
 * Figures only: exit 1 when something could not be read or forecast.
 */
#include "base/array.h"
#include "base/csv.h"
#include "base/table.h"
#include "bench/lib/net_list.h"
#include "commands/inputs.h"
#include "facts/score.h"
#include "reports/print.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/step_evidence.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double cpu_most = 0.70; /* or as the fourth argument says */
static const double LEVEL = 0.90;
enum { DRAWS = 200 };

enum model { OURS, NO_OVERLAP, ONE_BUCKET, NO_GAMMA, MODELS };
static const char *const model_names[MODELS] = {"ours", "no overlap", "one bucket", "gamma 0"};

/* A held-out run and its forecasts. */
struct item {
    struct net_run run;
    double measured_s, cpu_share;
    double predicted_s[MODELS], lo_s, hi_s;
};

static const char *word(const char *text, const char *none)
{
    return text ? text : none;
}

/* ---- Reading ---- */

/* Read from the file that tests/net/hosts wrote the share of the processors' time that ranks and
 * network took. */
static enum lk_status read_cpu(const char *path, double *out)
{
    static const struct lk_csv_column columns[] = {{"name", true}, {"value", true}};
    static const char *const names[] = {"wall_s", "processors", "ranks_cpu_s", "interrupt_cpu_s"};
    double v[LK_COUNT(names)] = {0};
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;

    LK_TRY(lk_csv_load(path, columns, LK_COUNT(columns), LK_CSV_STRICT, &t));
    for (size_t i = 0; i < lk_csv_rows(t); i++)
        for (size_t k = 0; k < LK_COUNT(names); k++) {
            const char *name;

            LK_TRY(lk_csv_text(t, i, 0, &name));
            if (!strcmp(name, names[k]))
                LK_TRY(lk_csv_real(t, i, 1, 0, 1e9, &v[k]));
        }
    if (v[0] <= 0 || v[1] <= 0)
        LK_TRY(lk_fail(LK_EPARSE, "%s: wall_s or processors is missing", path));
    *out = (v[2] + v[3]) / (v[0] * v[1]);
out:
    lk_csv_free(t);
    return st;
}

/* ---- Forecasts ---- */

/* All bytes in the first tensor, ready last; the others keep a byte's worth of nothing. */
static void merge_tensors(struct lk_job *j)
{
    uint64_t elems = 0;

    for (size_t i = 0; i < j->n_tensors; i++)
        elems += j->tensors[i].elems * lk_dtype_bytes(j->tensors[i].dtype);
    for (size_t i = 1; i < j->n_tensors; i++)
        free(j->tensors[i].name);
    j->tensors[0].elems = elems / lk_dtype_bytes(j->tensors[0].dtype);
    j->tensors[0].ready = 1;
    j->ready_order[0] = 0;
    j->n_tensors = 1;
}

static void lessen(enum model m, struct lk_job *j, struct lk_cluster *c)
{
    if (m == NO_OVERLAP)
        for (size_t i = 0; i < j->n_tensors; i++)
            j->tensors[i].ready = 1;
    if (m == ONE_BUCKET)
        merge_tensors(j);
    if (m == NO_GAMMA) {
        lk_quantity_fini(&c->gamma_wait);
        lk_quantity_fini(&c->gamma_wire);
        lk_quantity_fini(&c->delta);
        c->gamma_wait = c->gamma_wire = c->delta = lk_quantity_none();
    }
}

/* Read job and cluster of a forecast. */
static enum lk_status read_evidence(const struct net_run *run, struct lk_job *job,
                                    struct lk_cluster *cluster)
{
    enum lk_status st = LK_OK;

    LK_TRY(net_run_evidence(run, job));
    LK_TRY(lk_cluster_read(run->cluster, cluster));
    LK_TRY(known_slow_add(cluster, 0, run->slow_rank, run->slow_link));
out:
    return st;
}

/* Ask for a setting, AXIS=VALUE, in the words of the options of whatif; value is the axis's. */
static enum lk_status ask(struct lk_forecast_request *q, char *setting,
                          struct lk_axis_value values[LK_AXIS_COUNT])
{
    char *text = strchr(setting, '=');

    if (text)
        *text++ = '\0';
    for (enum lk_axis a = 0; text && a < LK_AXIS_COUNT; a++)
        if (!strcmp(lk_axis_option(a), setting)) {
            LK_PASS(lk_axis_parse(a, text, &values[a]));
            q->axes[a].v = &values[a];
            q->axes[a].n = 1;
            return LK_OK;
        }
    return lk_fail(LK_EUSAGE, "the list's setting '%s' has no axis", setting);
}

/* Ask for all settings of the run, in a copy of its words. */
static enum lk_status ask_all(struct lk_forecast_request *q, char *words,
                              struct lk_axis_value values[LK_AXIS_COUNT])
{
    char *rest = NULL;

    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        LK_PASS(ask(q, w, values));
    return LK_OK;
}

static enum lk_status forecast(struct item *item, enum model m)
{
    enum lk_status st = LK_OK;
    struct lk_job job = {0};
    struct lk_cluster cluster = {0};
    struct lk_evidence_source source = {0};
    struct lk_forecast f = {0};
    const struct lk_axis_value ranks = {.count = item->run.ranks},
                               accumulation = {.count = item->run.accumulation},
                               cap = {.count = (int64_t)item->run.cap_bytes};
    struct lk_axis_value values[LK_AXIS_COUNT];
    char *words = NULL;
    struct lk_forecast_request q = {.axes[LK_AXIS_GPUS] = {&ranks, 1},
                                    .axes[LK_AXIS_ACCUMULATION] = {&accumulation, 1},
                                    .axes[LK_AXIS_BUCKET_CAP] = {&cap, 1},
                                    .level = LEVEL,
                                    .draws = DRAWS,
                                    .seed = 1};

    LK_TRY(lk_strdup(&words, word(item->run.setting, "")));
    LK_TRY(ask_all(&q, words, values));
    LK_TRY(read_evidence(&item->run, &job, &cluster));
    lessen(m, &job, &cluster);
    LK_TRY(lk_step_evidence(&job, &cluster, &q, &source));
    LK_TRY(lk_forecast_run(&source, &q, &f, NULL));
    item->predicted_s[m] = f.points[0].step_s;
    if (m == OURS) {
        item->lo_s = f.points[0].step_lo_s;
        item->hi_s = f.points[0].step_hi_s;
    }
out:
    if (source.self)
        source.ops->close(source.self);
    free(words);
    lk_forecast_fini(&f);
    lk_cluster_fini(&cluster);
    lk_job_fini(&job);
    return st;
}

/* ---- Results ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define COLUMNS(X)                                                                                 \
    X("config",                "configuration", LK_DIM_NONE,  -1, i->run.group)                    \
    X("rate",                  "links",         LK_DIM_NONE,  -1, i->run.rate)                     \
    X("ranks",                 "ranks",         LK_DIM_NONE,  -1, i->run.ranks)                    \
    X("cap",                   "bucket cap",    LK_DIM_BYTES, -1, (double)i->run.cap_bytes)        \
    X("accumulation",          "accumulation",  LK_DIM_NONE,  -1, i->run.accumulation)             \
    X("setting",               "setting",       LK_DIM_NONE,  -1, word(i->run.setting, "-"))       \
    X("measured_s",            "measured",      LK_DIM_TIME,  0,  i->measured_s)                   \
    X("predicted_s",           "predicted",     LK_DIM_TIME,  0,  i->predicted_s[OURS])            \
    X("lo_s",                  "90 % from",     LK_DIM_TIME,  0,  i->lo_s)                         \
    X("hi_s",                  "to",            LK_DIM_TIME,  0,  i->hi_s)                         \
    X("error_percent",         "error, %",      LK_DIM_NONE,  1,                                   \
      100 * (i->predicted_s[OURS] / i->measured_s - 1))                                            \
    X("ablation_no_overlap_s", "no overlap",    LK_DIM_TIME,  0,  i->predicted_s[NO_OVERLAP])      \
    X("ablation_one_bucket_s", "one bucket",    LK_DIM_TIME,  0,  i->predicted_s[ONE_BUCKET])      \
    X("ablation_no_gamma_s",   "gamma 0",       LK_DIM_TIME,  0,  i->predicted_s[NO_GAMMA])        \
    X("cpu_share",             "CPU",           LK_DIM_NONE,  2,  i->cpu_share)

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status add_row(const struct item *i, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

static bool counts(const struct item *i)
{
    return i->cpu_share <= cpu_most;
}

/* Return true if the runs are evidence themselves: others are compared with them. */
static bool is_evidence(const struct item *i)
{
    return i->run.pair && !strcmp(i->run.run, i->run.pair);
}

static bool same_setting(const struct item *a, const struct item *b)
{
    return !strcmp(word(a->run.setting, ""), word(b->run.setting, ""));
}

static bool same_but_cap(const struct item *a, const struct item *b)
{
    return !strcmp(a->run.group, b->run.group) && a->run.ranks == b->run.ranks &&
           a->run.accumulation == b->run.accumulation && same_setting(a, b);
}

/* What `lockstep whatif` says of bucket caps. */
enum { CAPS_MAX = 32 };
struct answer {
    uint64_t best;
    size_t n;
    struct {
        uint64_t cap;
        double gain, lo, hi; /* of throughput over the current cap's, relative */
    } row[CAPS_MAX];
};

static enum lk_status read_answer(const char *path, struct answer *out)
{
    enum { BYTES, VERDICT, GAIN, LO, HI };
    static const struct lk_csv_column columns_of[] = {{"bucket_cap_bytes", true},
                                                      {"verdict", true},
                                                      {"gain_pct", true},
                                                      {"gain_lo_pct", true},
                                                      {"gain_hi_pct", true}};
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;

    *out = (struct answer){0};
    LK_TRY(lk_csv_load(path, columns_of, LK_COUNT(columns_of), LK_CSV_EXTRA, &t));
    for (size_t i = 0; i < lk_csv_rows(t) && out->n < CAPS_MAX; i++) {
        const char *verdict = "";
        double v[4];

        LK_TRY(lk_csv_real(t, i, BYTES, 1, 1e12, &v[0]));
        for (size_t k = 0; k < 3; k++)
            LK_TRY(lk_csv_real(t, i, GAIN + k, -100, 1e9, &v[1 + k]));
        if (lk_csv_has(t, i, VERDICT))
            LK_TRY(lk_csv_text(t, i, VERDICT, &verdict));
        if (!strcmp(verdict, "best"))
            out->best = (uint64_t)v[0];
        out->row[out->n].cap = (uint64_t)v[0];
        out->row[out->n].gain = v[1] / 100;
        out->row[out->n].lo = v[2] / 100;
        out->row[out->n++].hi = v[3] / 100;
    }
    if (!out->best)
        LK_TRY(lk_fail(LK_EPARSE, "%s: names no best", path));
out:
    lk_csv_free(t);
    return st;
}

/* How many gains of caps over the current one are inside their intervals. */
struct gains {
    size_t n, inside;
    double width; /* sum */
};

/* Ask the command itself, with the evidence as files beside the run. `caps`: a list. */
static enum lk_status ask_whatif(const char *lockstep, const struct net_run *like, const char *caps,
                                 struct answer *out)
{
    enum lk_status st = LK_OK;
    struct lk_job job = {0};
    struct lk_cluster cluster = {0};
    char *base = NULL, *job_path = NULL, *cluster_path = NULL, *csv = NULL, *command = NULL;

    LK_TRY(lk_asprintf(&base, "%s.whatif", like->hosts));
    LK_TRY(lk_asprintf(&job_path, "%s.job.json", base));
    LK_TRY(lk_asprintf(&cluster_path, "%s.cluster.json", base));
    LK_TRY(lk_asprintf(&csv, "%s.csv", base));
    LK_TRY(read_evidence(like, &job, &cluster));
    LK_TRY(lk_job_write(job_path, &job));
    LK_TRY(lk_cluster_write(cluster_path, &cluster));
    LK_TRY(lk_asprintf(&command,
                       "'%s' whatif '%s' '%s' --gpus=%d --accumulation=%d --bucket-cap=%s "
                       "--csv='%s' > /dev/null",
                       lockstep, job_path, cluster_path, like->ranks, like->accumulation, caps,
                       csv));
    if (system(command) != 0)
        LK_TRY(lk_fail(LK_EIO, "failed: %s", command));
    LK_TRY(read_answer(csv, out));
out:
    free(command);
    free(csv);
    free(cluster_path);
    free(job_path);
    free(base);
    lk_cluster_fini(&cluster);
    lk_job_fini(&job);
    return st;
}

/* Return the run that differs from items[at] in the cap alone and has this one; NULL: none. */
static const struct item *with_cap(const struct item *items, size_t n, size_t at, uint64_t cap)
{
    for (size_t i = at; i < n; i++)
        if (same_but_cap(&items[i], &items[at]) && items[i].run.cap_bytes == cap &&
            counts(&items[i]))
            return &items[i];
    return NULL;
}

/* Add the answer's gains over the current cap, the one whose gain is surely none, to the tally. */
static void add_gains(const struct answer *a, const struct item *items, size_t n, size_t at,
                      struct gains *io)
{
    const struct item *current = NULL;

    for (size_t i = 0; i < a->n; i++)
        if (a->row[i].gain == 0 && a->row[i].lo == 0 && a->row[i].hi == 0)
            current = with_cap(items, n, at, a->row[i].cap);
    for (size_t i = 0; i < a->n && current; i++) {
        const struct item *other = with_cap(items, n, at, a->row[i].cap);
        double gain = other ? current->measured_s / other->measured_s - 1 : NAN;

        if (!other || other == current)
            continue;
        io->n++;
        io->inside += gain >= a->row[i].lo && gain <= a->row[i].hi;
        io->width += a->row[i].hi - a->row[i].lo;
    }
}

/* Note how much slower the cap that whatif names is than the best measured one, of the runs that
 * differ from items[at] in the cap alone. */
static enum lk_status note_cap(const char *lockstep, const struct item *items, size_t n, size_t at,
                               struct gains *gains, struct lk_table *t)
{
    enum lk_status st = LK_OK;
    const struct item *named, *best = &items[at];
    struct answer answer = {0};
    char caps[512] = "";
    size_t n_caps = 0, used = 0;

    for (size_t i = 0; i < n && counts(best); i++) {
        if (!same_but_cap(&items[i], &items[at]) || !counts(&items[i]))
            continue;
        if (i < at || used >= sizeof caps)
            return LK_OK; /* told already */
        used += (size_t)snprintf(caps + used, sizeof caps - used, "%s%" PRIu64 "B",
                                 n_caps ? "," : "", items[i].run.cap_bytes);
        n_caps++;
        if (items[i].measured_s < best->measured_s)
            best = &items[i];
    }
    if (n_caps < 2)
        return LK_OK;
    LK_TRY(ask_whatif(lockstep, &items[at].run, caps, &answer));
    named = with_cap(items, n, at, answer.best);
    if (!named)
        return lk_table_note(
            t, "%s, %d ranks: whatif names the current cap, %" PRIu64 ", which no run has",
            items[at].run.group, items[at].run.ranks, answer.best);
    add_gains(&answer, items, n, at, gains);
    LK_TRY(lk_table_note(t,
                         "%s, %d ranks: of %zu caps whatif names %s, %s was best: %.1f %% slower",
                         named->run.group, named->run.ranks, n_caps, named->run.cap, best->run.cap,
                         100 * (named->measured_s / best->measured_s - 1)));
out:
    return st;
}

/* Note how well the ratio of two accumulations is forecast; no evidence has any but 1. */
static enum lk_status note_accumulation(const struct item *v, size_t n, struct lk_table *t)
{
    double sum = 0, worst = 0;
    size_t pairs = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            double e;

            if (!counts(&v[i]) || !counts(&v[k]) || v[i].run.accumulation != 1 ||
                v[k].run.accumulation == 1 || v[i].run.ranks != v[k].run.ranks ||
                v[i].run.cap_bytes != v[k].run.cap_bytes || !same_setting(&v[i], &v[k]) ||
                strcmp(v[i].run.group, v[k].run.group) != 0)
                continue;
            e = fabs(v[k].predicted_s[OURS] / v[i].predicted_s[OURS] * v[i].measured_s /
                         v[k].measured_s -
                     1);
            sum += e;
            worst = fmax(worst, e);
            pairs++;
        }
    return pairs ? lk_table_note(t,
                                 "steps of %zu pairs of accumulations: error of their ratio, mean "
                                 "%.1f %%, worst %.1f %%",
                                 pairs, 100 * sum / (double)pairs, 100 * worst)
                 : LK_OK;
}

static enum lk_status note_errors(const char *lockstep, const struct item *items, size_t n,
                                  struct lk_table *t)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;
    struct gains gains = {0};
    struct lk_score score;
    size_t left_out = 0, evidence = 0;

    for (size_t i = 0; i < n; i++) {
        left_out += !counts(&items[i]);
        evidence += counts(&items[i]) && is_evidence(&items[i]);
    }
    LK_TRY(lk_alloc(&v, n, sizeof *v));
    for (enum model m = 0; m < MODELS; m++) {
        size_t k = 0;

        for (size_t i = 0; i < n; i++)
            if (counts(&items[i]) && !is_evidence(&items[i]))
                v[k++] = (struct lk_scored){items[i].measured_s, items[i].predicted_s[m],
                                            items[i].lo_s, items[i].hi_s};
        LK_TRY(lk_score_of(v, k, LEVEL, &score));
        if (m == OURS)
            LK_TRY(lk_score_note(&score, t));
        else
            LK_TRY(lk_table_note(t, "%s: error mean %.1f %%, worst %.1f %%", model_names[m],
                                 100 * score.errors.mean, 100 * score.errors.worst));
    }
    LK_TRY(lk_table_note(t, "%zu of %zu rows left out: over %.0f %% of the processors", left_out, n,
                         100 * cpu_most));
    if (evidence)
        LK_TRY(lk_table_note(t, "%zu more are evidence: not scored, others' gains are over them",
                             evidence));
    for (size_t i = 0; i < n; i++)
        LK_TRY(note_cap(lockstep, items, n, i, &gains, t));
    LK_TRY(note_accumulation(items, n, t));
    if (gains.n)
        LK_TRY(lk_table_note(t,
                             "gains of a cap over the current one: %zu of %zu inside their %.0f %% "
                             "interval, mean width %.1f points",
                             gains.inside, gains.n, 100 * LEVEL,
                             100 * gains.width / (double)gains.n));
out:
    free(v);
    return st;
}

static enum lk_status compare(const char *lockstep, const char *list, const char *results)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;
    struct item *items = NULL;
    struct lk_table *t = NULL;
    size_t n = 0;

    LK_TRY(net_list_load(list, &csv));
    LK_TRY(lk_alloc(&items, lk_csv_rows(csv), sizeof *items));
    LK_TRY(lk_table_create("Runs on shaped links, forecast from 1 and 2 ranks", columns,
                           LK_COUNT(columns), &t));
    for (; n < lk_csv_rows(csv); n++) {
        LK_TRY(net_list_row(csv, n, &items[n].run));
        LK_TRY(net_run_step_s(&items[n].run, &items[n].measured_s));
        LK_TRY(read_cpu(items[n].run.hosts, &items[n].cpu_share));
        for (enum model m = 0; m < MODELS; m++)
            LK_TRY(forecast(&items[n], m));
        LK_TRY(add_row(&items[n], t));
    }
    LK_TRY(note_errors(lockstep, items, n, t));
    if (results)
        LK_TRY(lk_report_table(t, LK_FORMAT_CSV, results));
    LK_TRY(lk_report_table(t, LK_FORMAT_TEXT, "-"));
out:
    lk_table_destroy(t);
    free(items);
    lk_csv_free(csv);
    return st;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: net LOCKSTEP LIST.csv [RESULTS.csv [SHARE]]\n");
        return 2;
    }
    if (argc == 5)
        cpu_most = strtod(argv[4], NULL);
    if (compare(argv[1], argv[2], argc > 3 ? argv[3] : NULL) != LK_OK) {
        fprintf(stderr, "net: %s\n", lk_error_text());
        return 1;
    }
    return 0;
}
