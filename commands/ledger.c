/* Ledgers: where they are, and how forecasts get into them. Scores: commands/ledger_score.c. */
#include "commands/ledger.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "commands/command.h"
#include "commands/evidence_inputs.h"
#include "commands/ledger_impl.h"
#include "sim/forecast/site.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEPT_MAX = 256 /* points of a forecast */ };

/* ---- Places and times ---- */

void ledger_date(uint64_t epoch_ns, char out[LEDGER_DATE_BYTES])
{
    time_t s = (time_t)(epoch_ns / LK_NS_PER_S);
    struct tm t;

    *out = '\0';
    if (gmtime_r(&s, &t))
        (void)strftime(out, LEDGER_DATE_BYTES, "%Y-%m-%dT%H:%M:%SZ", &t);
}

const char *ledger_program(void)
{
    return *LK_COMMIT ? LK_VERSION " " LK_COMMIT : LK_VERSION;
}

const char *ledger_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

enum lk_status ledger_folder(const char *path, char **out)
{
    const char *slash = strrchr(path, '/');

    if (lk_is_folder(path))
        return lk_strdup(out, path);
    if (!slash)
        return lk_strdup(out, ".");
    return lk_asprintf(out, "%.*s", (int)(slash == path ? 1 : slash - path), path);
}

/* Set the path of the ledger; NULL: none is kept. */
static enum lk_status find_path(const char *option, const char *beside, char **out)
{
    enum lk_status st = LK_OK;
    const char *word = option ? option : getenv(LEDGER_ENV);
    char *folder = NULL;

    if (word && !strcmp(word, LEDGER_NONE))
        return LK_OK;
    if (word && *word)
        return lk_strdup(out, word);
    LK_TRY(ledger_folder(beside, &folder));
    LK_TRY(lk_path_join(out, folder, LK_LEDGER_FILE));
out:
    free(folder);
    return st;
}

void ledger_close(struct ledger *l)
{
    lk_ledger_fini(&l->past);
    free(l->path);
    *l = (struct ledger){0};
}

enum lk_status ledger_open(const char *option, const char *beside, struct ledger *out)
{
    enum lk_status st = LK_OK;
    struct ledger l = {.factor = 1};
    struct lk_ledger_pair *pairs = NULL;
    size_t n = 0;

    LK_TRY(find_path(option, beside, &l.path));
    if (!l.path)
        goto out;
    st = lk_ledger_read(l.path, &l.past);
    if (st == LK_EIO || st == LK_EPARSE) {
        lk_log(LK_LOG_MAIN, LK_WARN, "%s; the ledger is not used", lk_error_text());
        free(l.path);
        l.path = NULL;
        st = LK_OK;
        goto out;
    }
    LK_TRY(st);
    LK_TRY(lk_ledger_pairs(&l.past, &pairs, &n));
    if (n)
        LK_TRY(lk_site_factor(pairs, n, &l.factor, &l.jobs));
out:
    free(pairs);
    if (st == LK_OK)
        *out = l;
    else
        ledger_close(&l);
    return st;
}

/* ---- A question ---- */

/* Set the SHA-256 of a file's bytes in hexadecimal; NULL: it is no file. */
static enum lk_status digest(const char *path, char **out)
{
    enum lk_status st = LK_OK;
    unsigned char sum[LK_SHA256_BYTES];
    struct lk_sha256 h;
    char *text = NULL;
    size_t size;

    if (!path || !lk_is_file(path))
        return LK_OK;
    LK_TRY(lk_file_read(path, &text, &size));
    lk_sha256_init(&h);
    lk_sha256_add(&h, text, size);
    lk_sha256_end(&h, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        LK_TRY(lk_text_add(out, "%02x", sum[i]));
out:
    free(text);
    return st;
}

/* Set the SHA-256 of a job: of its file, of a folder's job.json; NULL: of runs. */
static enum lk_status digest_job(const char *path, char **out)
{
    enum lk_status st = LK_OK;
    char *file = NULL;

    if (lk_is_folder(path))
        LK_TRY(lk_path_join(&file, path, "job.json"));
    LK_TRY(digest(file ? file : path, out));
out:
    free(file);
    return st;
}

/* Set the command line, with the options that are not at their defaults. */
static enum lk_status ask_again(const struct ledger_question *q, char **out)
{
    enum lk_status st = LK_OK;
    char **argv = NULL, *line = NULL;

