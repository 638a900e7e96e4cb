/* Tables of times by rank and step; see profiler/import/step_times.h. Divisions: a line, rows, the
 * table. */
#include "profiler/import/step_times.h"

#include "base/array.h"
#include "base/gz.h"
#include "base/words.h"
#include "facts/bounds.h"
#include "facts/run_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 4096,
    FIELDS_MAX = 64,
    STEPS_SPAN_MAX = 1 << 24, /* from the first step's number to the last one's */
    CHECK_ROWS = 4096,        /* from one look at whether the reading is to end, to the next */
    CELLS_MAX = 1 << 28       /* ranks times steps: 2 GiB */
};

/* X(column, name) */
#define COLUMN_LIST(X)                                                                             \
    X(RANK, "rank")                                                                                \
    X(STEP, "step")                                                                                \
    X(HOST, "host")                                                                                \
    X(OWN_S, "own_s")                                                                              \
    X(OWN_MS, "own_ms")                                                                            \
    X(OWN_US, "own_us")

enum column { COLUMN_LIST(LK_WORD_VALUE) COLUMNS };
static const char *const names[] = {COLUMN_LIST(LK_WORD_NAME)};
static const double seconds[COLUMNS] = {[OWN_S] = 1, [OWN_MS] = 1e-3, [OWN_US] = 1e-6};

struct row {
    uint32_t rank, step, line;
    double own_s;
};

struct reader {
    const char *path;
    gzFile gz;
    char line[LINE_BYTES];
    uint32_t at;        /* number of the line, from 1 */
    int where[COLUMNS]; /* field of the column; -1: none */
    enum column time;   /* the one that is there */
    struct row *rows;
    size_t n, capacity;
    char **hosts; /* by rank; NULL: none yet */
    size_t n_hosts, hosts_capacity;
    uint32_t first_step, last_step;
};

/* ---- A line ---- */

/* Split a line at its commas; return the number of fields. Blanks around one are none of it. */
static int split(char *line, char **fields)
{
    int n = 0;

    for (char *at = line; at && n < FIELDS_MAX;) {
        char *start = at + strspn(at, " \t"), *end = start + strcspn(start, ",\r\n");

        at = *end == ',' ? end + 1 : NULL;
        while (end > start && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        *end = '\0';
        fields[n++] = start;
    }
    return n;
}

/* Read the next line that is no comment; false: the file ends here. */
static bool next(struct reader *r)
{
    while (gzgets(r->gz, r->line, sizeof r->line)) {
        r->at++;
        if (r->line[0] != '#' && r->line[strspn(r->line, " \t\r\n")])
            return true;
    }
    return false;
}

/* Find the columns in the first line; false: it is not that of such a table. */
static bool find_columns(struct reader *r)
{
    char *fields[FIELDS_MAX];
    int n, times = 0;

    for (int c = 0; c < COLUMNS; c++)
        r->where[c] = -1;
    if (!next(r))
        return false;
    n = split(r->line, fields);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < COLUMNS; c++)
            if (!strcmp(fields[i], names[c])) {
                r->where[c] = i;
                times += seconds[c] > 0;
                r->time = seconds[c] > 0 ? (enum column)c : r->time;
            }
    return r->where[RANK] >= 0 && r->where[STEP] >= 0 && times == 1;
}

static enum lk_status wrong(const struct reader *r, enum column c, const char *text,
                            const char *what)
{
    return lk_fail(LK_EPARSE, "%s:%u: column '%s': '%.40s' is not %s", r->path, r->at, names[c],
                   text, what);
}

static enum lk_status number_of(const struct reader *r, enum column c, const char *text,
                                uint64_t most, uint32_t *out)
{
    uint64_t v = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9' && v <= most; at++)
        v = 10 * v + (uint64_t)(*at - '0');
    if (at == text || *at || v > most)
        return wrong(r, c, text, c == RANK ? "a rank's number" : "a step's number");
    *out = (uint32_t)v;
    return LK_OK;
}

