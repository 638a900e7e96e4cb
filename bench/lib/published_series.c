/* Series of published throughputs. */
#include "bench/lib/published_series.h"

#include "base/array.h"
#include "bench/lib/published.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_COUNTS = 3 };

/* Columns that are equal in all rows of a series; a strong one leaves the last two out. */
static const enum published_column key_columns[] = {
    PUBLISHED_MODEL,        PUBLISHED_GPU,   PUBLISHED_PRECISION, PUBLISHED_SEQ,
    PUBLISHED_INTERCONNECT, PUBLISHED_BATCH, PUBLISHED_ACCUM};
enum { BATCH_COLUMNS = 2, BATCH_MAX = 1 << 24 };

static void series_fini(struct published_series *s)
{
    free(s->key);
    free(s->source);
    free(s->repository);
    free(s->name);
    free(s->gpu);
    free(s->framework);
    free(s->points);
}

void published_series_fini(struct published_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        series_fini(&l->v[i]);
    free(l->v);
    memset(l, 0, sizeof *l);
}

/* Return the framework that a note ends with. */
static const char *framework_of(const char *note)
{
    static const char *const known[] = {"PyTorch", "TensorFlow", "TensorFlow2", "MxNet"};
    const char *last = strrchr(note, ';');

    for (size_t i = 0; last && i < LK_COUNT(known); i++)
        if (!strcmp(last + 2, known[i]))
            return known[i];
    return "not said";
}

static enum lk_status new_series(struct published_list *l, const struct lk_csv *t, size_t row,
                                 bool strong, char *key, size_t source_length,
                                 struct published_series **out)
{
    enum lk_status st = LK_OK;
    struct published_series s = {.key = key, .strong = strong};
    const char *source, *model, *gpu, *precision, *note;

    LK_TRY(published_cell(t, row, PUBLISHED_SOURCE, &source));
    LK_TRY(published_cell(t, row, PUBLISHED_MODEL, &model));
    LK_TRY(published_cell(t, row, PUBLISHED_GPU, &gpu));
    LK_TRY(published_cell(t, row, PUBLISHED_PRECISION, &precision));
    LK_TRY(published_cell(t, row, PUBLISHED_NOTE, &note));
    LK_TRY(lk_array_grow(&l->v, &l->capacity, l->n + 1, sizeof *l->v));
    *out = &l->v[l->n++];
    **out = s;
    LK_TRY(lk_strndup(&(*out)->source, source, source_length));
    LK_TRY(lk_strndup(&(*out)->repository, source, strcspn(source, "@ ")));
    LK_TRY(lk_asprintf(&(*out)->name, "%s %s %s", model, gpu, precision));
    LK_TRY(lk_strndup(&(*out)->gpu, gpu, strcspn(gpu, "- ")));
    LK_TRY(lk_strdup(&(*out)->framework, framework_of(note)));
    (*out)->tier = note[5];
out:
    return st;
}

static enum lk_status add_point(struct published_series *s, const struct lk_scaling_point *p)
{
    size_t at = 0;

    while (at < s->n && s->points[at].config.world_size < p->config.world_size)
        at++;
    if (at == s->n || s->points[at].config.world_size != p->config.world_size) {
        LK_PASS(lk_array_grow(&s->points, &s->capacity, s->n + 1, sizeof *s->points));
        memmove(&s->points[at + 1], &s->points[at], (s->n - at) * sizeof *s->points);
        s->n++;
    }
    s->points[at] = *p;
    return LK_OK;
}

/* Read a count that a row may state as "8", "8.0", or not at all (0). */
static int count_of(const char *text)
{
    char *end;
    double v = strtod(text, &end);

    return *text && !*end && v >= 1 && v <= BATCH_MAX && v == (int)v ? (int)v : 0;
}

static enum lk_status read_point(const struct lk_csv *t, size_t row, struct lk_scaling_point *p)
{
    int64_t world_size, per_node = 0;
    const char *batch, *accumulation;

    *p = (struct lk_scaling_point){0};
    LK_PASS(lk_csv_int(t, row, PUBLISHED_N_GPUS, 1, 1 << 24, &world_size));
    if (lk_csv_has(t, row, PUBLISHED_GPUS_PER_NODE))
        LK_PASS(lk_csv_int(t, row, PUBLISHED_GPUS_PER_NODE, 1, 1 << 24, &per_node));
    LK_PASS(lk_csv_positive(t, row, PUBLISHED_THROUGHPUT, &p->throughput));
    LK_PASS(published_cell(t, row, PUBLISHED_BATCH, &batch));
    LK_PASS(published_cell(t, row, PUBLISHED_ACCUM, &accumulation));
    p->config.world_size = (int)world_size;
    p->config.nodes = per_node > 0 ? (int)((world_size - 1) / per_node) + 1 : 1;
    p->config.local_batch = count_of(batch);
    p->config.accumulation = *accumulation ? count_of(accumulation) : 1;
    return LK_OK;
}

static enum lk_status key_of(const struct lk_csv *t, size_t row, const struct lk_scaling_point *p,
                             bool strong, char **out, size_t *source_length)
{
    enum lk_status st = LK_OK;
    size_t n = LK_COUNT(key_columns) - (strong ? BATCH_COLUMNS : 0);
    long long samples =
        (long long)p->config.local_batch * p->config.accumulation * p->config.world_size;
    char *key = NULL;

    LK_TRY(published_key(t, row, key_columns, n, strong ? &key : out, source_length));
    if (strong)
        LK_TRY(lk_asprintf(out, "%s|%lld", key, samples));
out:
    free(key);
    return st;
}

static enum lk_status add_row(struct published_list *l, const struct lk_csv *t, size_t row,
                              bool strong)
{
    enum lk_status st = LK_OK;
    struct published_series *s = NULL;
    struct lk_scaling_point p;
    char *key = NULL;
    size_t source_length;

    LK_TRY(read_point(t, row, &p));
    if (strong && (!p.config.local_batch || !p.config.accumulation))
        return LK_OK;
    LK_TRY(key_of(t, row, &p, strong, &key, &source_length));
    if (!strong)
        p.config.local_batch = 0;
    if (!p.config.accumulation)
        p.config.accumulation = 1;
    for (size_t i = 0; i < l->n && !s; i++)
        if (l->v[i].strong == strong && !strcmp(l->v[i].key, key))
            s = &l->v[i];
    if (!s) {
        LK_TRY(new_series(l, t, row, strong, key, source_length, &s));
        key = NULL;
    }
    LK_TRY(add_point(s, &p));
out:
    free(key);
    return st;
}

static enum lk_status read_rows(struct published_list *l, const struct lk_csv *t, bool strong)
{
    for (size_t i = 0; i < lk_csv_rows(t); i++) {
        bool counts;

        LK_PASS(published_counts(t, i, "AB", &counts));
        if (counts)
            LK_PASS(add_row(l, t, i, strong));
    }
    return LK_OK;
}

enum lk_status published_series_read(struct published_list *out)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;
    size_t kept = 0;

    LK_TRY(published_load(&t));
    LK_TRY(read_rows(out, t, false));
    LK_TRY(read_rows(out, t, true));
    for (size_t i = 0; i < out->n; i++) {
        struct published_series s = out->v[i];

        if (s.n < LEAST_COUNTS)
            series_fini(&s);
        else
            out->v[kept++] = s;
    }
    out->n = kept;
out:
    lk_csv_free(t);
    return st;
}
