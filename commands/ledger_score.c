/* Scores of forecasts: by what runs measured, and the page of `validate --ledger`. */
#include "commands/ledger_score.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/label.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/units.h"
#include "commands/ledger_impl.h"
#include "facts/ledger.h"
#include "facts/score.h"
#include "profiler/analysis/job_build.h"
#include "sim/forecast/site.h"
#include "sim/step/measured_runs.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BESIDE_MAX = 1000, /* folders beside a run's that are looked into */
    SAID_MAX = 3       /* scores that are said; the others are counted */
};

/* ---- Ledgers that may know a run ---- */

struct places {
    char **v;
    size_t n, capacity;
};

/* Add the ledger of a folder, if it has one. */
static enum lk_status add_place(struct places *p, const char *folder)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_path_join(&path, folder, LK_LEDGER_FILE));
    if (lk_is_file(path))
        st = lk_names_add(&p->v, &p->n, &p->capacity, path);
out:
    free(path);
    return st;
}

/* Add those of the folders beside one. */
static enum lk_status add_beside(struct places *p, const char *parent, const char *own)
{
    enum lk_status st = LK_OK;
    char **names = NULL, *path = NULL;
    size_t n = 0;

    st = lk_dir_list(parent, "", &names, &n);
    if (st != LK_OK)
        return st == LK_EIO ? LK_OK : st; /* it may not be read, and then has no ledgers for us */
    for (size_t i = 0; i < n && i < BESIDE_MAX; i++) {
        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, parent, names[i]));
        if (strcmp(names[i], own) != 0)
            LK_TRY(add_place(p, path));
    }
out:
    free(path);
    lk_names_free(names, n);
    return st;
}

/* Add those of a folder, of the one that it lies in, and of the folders beside it. */
static enum lk_status add_around(struct places *p, const char *folder)
{
    enum lk_status st = LK_OK;
    char full[PATH_MAX], *parent = NULL, *slash;

    if (!realpath(folder, full))
        return LK_OK;
    slash = strrchr(full, '/');
    LK_TRY(add_place(p, full));
    if (!slash[1]) /* the root */
        goto out;
    LK_TRY(lk_asprintf(&parent, "%.*s", slash == full ? 1 : (int)(slash - full), full));
    LK_TRY(add_place(p, parent));
    LK_TRY(add_beside(p, parent, slash + 1));
out:
    free(parent);
    return st;
}

static bool has_place(const struct places *p, const char *path)
{
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(p->v[i], path))
            return true;
    return false;
}

/* Add that of the job that was replayed, unless it is there already. */
static enum lk_status add_of_job(struct places *p, const char *job)
{
    enum lk_status st = LK_OK;
    char full[PATH_MAX], *folder = NULL, *path = NULL;

    LK_TRY(ledger_folder(job, &folder));
    if (!realpath(folder, full))
        goto out;
    LK_TRY(lk_path_join(&path, full, LK_LEDGER_FILE));
    if (!has_place(p, path))
        st = add_place(p, full);
out:
    free(path);
    free(folder);
    return st;
}

static enum lk_status find_places(const char *run, const char *replayed, struct places *out)
{
    const char *word = getenv(LEDGER_ENV);
    enum lk_status st = LK_OK;
    char *folder = NULL;

    if (word && !strcmp(word, LEDGER_NONE))
        return LK_OK;
    if (word && *word)
        return lk_is_file(word) ? lk_names_add(&out->v, &out->n, &out->capacity, word) : LK_OK;
    LK_TRY(ledger_folder(run, &folder));
    LK_TRY(add_around(out, folder));
    if (replayed)
        st = add_of_job(out, replayed);
out:
    free(folder);
    return st;
}

/* ---- Scores of runs ---- */

/* An outcome is what was measured of one configuration since a forecast. */
struct outcome {
    double sum_s;
    int n;
    const char *run; /* the last of them */
};