/*
 * Parse a time. Digits and a point alone, of at most 15 digits, are a whole number over a power of
 * ten that a double holds both, so that the quotient is the nearest double, as strtod's is (W. D.
 * Clinger, How to Read Floating Point Numbers Accurately, 1990): a fifth of strtod's time.
 */
static enum lk_status time_of(const struct reader *r, const char *text, double *out)
{
    static const double tens[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint64_t digits = 0;
    int n = 0, behind = 0;
    bool point = false;
    const char *at = text;
    char *end;

    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !point); at++) {
        point |= *at == '.';
        if (*at == '.')
            continue;
        digits = n < 16 ? 10 * digits + (uint64_t)(*at - '0') : digits;
        n++;
        behind += point;
    }
    if (!*at && n && n <= 15) {
        *out = (double)digits / tens[behind] * seconds[r->time];
        return LK_OK;
    }
    *out = strtod(text, &end) * seconds[r->time];
    return *text && !*end && *out >= 0 && isfinite(*out)
               ? LK_OK
               : wrong(r, r->time, text, "a time, 0 or more");
}

/* ---- Rows ---- */

/* Note the host of a rank, which has one. */
static enum lk_status take_host(struct reader *r, uint32_t rank, const char *host)
{
    size_t had = r->n_hosts;

    if (rank >= had) {
        LK_PASS(lk_array_grow(&r->hosts, &r->hosts_capacity, rank + 1, sizeof *r->hosts));
        memset(r->hosts + had, 0, (rank + 1 - had) * sizeof *r->hosts);
        r->n_hosts = rank + 1;
    }
    if (!r->hosts[rank])
        return lk_strdup(&r->hosts[rank], host);
    if (strcmp(r->hosts[rank], host) != 0)
        return lk_fail(LK_EPARSE, "%s:%u: column 'host': rank %u is on %s here, and on %s above",
                       r->path, r->at, rank, host, r->hosts[rank]);
    return LK_OK;
}

static enum lk_status take_row(struct reader *r)
{
    char *fields[FIELDS_MAX];
    int n = split(r->line, fields);
    struct row row = {.line = r->at};

    for (int c = 0; c < COLUMNS; c++)
        if (r->where[c] >= n)
            return lk_fail(LK_EPARSE, "%s:%u: column '%s' is not there: the row has %d fields",
                           r->path, r->at, names[c], n);
    LK_PASS(number_of(r, RANK, fields[r->where[RANK]], LK_RANKS_MAX - 1, &row.rank));
    LK_PASS(number_of(r, STEP, fields[r->where[STEP]], UINT32_MAX - 1, &row.step));
    LK_PASS(take_host(r, row.rank, r->where[HOST] < 0 ? LK_HOST_UNKNOWN : fields[r->where[HOST]]));
    if (!*fields[r->where[r->time]]) /* an empty field: not known */
        return LK_OK;
    LK_PASS(time_of(r, fields[r->where[r->time]], &row.own_s));
    r->first_step = !r->n || row.step < r->first_step ? row.step : r->first_step;
    r->last_step = !r->n || row.step > r->last_step ? row.step : r->last_step;
    LK_PASS(lk_array_grow(&r->rows, &r->capacity, r->n + 1, sizeof *r->rows));
    r->rows[r->n++] = row;
    return LK_OK;
}

static enum lk_status read_rows(struct reader *r)
{
    const char *damage;

    while (next(r)) {
        if (!strchr(r->line, '\n') && !gzeof(r->gz))
            return lk_fail(LK_EPARSE, "%s:%u: the line is longer than %d bytes", r->path, r->at,
                           LINE_BYTES - 1);
        LK_PASS(take_row(r));
        if (r->at % CHECK_ROWS == 0)
            LK_PASS(lk_gz_check(r->gz, r->path));
    }
    damage = lk_gz_damage(r->gz);
    return damage ? lk_fail(LK_EIO, "%s: %s", r->path, damage) : LK_OK;
}

/* ---- The table ---- */

