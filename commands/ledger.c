/* Ledgers: where they are, and how forecasts get into them. Scores: commands/ledger_score.c. */
#include "commands/ledger.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "commands/ledger_impl.h"
#include "facts/preset.h"
#include "sim/forecast/site.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEPT_MAX = 256 /* answers to a question */ };

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

/* Set the SHA-256 of bytes in hexadecimal. */
static enum lk_status digest(const char *text, size_t size, char **out)
{
    unsigned char sum[LK_SHA256_BYTES];
    struct lk_sha256 h;

    lk_sha256_init(&h);
    lk_sha256_add(&h, text, size);
    lk_sha256_end(&h, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        LK_PASS(lk_text_add(out, "%02x", sum[i]));
    return LK_OK;
}

/* Set that of a file; NULL: it is none. */
static enum lk_status digest_file(const char *path, char **out)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    size_t size;

    if (!lk_is_file(path))
        return LK_OK;
    LK_TRY(lk_file_read(path, &text, &size));
    LK_TRY(digest(text, size, out));
out:
    free(text);
    return st;
}

/* Set that of a job: of its file, of a folder's job.json, or, of a folder of runs, of the job file
 * that they make. */
static enum lk_status digest_job(const char *path, const struct lk_job *j, char **out)
{
    enum lk_status st = LK_OK;
    char *file = NULL, *text = NULL;
    size_t size;

    if (lk_is_folder(path))
        LK_TRY(lk_path_join(&file, path, "job.json"));
    LK_TRY(digest_file(file ? file : path, out));
    if (*out)
        goto out;
    LK_TRY(lk_record_save_text(&lk_job_record, j, &text, &size));
    LK_TRY(digest(text, size, out));
out:
    free(text);
    free(file);
    return st;
}

/* Set that of a cluster's or a preset's file; NULL: none was given. */
static enum lk_status digest_cluster(const char *name, char **out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    if (!name)
        return LK_OK;
    LK_TRY(lk_preset_find(NULL, name, &path));
    LK_TRY(digest_file(path, out));
out:
    free(path);
    return st;
}

static enum lk_status copy(const char *text, char **out)
{
    return text ? lk_strdup(out, text) : LK_OK;
}

/* Fill what all answers to a question have. */
static enum lk_status describe(const struct ledger *l, const struct ledger_question *q,
                               struct lk_ledger_forecast *out)
{
    char date[LEDGER_DATE_BYTES];

    ledger_date(lk_epoch_ns(), date);
    LK_PASS(lk_strdup(&out->date, date));
    LK_PASS(lk_strdup(&out->program, ledger_program()));
    LK_PASS(lk_strdup(&out->question, q->text));
    LK_PASS(lk_strdup(&out->job, q->is_table ? ledger_base(q->file) : q->job->name));
    out->gradient_bytes = q->is_table ? 0 : lk_job_gradient_bytes(q->job);
    LK_PASS(lk_strdup(&out->job_file, q->file));
    LK_PASS(q->is_table ? digest_file(q->file, &out->job_sha256)
                        : digest_job(q->file, q->job, &out->job_sha256));
    LK_PASS(copy(q->cluster->name, &out->cluster));
    LK_PASS(copy(q->cluster->gpu, &out->device));
    LK_PASS(digest_cluster(q->cluster_file, &out->cluster_sha256));
    out->level = q->level;
    out->site_factor = l->factor;
    return LK_OK;
}

/* ---- Keeping ---- */

/* Return true if a run could measure it, and none has: with gradients of the dtype that they have.
 */
static bool can_be_scored(const struct ledger_answer *a)
{
    return isfinite(a->step_s) && a->lo_s > 0 && isfinite(a->hi_s) && isnan(a->measured_s) &&
           a->config->grad_dtype == LK_GRAD_OWN;
}

/* Add a note unless the page has it: a command may ask several questions. */
static enum lk_status note_once(struct lk_page *page, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static enum lk_status note_once(struct lk_page *page, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (size_t i = 0; i < page->n_notes; i++)
        if (!strcmp(page->notes[i], text))
            return LK_OK;
    return lk_page_note(page, "%s", text);
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

/* Note what the site's errors made of the intervals. */
static enum lk_status note_factor(const struct ledger *l, struct lk_page *page)
{
    if (l->factor == 1)
        return LK_OK;
    return note_once(page,
                     "the intervals are %.2f times what they would be without the errors of "
                     "%zu job%s in %s",
                     l->factor, l->jobs, l->jobs == 1 ? "" : "s", l->path);
}

enum lk_status ledger_keep(const struct ledger *l, const struct ledger_question *q,
                           const struct ledger_answer *v, size_t n_answers, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_ledger_forecast all = {0};
    struct lk_ledger_line *lines = NULL;
    size_t n = 0;
    char id[64];

    if (!l->path)
        return LK_OK;
    LK_TRY(note_factor(l, page));
    if (q->unwanted) {
        st = note_once(page, "not kept for later runs to score: %s", q->unwanted);
        goto out;
    }
    LK_TRY(describe(l, q, &all));
    LK_TRY(lk_alloc(&lines, KEPT_MAX, sizeof *lines));
    for (const struct ledger_answer *a = v; a < v + n_answers && n < KEPT_MAX; a++) {
        struct lk_ledger_forecast *out = &lines[n].forecast;

        if (!can_be_scored(a))
            continue;
        *out = all; /* the texts are borrowed */
        out->config = *a->config;
        out->step_s = a->step_s;
        out->lo_s = a->lo_s;
        out->hi_s = a->hi_s;
        out->evidence = a->evidence;
        if (lk_ledger_has(&l->past, &lines[n]))
            continue;
        snprintf(id, sizeof id, "%llx-%lx-%zu", (unsigned long long)lk_epoch_ns(), (long)getpid(),
                 n);
        LK_TRY(lk_strdup(&out->id, id));
        n++;
    }
    LK_TRY(append(l, lines, n, page));
out:
    for (size_t i = 0; i < n; i++)
        free(lines[i].forecast.id);
    free(lines);
    lk_record_fini(&lk_ledger_record, &(struct lk_ledger_line){.forecast = all});
    return st;
}