/* Return when a run of the job began, as lines have dates; "": not known. */
static void began(const struct lk_job_run *r, const struct lk_run_set *set,
                  char out[LEDGER_DATE_BYTES])
{
    const uint64_t known_ns =
        UINT64_C(946684800) * LK_NS_PER_S; /* 2000: clocks before are not set */

    *out = '\0';
    for (size_t i = 0; set && i < set->n; i++)
        if (set->runs[i].n && !strcmp(set->runs[i].dir, r->source) &&
            set->runs[i].traces[0].base_epoch_ns > known_ns)
            ledger_date(set->runs[i].traces[0].base_epoch_ns, out);
}

static double mean_step(const struct lk_job_run *r)
{
    return lk_stats_mean(r->step_s, r->n_steps);
}

/* Sum up the runs of the configuration of run i that began after a date. */
static struct outcome sum_up(const struct lk_job *job, const struct lk_run_set *set, size_t i,
                             const char *after)
{
    struct outcome o = {0};

    for (size_t k = 0; k < job->n_runs; k++) {
        const struct lk_job_run *r = &job->runs[k];
        char date[LEDGER_DATE_BYTES];

        began(r, set, date);
        if (!lk_runs_same_config(&r->config, &job->runs[i].config) ||
            (*date && strcmp(date, after) < 0))
            continue;
        o.sum_s += mean_step(r);
        o.n++;
        o.run = r->source;
    }
    return o;
}

/* Add the numbers of a scored forecast, which gates and programs read. */
static enum lk_status add_values(const struct lk_ledger_pair *p, struct lk_page *page)
{
    const struct lk_ledger_forecast *f = p->forecast;
    double measured_s = p->score->measured_s;
    const struct {
        const char *name;
        enum lk_dimension dim;
        double value;
    } rows[] = {{"forecast_s", LK_DIM_TIME, f->step_s},
                {"forecast_lo_s", LK_DIM_TIME, f->lo_s},
                {"forecast_hi_s", LK_DIM_TIME, f->hi_s},
                {"forecast_measured_s", LK_DIM_TIME, measured_s},
                {"forecast_inside", LK_DIM_NONE, measured_s >= f->lo_s && measured_s <= f->hi_s}};
    enum lk_status st = LK_OK;
    char *labels = NULL;

    LK_TRY(lk_label_add(&labels, "gpus", "%d", f->config.world_size));
    LK_TRY(lk_label_add(&labels, "local_batch", "%d", f->config.local_batch));
    LK_TRY(lk_label_add(&labels, "accumulation", "%d", f->config.accumulation));
    LK_TRY(lk_label_add(&labels, "forecast", "%s", f->id));
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        LK_TRY(lk_page_value(page, rows[i].name, labels, rows[i].dim, rows[i].value));
out:
    free(labels);
    return st;
}

/* Say how a forecast came out; *said counts. */
static enum lk_status say(const struct lk_ledger_pair *p, size_t *said, struct lk_page *page)
{
    const struct lk_ledger_forecast *f = p->forecast;
    double measured_s = p->score->measured_s;
    char step[32], interval[96], measured[32], off[48] = "";
    const char *where = "inside";

    LK_PASS(add_values(p, page));
    (void)lk_units_format(LK_DIM_TIME, f->step_s, step, sizeof step);
    (void)lk_units_interval(LK_DIM_TIME, f->step_s, f->lo_s, f->hi_s, interval, sizeof interval);
    (void)lk_units_format(LK_DIM_TIME, measured_s, measured, sizeof measured);
    if (measured_s > f->hi_s || measured_s < f->lo_s) {
        where = "outside";
        snprintf(off, sizeof off, ", the forecast was %.0f %% too %s",
                 100 * fabs(f->step_s / measured_s - 1), measured_s > f->hi_s ? "low" : "high");
    }
    if (++*said > SAID_MAX)
        return LK_OK;
    return lk_page_say(page, "Last forecast for %d GPU%s: %s (%s), measured %s: %s%s.",
                       f->config.world_size, f->config.world_size == 1 ? "" : "s", step, interval,
                       measured, where, off);
}

static enum lk_status append(const char *path, const struct lk_ledger_score *score,
                             struct lk_page *page)
{
    const struct lk_ledger_line line = {.score = *score};
    enum lk_status st = lk_ledger_append(path, &line, 1);

    return st == LK_EIO ? lk_page_note(page, "the score is not kept: %s", lk_error_text()) : st;
}