    LK_TRY(lk_command_argv(q->command, q->options, NULL, &argv));
    LK_TRY(lk_text_add(&line, "%s %s", argv[0], argv[1]));
    for (int i = 0; i < q->n_operands; i++)
        LK_TRY(lk_text_add(&line, " %s", q->operands[i]));
    for (size_t i = 2; argv[i]; i++)
        LK_TRY(lk_text_add(&line, " %s", argv[i]));
    LK_HAND_OVER(out, line);
out:
    free(line);
    lk_argv_free(argv);
    return st;
}

static enum lk_status copy(const char *text, char **out)
{
    return text ? lk_strdup(out, text) : LK_OK;
}

/* Fill what all points of a question have. */
static enum lk_status describe(const struct ledger *l, const struct ledger_question *q,
                               const struct lk_forecast *f, struct lk_ledger_forecast *out)
{
    const char *file = q->table ? q->table : q->operands[0];
    char date[LEDGER_DATE_BYTES];

    ledger_date(lk_epoch_ns(), date);
    LK_PASS(lk_strdup(&out->date, date));
    LK_PASS(lk_strdup(&out->program, ledger_program()));
    LK_PASS(ask_again(q, &out->question));
    LK_PASS(lk_strdup(&out->job, q->table ? ledger_base(q->table) : q->inputs->job.name));
    out->gradient_bytes = q->table ? 0 : lk_job_gradient_bytes(&q->inputs->job);
    LK_PASS(lk_strdup(&out->job_file, file));
    LK_PASS(digest_job(file, &out->job_sha256));
    LK_PASS(copy(q->inputs->cluster.name, &out->cluster));
    LK_PASS(copy(q->inputs->cluster.gpu, &out->device));
    if (!q->table)
        LK_PASS(digest(q->operands[1], &out->cluster_sha256));
    out->level = f->level;
    out->site_factor = l->factor;
    return LK_OK;
}

/* ---- Keeping ---- */

/* Return true if a run could measure it, and none has: by the algorithm that the cluster chooses,
 * with gradients of the dtype that they have. */
static bool can_be_scored(const struct lk_forecast_point *p)
{
    return isfinite(p->step_s) && p->step_lo_s > 0 && isfinite(p->step_hi_s) &&
           isnan(p->measured_step_s) && p->config.algo == LK_ALGO_AUTO &&
           p->config.grad_dtype == LK_GRAD_OWN;
}

/* Return true if the request changes the machine: no run of the one as it is tells of that. */
static bool is_of_other_machines(const struct lk_forecast_request *q)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n && lk_axis_role((enum lk_axis)a) != LK_AXIS_SETTING)
            return true;
    return false;
}

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

/* Return true if the ledger's newest forecast of the configuration says the same from the same. */
static bool is_kept(const struct lk_ledger *l, const struct lk_ledger_forecast *f)
{
    const struct lk_ledger_forecast *old = lk_ledger_newest(l, f);

    return old && old->step_s == f->step_s && old->lo_s == f->lo_s && old->hi_s == f->hi_s &&
           old->level == f->level && same_text(old->job_sha256, f->job_sha256) &&
           same_text(old->cluster_sha256, f->cluster_sha256);
}

/* Append the lines, or note why not. */
static enum lk_status append(const struct ledger *l, const struct lk_ledger_line *lines, size_t n,
                             struct lk_page *page)
{
    enum lk_status st = n ? lk_ledger_append(l->path, lines, n) : LK_OK;

    if (st == LK_EIO)
        return lk_page_note(page,
                            "the forecast is not kept for later runs to score (%s): --ledger=FILE "
                            "keeps it elsewhere, --ledger=" LEDGER_NONE " does not keep it",
                            lk_error_text());
    if (st == LK_OK && n && !l->past.n) /* once; the file is new */
        st =
            lk_page_next(page, "kept in %s: the next run of this job is compared with it", l->path);
    return st;
}

enum lk_status ledger_keep(const struct ledger *l, const struct ledger_question *q,
                           const struct lk_forecast *f, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_ledger_forecast all = {0};
    struct lk_ledger_line *lines = NULL;
    size_t n = 0;
    const struct lk_forecast_request *request = &q->inputs->request.grid;
    char id[64];

    if (!l->path || is_of_other_machines(request))
        return LK_OK;
    LK_TRY(describe(l, q, f, &all));
    LK_TRY(lk_alloc(&lines, KEPT_MAX, sizeof *lines));
    for (size_t i = 0; i < f->n_points && n < KEPT_MAX; i++) {
        const struct lk_forecast_point *p = &f->points[i];
        struct lk_ledger_forecast *out = &lines[n].forecast;

        if (!can_be_scored(p) || (request->compare && p->gain.verdict != LK_VERDICT_BEST))
            continue;
        *out = all; /* the texts are borrowed */
        snprintf(id, sizeof id, "%llx-%lx-%zu", (unsigned long long)lk_epoch_ns(), (long)getpid(),
                 i);
        out->config = p->config;
        out->step_s = p->step_s;
        out->lo_s = p->step_lo_s;
        out->hi_s = p->step_hi_s;
        out->evidence = p->evidence;
        if (is_kept(&l->past, out))
            continue;
        LK_TRY(lk_strdup(&out->id, id));
        n++;
    }
    LK_TRY(append(l, lines, n, page));
    if (l->factor != 1)
        LK_TRY(lk_page_note(page,
                            "the intervals are %.2f times what they would be without the errors of "
                            "%zu job%s in %s",
                            l->factor, l->jobs, l->jobs == 1 ? "" : "s", l->path));
out:
    for (size_t i = 0; i < n; i++)
        free(lines[i].forecast.id);
    free(lines);
    lk_record_fini(&lk_ledger_record, &(struct lk_ledger_line){.forecast = all});
    return st;
}
