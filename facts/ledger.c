/* Ledgers of forecasts: a line as rows, the file, matching, the table of scores. */
#include "facts/ledger.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "facts/config_rows.h"
#include "facts/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A line ---- */

static bool has_forecast(const void *base)
{
    return ((const struct lk_ledger_forecast *)base)->id != NULL;
}

static bool has_score(const void *base)
{
    return ((const struct lk_ledger_score *)base)->forecast != NULL;
}

static enum lk_status check_forecast(struct lk_json *v, void *base)
{
    const struct lk_ledger_forecast *f = base;

    if (!(f->lo_s <= f->step_s && f->step_s <= f->hi_s))
        return lk_json_error(v, "the step is outside its interval");
    return f->level > 0 && f->level < 1 ? LK_OK : lk_json_error(v, "level is not between 0 and 1");
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_ledger_forecast, field, key, __VA_ARGS__)
static const struct lk_member forecast_rows[] = {
    ROW(id, "id", TEXT, REQUIRED, .help = "what its score names"),
    ROW(date, "date", TEXT, REQUIRED, .help = "when it was made, UTC"),
    ROW(program, "program", TEXT, REQUIRED, .help = "version and commit of the program"),
    ROW(question, "question", TEXT, REQUIRED, .help = "the command line"),
    ROW(job, "job", TEXT, REQUIRED, .help = "name of the job, or of the table of throughputs"),
    ROW(gradient_bytes, "gradient_bytes", UINT, SPARSE, .help = "bytes of the job's gradients",
        .without = "not known"),
    ROW(job_file, "job_file", TEXT, REQUIRED, .help = "where the job or the table is"),
    ROW(job_sha256, "job_sha256", TEXT, SPARSE,
        .help = "SHA-256 of that file; of a folder of runs, of the job file that they make",
        .without = "not known"),
    ROW(cluster, "cluster", TEXT, SPARSE, .help = "name of the cluster",
        .without = "none was given"),
    ROW(cluster_sha256, "cluster_sha256", TEXT, SPARSE,
        .help = "SHA-256 of its file, or a preset's", .without = "none was given"),
    ROW(device, "device", TEXT, SPARSE, .help = "the cluster's GPU", .without = "not known"),
    LK_CONFIG_SIZE_ROWS(struct lk_ledger_forecast, config., 0, "; 0: not known"),
    ROW(config.reduce, "reduce", WORD, SPARSE, .words = &lk_reduction_words,
        .absent = LK_REDUCTION_LAST, .help = "micro-batches whose gradients are reduced"),
    LK_CONFIG_OVERLAP_ROW(struct lk_ledger_forecast, config.),
    LK_CONFIG_SCHEME_ROWS(struct lk_ledger_forecast, config.),
    LK_CONFIG_REPLICA_ROWS(struct lk_ledger_forecast, config.),
    ROW(config.first_bytes, "first_bucket_bytes", UINT, SPARSE, .help = "limit of the first bucket",
        .without = "not known"),
    ROW(config.cap_bytes, "bucket_cap_bytes", UINT, SPARSE, .help = "limit of the others",
        .without = "not known"),
    ROW(step_s, "step_s", NUMBER, REQUIRED, .range = LK_RANGE_ABOVE_0, .help = "time of a step"),
    ROW(lo_s, "lo_s", NUMBER, REQUIRED, .range = LK_RANGE_ABOVE_0, .help = "its interval, from"),
    ROW(hi_s, "hi_s", NUMBER, REQUIRED, .range = LK_RANGE_ABOVE_0, .help = "to"),
    ROW(level, "level", NUMBER, REQUIRED, .help = "probability of the interval"),
    ROW(site_factor, "site_factor", NUMBER, REQUIRED, .range = LK_RANGE_ABOVE_0,
        .help = "what the site's errors multiplied the interval by"),
    ROW(evidence, "evidence", WORD, REQUIRED, .words = &lk_evidence_words,
        .help = "grade of what it rests on"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record forecast_record = {.size = sizeof(struct lk_ledger_forecast),
                                                 .rows = forecast_rows,
                                                 .check = check_forecast,
                                                 .given = has_forecast};

#define ROW(field, key, ...) LK_MEMBER(struct lk_ledger_score, field, key, __VA_ARGS__)
static const struct lk_member score_rows[] = {
    ROW(forecast, "forecast", TEXT, REQUIRED, .help = "id of the forecast"),
    ROW(date, "date", TEXT, REQUIRED, .help = "when it was scored, UTC"),
    ROW(program, "program", TEXT, REQUIRED, .help = "version and commit of the program"),
    ROW(run, "run", TEXT, REQUIRED, .help = "what was measured: a folder or a file"),
    ROW(n_runs, "n_runs", INT, REQUIRED, .min = 1, .max = INT32_MAX,
        .help = "runs of the configuration"),
    ROW(measured_s, "measured_s", NUMBER, REQUIRED, .range = LK_RANGE_ABOVE_0,
        .help = "their mean step"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record score_record = {
    .size = sizeof(struct lk_ledger_score), .rows = score_rows, .given = has_score};

static enum lk_status check_line(struct lk_json *root, void *base)
{
    const struct lk_ledger_line *l = base;

    return l->forecast.id || l->score.forecast
               ? LK_OK
               : lk_json_error(root, "expected a forecast or a score");
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_ledger_line, field, key, __VA_ARGS__)
static const struct lk_member line_rows[] = {
    ROW(forecast, "forecast", OBJECT, OPTIONAL, .of = &forecast_record,
        .help = "a forecast of one configuration", .without = "the line is a score"),
    ROW(score, "score", OBJECT, OPTIONAL, .of = &score_record,
        .help = "what was measured of an earlier forecast", .without = "the line is a forecast"),
    LK_MEMBER_END,
};
#undef ROW
const struct lk_record lk_ledger_record = {.size = sizeof(struct lk_ledger_line),
                                           .rows = line_rows,
                                           .one_line = true,
                                           .schema = LK_LEDGER_SCHEMA,
                                           .version = LK_LEDGER_VERSION,
                                           .check = check_line};

/* ---- The file ---- */

/* Read a line; one that cannot be read is warned of, unless `again`. */
static enum lk_status read_line(struct lk_ledger *l, const char *name, const char *text,
                                size_t size, bool again)
{
    struct lk_ledger_line line;
    enum lk_status st;

    LK_PASS(lk_array_grow(&l->lines, &l->capacity, l->n + 1, sizeof *l->lines));
    st = lk_record_load_text(&lk_ledger_record, name, text, size, &line);
    if (st == LK_EPARSE) {
        if (!again)
            lk_log(LK_LOG_MAIN, LK_WARN, "%s; the line is left out", lk_error_text());
        l->n_damaged++;
        return LK_OK;
    }
    LK_PASS(st);
    l->lines[l->n++] = line;
    return LK_OK;
}

static enum lk_status read_text(const char *path, const char *text, size_t size, bool again,
                                struct lk_ledger *out)
{
    enum lk_status st = LK_OK;
    struct lk_ledger l = {0};
    char *name = NULL;
    size_t number = 0;

    for (size_t at = 0, n; at < size; at += n + 1) {
        const char *end = memchr(text + at, '\n', size - at);

        n = end ? (size_t)(end - text) - at : size - at;
        number++;
        if (!n)
            continue;
        free(name);
        name = NULL;
        LK_TRY(lk_asprintf(&name, "%s, line %zu", path, number));
        LK_TRY(read_line(&l, name, text + at, n, again));
    }
    *out = l;
    l = (struct lk_ledger){0};
out:
    free(name);
    lk_ledger_fini(&l);
    return st;
}

enum lk_status lk_ledger_read(const char *path, struct lk_ledger *out)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    size_t size = 0;

    if (lk_file_exists(path))
        LK_TRY(lk_file_read(path, &text, &size));
    st = read_text(path, text, size, false, out);
out:
    free(text);
    return st;
}

void lk_ledger_fini(struct lk_ledger *l)
{
    for (size_t i = 0; i < l->n; i++)
        lk_record_fini(&lk_ledger_record, &l->lines[i]);
    free(l->lines);
    *l = (struct lk_ledger){0};
}

/* ---- Matching ---- */

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

bool lk_ledger_same_job(const struct lk_ledger_forecast *a, const struct lk_ledger_forecast *b)
{
    return a->gradient_bytes == b->gradient_bytes &&
           (a->gradient_bytes || same_text(a->job, b->job)) &&
           (!a->device || !b->device || lk_device_same(a->device, b->device) >= 0);
}

/* What has no effect compares equal, the reductions of one rank or of one micro-batch, and what one
 * of them does not know. */
static bool same_config(const struct lk_config *a, const struct lk_config *b)
{
    struct lk_config x = *a, y = *b;

    if (x.accumulation == 1 || x.world_size == 1)
        x.reduce = y.reduce;
    if (x.world_size == 1 || !x.first_bytes || !y.first_bytes)
        x.first_bytes = y.first_bytes;
    if (x.world_size == 1 || !x.cap_bytes || !y.cap_bytes)
        x.cap_bytes = y.cap_bytes;
    if (!x.nodes || !y.nodes)
        x.nodes = y.nodes;
    return lk_config_equal(&x, &y);
}

const struct lk_ledger_forecast *lk_ledger_newest(const struct lk_ledger *l,
                                                  const struct lk_ledger_forecast *of)
{
    for (size_t i = l->n; i-- > 0;) {
        const struct lk_ledger_forecast *f = &l->lines[i].forecast;

        if (f->id && lk_ledger_same_job(f, of) && same_config(&f->config, &of->config))
            return f;
    }
    return NULL;
}

const struct lk_ledger_score *lk_ledger_score_of(const struct lk_ledger *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->lines[i].score.forecast && !strcmp(l->lines[i].score.forecast, id))
            return &l->lines[i].score;
    return NULL;
}

/* ---- Appending ---- */

/* Return true if two forecasts of a configuration are the same answer to the same question. Of one
 * program the interval may differ by its draws, which nobody asks for. */
static bool is_same(const struct lk_ledger_forecast *a, const struct lk_ledger_forecast *b)
{
    return a->step_s == b->step_s && a->level == b->level && a->site_factor == b->site_factor &&
           same_text(a->job_sha256, b->job_sha256) && same_text(a->cluster, b->cluster) &&
           same_text(a->cluster_sha256, b->cluster_sha256) &&
           (same_text(a->program, b->program) || (a->lo_s == b->lo_s && a->hi_s == b->hi_s));
}

bool lk_ledger_has(const struct lk_ledger *l, const struct lk_ledger_line *line)
{
    const struct lk_ledger_forecast *old;

    if (line->score.forecast)
        return lk_ledger_score_of(l, line->score.forecast) != NULL;
    old = lk_ledger_newest(l, &line->forecast);
    return old && is_same(old, &line->forecast);
}

/* Lines that are to be appended to a ledger. */
struct more {
    const char *path;
    const struct lk_ledger_line *lines;
    size_t n;
};

/* Write those lines that the ledger, whose text this is, does not have. */
static enum lk_status write_new(void *user, const char *text, size_t size, char **out)
{
    enum lk_status st = LK_OK;
    const struct more *m = user;
    struct lk_ledger l = {0};
    char *line = NULL;
    size_t length;

    LK_TRY(read_text(m->path, text, size, true, &l));
    for (size_t i = 0; i < m->n; i++) {
        if (lk_ledger_has(&l, &m->lines[i]))
            continue;
        free(line);
        line = NULL;
        LK_TRY(lk_record_save_text(&lk_ledger_record, &m->lines[i], &line, &length));
        while (length && line[length - 1] == '\n')
            line[--length] = '\0';
        LK_TRY(lk_text_add(out, "%s\n", line));
    }
out:
    free(line);
    lk_ledger_fini(&l);
    return st;
}

enum lk_status lk_ledger_append(const char *path, const struct lk_ledger_line *lines, size_t n)
{
    struct more m = {path, lines, n};

    return lk_file_extend(path, write_new, &m);
}

/* ---- Scores ---- */

enum lk_status lk_ledger_pairs(const struct lk_ledger *l, struct lk_ledger_pair **out, size_t *n)
{
    struct lk_ledger_pair *v;
    size_t found = 0;

    LK_PASS(lk_alloc(&v, l->n, sizeof *v));
    for (size_t i = 0; i < l->n; i++) {
        const struct lk_ledger_forecast *f = &l->lines[i].forecast;
        const struct lk_ledger_score *s = f->id ? lk_ledger_score_of(l, f->id) : NULL;

        if (s)
            v[found++] = (struct lk_ledger_pair){f, s};
    }
    *out = v;
    *n = found;
    return LK_OK;
}

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("date",         "forecast of",  LK_DIM_NONE, -1, p->forecast->date)                          \
    X("job",          "job",          LK_DIM_NONE, -1, p->forecast->job)                           \
    X("gpus",         "GPUs",         LK_DIM_NONE, -1, (double)p->forecast->config.world_size)     \
    X("local_batch",  "local batch",  LK_DIM_NONE, -1, (double)p->forecast->config.local_batch)    \
    X("accumulation", "accumulation", LK_DIM_NONE, -1, (double)p->forecast->config.accumulation)   \
    X("predicted_s",  "forecast",     LK_DIM_TIME, -1, p->forecast->step_s)                        \
    X("lo_s",         "from",         LK_DIM_TIME, -1, p->forecast->lo_s)                          \
    X("hi_s",         "to",           LK_DIM_TIME, -1, p->forecast->hi_s)                          \
    X("measured_s",   "measured",     LK_DIM_TIME, -1, p->score->measured_s)                       \
    X("error_percent", "error %",     LK_DIM_NONE, 1,                                              \
      100 * (p->forecast->step_s / p->score->measured_s - 1))                                      \
    X("inside",       "inside",       LK_DIM_NONE, -1, is_inside(p) ? "yes" : "no")                \
    X("evidence",     "evidence",     LK_DIM_NONE, -1,                                             \
      lk_evidence_words.names[p->forecast->evidence])                                              \
    X("site_factor",  "site's factor", LK_DIM_NONE, 3, p->forecast->site_factor)                   \
    X("run",          "run",          LK_DIM_NONE, -1, p->score->run)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

static bool is_inside(const struct lk_ledger_pair *p)
{
    return p->score->measured_s >= p->forecast->lo_s && p->score->measured_s <= p->forecast->hi_s;
}

enum lk_status lk_ledger_table(const struct lk_ledger_pair *v, size_t n, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Forecasts that were scored", columns, LK_COUNT(columns), &t));
    for (const struct lk_ledger_pair *p = v; p < v + n; p++) {
        LK_TRY(lk_table_row(t));
        ROWS(LK_TABLE_CELL)
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}