/* Score the newest forecast of the configuration of run i of the job. */
static enum lk_status score_run(const char *path, const struct lk_ledger *l,
                                const struct lk_job *job, size_t i, const struct lk_run_set *set,
                                size_t *said, struct lk_page *page)
{
    const struct lk_job_run *r = &job->runs[i];
    const struct lk_ledger_forecast of = {.job = job->name,
                                          .gradient_bytes = lk_job_gradient_bytes(job),
                                          .device = lk_job_run_place(job, r)->device,
                                          .config = r->config};
    const struct lk_ledger_forecast *f = lk_ledger_newest(l, &of);
    const struct lk_ledger_score *old = f ? lk_ledger_score_of(l, f->id) : NULL;
    struct lk_ledger_score score;
    struct outcome o;
    char date[LEDGER_DATE_BYTES];

    if (!f)
        return LK_OK;
    o = sum_up(job, set, i, f->date);
    if (!o.n || (old && strcmp(old->run, o.run) != 0))
        return LK_OK;
    if (old)
        return say(&(struct lk_ledger_pair){f, old}, said, page);
    ledger_date(lk_epoch_ns(), date);
    score = (struct lk_ledger_score){.forecast = f->id,
                                     .date = date,
                                     .program = (char *)(uintptr_t)ledger_program(),
                                     .run = (char *)(uintptr_t)o.run,
                                     .n_runs = o.n,
                                     .measured_s = o.sum_s / o.n};
    LK_PASS(append(path, &score, page));
    return say(&(struct lk_ledger_pair){f, &score}, said, page);
}

/* Return true if no run of the job before run i is of its configuration. */
static bool is_first(const struct lk_job *job, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (lk_runs_same_config(&job->runs[k].config, &job->runs[i].config))
            return false;
    return job->runs[i].n_steps > 0;
}

static enum lk_status score_by(const char *path, const struct lk_job *job,
                               const struct lk_run_set *set, size_t *said, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_ledger l = {0};

    st = lk_ledger_read(path, &l);
    if (st == LK_EIO || st == LK_EPARSE) {
        lk_log(LK_LOG_MAIN, LK_WARN, "%s; the ledger is not used", lk_error_text());
        return LK_OK;
    }
    LK_TRY(st);
    for (size_t i = 0; i < job->n_runs; i++)
        if (is_first(job, i))
            LK_TRY(score_run(path, &l, job, i, set, said, page));
out:
    lk_ledger_fini(&l);
    return st;
}

enum lk_status ledger_score(const char *folder, const struct lk_job *job,
                            const struct lk_run_set *set, const char *replayed,
                            struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct places p = {0};
    size_t said = 0;

    LK_TRY(find_places(folder, replayed, &p));
    for (size_t i = 0; i < p.n; i++)
        LK_TRY(score_by(p.v[i], job, set, &said, page));
    if (said > SAID_MAX)
        LK_TRY(lk_page_note(
            page, "%zu forecasts were scored; lockstep validate --ledger lists them", said));
out:
    lk_names_free(p.v, p.n);
    return st;
}

enum lk_status ledger_score_runs(const char *folder, const struct lk_run_set *set,
                                 struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct places p = {0};
    struct lk_run_set read = {0};
    struct lk_job job = {0};

    LK_TRY(find_places(folder, NULL, &p));
    if (!p.n)
        goto out;
    if (!set)
        LK_TRY(lk_run_set_read(&folder, 1, &read));
    st = lk_job_build(set ? set : &read, &job);
    if (st == LK_EEVIDENCE || st == LK_EUSAGE) {
        st = LK_OK;
        goto out;
    }
    LK_TRY(st);
    LK_TRY(ledger_score(folder, &job, set ? set : &read, NULL, page));
out:
    lk_job_fini(&job);
    lk_run_set_fini(&read);
    lk_names_free(p.v, p.n);
    return st;
}

/* ---- The page ---- */

static enum lk_status say_scores(const struct lk_ledger *l, const struct lk_score *s, size_t n,
                                 struct lk_page *page)
{
    size_t forecasts = 0;