/* Number the ranks and steps that have rows: index[number] becomes the position + 1. */
static size_t number(uint32_t *index, size_t n)
{
    uint32_t found = 0;

    for (size_t i = 0; i < n; i++)
        if (index[i])
            index[i] = ++found;
    return found;
}

static enum lk_status fill_table(struct reader *r, uint32_t *rank_at, uint32_t *step_at,
                                 size_t n_steps, struct lk_step_times *t)
{
    for (uint32_t i = 0; i < r->n_hosts; i++)
        if (rank_at[i]) {
            t->ranks[rank_at[i] - 1] = (int)i;
            t->hosts[rank_at[i] - 1] = r->hosts[i];
            r->hosts[i] = NULL;
        }
    for (uint32_t i = 0; i < n_steps; i++)
        if (step_at[i])
            t->steps[step_at[i] - 1] = r->first_step + i;
    for (size_t i = 0; i < r->n; i++) {
        const struct row *row = &r->rows[i];
        double *cell = &t->own_s[(rank_at[row->rank] - 1) * t->n_steps +
                                 step_at[row->step - r->first_step] - 1];

        if (!isnan(*cell))
            return lk_fail(LK_EPARSE, "%s:%u: column 'step': rank %u has step %u twice", r->path,
                           row->line, row->rank, row->step);
        *cell = row->own_s;
    }
    return LK_OK;
}

static enum lk_status make_table(struct reader *r, struct lk_step_times *t)
{
    enum lk_status st = LK_OK;
    uint32_t *rank_at = NULL, *step_at = NULL;
    size_t ranks, steps, n_steps = r->n ? (size_t)r->last_step - r->first_step + 1 : 0;

    if (n_steps > STEPS_SPAN_MAX)
        return lk_fail(LK_EPARSE, "%s: column 'step': steps from %u to %u are more than %d",
                       r->path, r->first_step, r->last_step, STEPS_SPAN_MAX);
    LK_TRY(lk_alloc(&rank_at, r->n_hosts, sizeof *rank_at));
    LK_TRY(lk_alloc(&step_at, n_steps, sizeof *step_at));
    for (size_t i = 0; i < r->n; i++)
        rank_at[r->rows[i].rank] = step_at[r->rows[i].step - r->first_step] = 1;
    ranks = number(rank_at, r->n_hosts);
    steps = number(step_at, n_steps);
    if (ranks < 2)
        LK_TRY(lk_fail(LK_EPARSE, "%s: column 'rank': %zu of at least two ranks have times",
                       r->path, ranks));
    if (steps > CELLS_MAX / ranks)
        LK_TRY(lk_fail(LK_EPARSE, "%s: %zu ranks in %zu steps are more than %d times", r->path,
                       ranks, steps, CELLS_MAX));
    LK_TRY(lk_step_times_init(t, ranks, steps));
    st = fill_table(r, rank_at, step_at, n_steps, t);
out:
    free(rank_at);
    free(step_at);
    return st;
}

bool lk_step_times_is(const char *path)
{
    struct reader r = {.path = path};
    bool is = false;

    if (lk_gz_open(path, &r.gz) == LK_OK) {
        is = find_columns(&r);
        gzclose_r(r.gz);
    }
    return is;
}

enum lk_status lk_step_times_read(const char *path, struct lk_step_times *out)
{
    enum lk_status st = LK_OK;
    struct reader r = {.path = path};

    *out = (struct lk_step_times){0};
    LK_TRY(lk_gz_open(path, &r.gz));
    if (!find_columns(&r))
        LK_TRY(lk_fail(LK_EPARSE,
                       "%s:1: the columns have to be rank, step, one of own_s, own_ms and own_us, "
                       "and host where it is known",
                       path));
    LK_TRY(read_rows(&r));
    st = make_table(&r, out);
out:
    if (r.gz)
        gzclose_r(r.gz);
    for (size_t i = 0; i < r.n_hosts; i++)
        free(r.hosts[i]);
    free(r.hosts);
    free(r.rows);
    if (st != LK_OK)
        lk_step_times_fini(out);
    return st;
}