    for (size_t i = 0; i < l->n; i++)
        forecasts += l->lines[i].forecast.id != NULL;
    LK_PASS(lk_page_say(page,
                        "%zu of %zu forecasts were scored: %zu inside their intervals (%.0f %%), "
                        "mean error %.1f %%, worst %.1f %%.",
                        n, forecasts, s->inside, 100 * s->share.value, 100 * s->errors.mean,
                        100 * s->errors.worst));
    LK_PASS(lk_page_value(page, "error_mean", "", LK_DIM_NONE, s->errors.mean));
    LK_PASS(lk_page_value(page, "error_worst", "", LK_DIM_NONE, s->errors.worst));
    LK_PASS(lk_page_value(page, "inside_share", "", LK_DIM_NONE, s->share.value));
    return lk_page_value(page, "width_mean", "", LK_DIM_NONE, s->width);
}

static enum lk_status say_factor(const struct lk_ledger_pair *v, size_t n, struct lk_page *page)
{
    double factor;
    size_t jobs;

    LK_PASS(lk_site_factor(v, n, &factor, &jobs));
    LK_PASS(lk_page_value(page, "site_factor", "", LK_DIM_NONE, factor));
    if (fabs(factor - 1) < 0.005)
        return lk_page_say(page, "These errors are as large as the intervals say: the next "
                                 "forecasts are as wide as without them.");
    return lk_page_say(page,
                       "These errors, of %zu job%s, make the intervals of the next forecasts %.0f "
                       "%% %s.",
                       jobs, jobs == 1 ? "" : "s", 100 * fabs(factor - 1),
                       factor > 1 ? "wider" : "narrower");
}

static enum lk_status score_of(const struct lk_ledger_pair *v, size_t n, struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *scored = NULL;

    LK_TRY(lk_alloc(&scored, n, sizeof *scored));
    for (size_t i = 0; i < n; i++)
        scored[i] = (struct lk_scored){.measured = v[i].score->measured_s,
                                       .predicted = v[i].forecast->step_s,
                                       .lo = v[i].forecast->lo_s,
                                       .hi = v[i].forecast->hi_s};
    LK_TRY(lk_score_of(scored, n, v[0].forecast->level, out));
out:
    free(scored);
    return st;
}

enum lk_status ledger_page(const char *path, struct lk_page *page)
{
    static const struct lk_view_column view[] = {LK_VIEW("job"),
                                                 LK_VIEW("gpus"),
                                                 LK_VIEW_RANGE("predicted_s", "lo_s", "hi_s"),
                                                 LK_VIEW("measured_s"),
                                                 LK_VIEW("error_percent"),
                                                 LK_VIEW("inside"),
                                                 {.name = "evidence", .optional = true}};
    enum lk_status st = LK_OK;
    struct lk_ledger l = {0};
    struct lk_ledger_pair *pairs = NULL;
    struct lk_table *t = NULL;
    struct lk_score score;
    char *file = NULL;
    size_t n = 0;

    if (lk_is_folder(path))
        LK_TRY(lk_path_join(&file, path, LK_LEDGER_FILE));
    path = file ? file : path;
    if (!lk_file_exists(path))
        LK_TRY(
            lk_fail(LK_EIO, "%s: no such ledger; lockstep predict makes one beside its job", path));
    LK_TRY(lk_ledger_read(path, &l));
    LK_TRY(lk_ledger_pairs(&l, &pairs, &n));
    if (!n)
        LK_TRY(lk_fail(LK_EEVIDENCE,
                       "%s: none of its %zu forecasts was scored: no run of their configurations "
                       "has been measured since",
                       path, l.n));
    LK_TRY(score_of(pairs, n, &score));
    LK_TRY(say_scores(&l, &score, n, page));
    LK_TRY(say_factor(pairs, n, page));
    if (l.n_damaged)
        LK_TRY(lk_page_note(page, "%zu line%s of %s could not be read", l.n_damaged,
                            l.n_damaged == 1 ? "" : "s", path));
    LK_TRY(lk_ledger_table(pairs, n, &t));
    LK_TRY(lk_page_table(page, "ledger", LK_PAGE_MAIN, view, LK_COUNT(view), &t));
out:
    lk_table_destroy(t);
    free(pairs);
    free(file);
    lk_ledger_fini(&l);
    return st;
}
