/*
 * Read nccl-tests' text output. The formats are in src/util.cu of NVIDIA/nccl-tests (2.19.6) and in
 * src/common.cu of the versions before 2.17.3; a header line names the columns:
 *
 *     #       size         count      type   redop    root     time   algbw   busbw #wrong  ...
 *     #        (B)    (elements)                               (us)  (GB/s)  (GB/s)         ...
 *         33554432       8388608     float     sum      -1    607.2   55.26  103.61      0  ...
 *
 * Four columns (time, algbw, busbw, error) appear twice, out of place, then in place; with
 * per-iteration reports eight do.
 */
#include "profiler/import/bench_impl.h"

#include "base/array.h"
#include "base/units.h"
#include "facts/bounds.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS_MAX = 64, /* tokens of a line; the widest table has 23 columns */
    NUMBER_MAX = 64, /* bytes of a token that is a number */
    HOSTS_MAX = 1 << 16,
    PREFIXES_MAX = 4 /* prefixes that one line may carry */
};

struct token {
    const char *p;
    size_t len;
};

struct reader {
    const char *path;
    const struct lk_bench_hints *hints;
    struct lk_bench *bench;
    size_t line;
    struct token tokens[TOKENS_MAX];
    size_t n_tokens;

    /* The current run, by its rank lines. */
    int ranks, group0; /* of group 0; 0: none seen */
    int groups;        /* the largest group number + 1 */
    char **hosts;
    size_t n_hosts, hosts_capacity;
    bool ranks_closed; /* a table began: the next rank line begins another run */

    struct bench_program program;
    struct bench_table table;
    bool in_table;
    size_t n_tables;
};

static bool is(const struct token *t, const char *word)
{
    return strlen(word) == t->len && !strncmp(t->p, word, t->len);
}

static enum lk_status fail(const struct reader *r, const char *what)
{
    return lk_fail(LK_EPARSE, "%s:%zu: %s", r->path, r->line, what);
}

/* ---- Lines ---- */

static const char *skip_class(const char *p, const char *end, const char *chars)
{
    while (p < end && *p && strchr(chars, *p))
        p++;
    return p;
}

/* Skip a time stamp: "2024-05-01T12:00:00.123Z ", "2024-05-01 12:00:00,123 " */
static const char *after_time_stamp(const char *p, const char *end)
{
    const char *q = p;

    if (end - p < 19 || !isdigit((unsigned char)*p) || p[4] != '-' || p[7] != '-' || p[13] != ':')
        return p;
    q = skip_class(q + 19, end, "0123456789.,:+-Z");
    return q < end && *q == ' ' ? q + 1 : p;
}

/* Skip "[1,0]<stdout>:" of mpirun, "[pod/worker-0/main] " of kubectl */
static const char *after_bracket(const char *p, const char *end)
{
    const char *q;

    if (p == end || *p != '[')
        return p;
    q = memchr(p, ']', (size_t)(end - p));
    if (!q)
        return p;
    q++;
    if (q < end && *q == '<') {
        const char *close = memchr(q, '>', (size_t)(end - q));

        q = close ? close + 1 : q;
    }
    return q < end && *q == ':' ? q + 1 : q;
}

/* Skip "0: " of srun -l, "worker-0: ", "worker-1  | " */
static const char *after_label(const char *p, const char *end)
{
    const char *q = p;

    while (q < end && (isalnum((unsigned char)*q) || strchr("._-", *q)))
        q++;
    if (q == p)
        return p;
    if (end - q >= 2 && *q == ':' && q[1] == ' ')
        return q + 2;
    q = skip_class(q, end, " ");
    return end - q >= 2 && *q == '|' && q[1] == ' ' ? q + 2 : p;
}

static const char *after_prefixes(const char *p, const char *end)
{
    for (int i = 0; i < PREFIXES_MAX; i++) {
        const char *q;

        p = skip_class(p, end, " \t\r");
        q = after_bracket(after_time_stamp(p, end), end);
        q = q == p ? after_label(p, end) : q;
        if (q == p)
            break;
        p = q;
    }
    return p;
}

static void split(struct reader *r, const char *p, const char *end)
{
    r->n_tokens = 0;
    while (r->n_tokens < TOKENS_MAX) {
        const char *start = p = skip_class(p, end, " \t\r");

        while (p < end && !strchr(" \t\r", *p))
            p++;
        if (p == start)
            break;
        r->tokens[r->n_tokens++] = (struct token){start, (size_t)(p - start)};
    }
}

/* Copy a token's text to buf; return false if it is empty or too long for a number. */
static bool token_text(const struct token *t, char buf[static NUMBER_MAX])
{
    if (!t->len || t->len >= NUMBER_MAX)
        return false;
    memcpy(buf, t->p, t->len);
    buf[t->len] = '\0';
    return true;
}

/* Parse a token as a number, or a whole one from 0 to max; false if it is none. */
static bool number(const struct token *t, double *out)
{
    char buf[NUMBER_MAX];

    return token_text(t, buf) && lk_parse_double(buf, out) == LK_OK;
}

static bool whole(const struct token *t, int64_t max, int64_t *out)
{
    char buf[NUMBER_MAX];

    return token_text(t, buf) && lk_parse_int64(buf, 0, max, out) == LK_OK;
}

/* ---- Around tables ---- */

/* Note the collective of a "..._perf" in this line, if there is one. */
static void note_program(struct reader *r, const char *p, const char *end)
{
    static const char suffix[] = "_perf";
    const char *at;

    for (; (at = memmem(p, (size_t)(end - p), suffix, sizeof suffix - 1)); p = at + 1) {
        const char *start = at;

        while (start > p && (isalnum((unsigned char)start[-1]) || start[-1] == '_'))
            start--;
        if (bench_coll(start, (size_t)(at - start), &r->program)) {
            r->program.line = r->line;
            return;
        }
    }
}

static void forget_ranks(struct reader *r)
{
    for (size_t i = 0; i < r->n_hosts; i++)
        free(r->hosts[i]);
    r->n_hosts = 0;
    r->ranks = r->group0 = r->groups = 0;
    r->ranks_closed = false;
}

static enum lk_status note_host(struct reader *r, const struct token *t)
{
    for (size_t i = r->n_hosts; i > 0; i--) /* mostly the last */
        if (is(t, r->hosts[i - 1]))
            return LK_OK;
    if (r->n_hosts == HOSTS_MAX)
        return fail(r, "too many hosts");
    LK_PASS(lk_array_grow(&r->hosts, &r->hosts_capacity, r->n_hosts + 1, sizeof *r->hosts));
    LK_PASS(lk_strndup(&r->hosts[r->n_hosts], t->p, t->len));
    r->n_hosts++;
    return LK_OK;
}

static enum lk_status note_gpu(struct reader *r, size_t first, const char *end)
{
    const char *p = r->tokens[first].p;

    while (end > p && strchr(" \t\r", end[-1]))
        end--;
    if (r->bench->gpu)
        return LK_OK;
    return lk_strndup(&r->bench->gpu, p, (size_t)(end - p));
}

/* Note "#  Rank  0 Group  0 Pid 123 on host-0 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3" */
static enum lk_status note_rank(struct reader *r, const char *end)
{
    const struct token *t = r->tokens;
    int64_t rank, group = 0;

    if (r->n_tokens < 6 || !whole(&t[2], LK_RANKS_MAX, &rank))
        return LK_OK;
    if (r->ranks_closed)
        forget_ranks(r);
    r->in_table = false;
    if (rank != r->ranks)
        return fail(r, "a rank line is missing or there twice: the log is damaged");
    for (size_t i = 3; i + 1 < r->n_tokens; i++) {
        if (is(&t[i], "Group") && !whole(&t[i + 1], LK_RANKS_MAX, &group))
            return fail(r, "no number of a group");
        if (is(&t[i], "on"))
            LK_PASS(note_host(r, &t[i + 1]));
        if (is(&t[i], "device") && i + 3 < r->n_tokens)
            LK_PASS(note_gpu(r, i + (t[i + 2].p[0] == '[' ? 3 : 2), end));
    }
    r->ranks++;
    r->group0 += group == 0;
    r->groups = (int)group >= r->groups ? (int)group + 1 : r->groups;
    return LK_OK;
}

static enum lk_status note_version(struct reader *r, const char *p, const char *end)
{
    static const char words[] = "NCCL version ";
    const char *at = memmem(p, (size_t)(end - p), words, sizeof words - 1);
    const char *stop;

    if (!at || r->bench->nccl_version)
        return LK_OK;
    at += sizeof words - 1;
    stop = skip_class(at, end, "0123456789.");
    return stop == at ? LK_OK : lk_strndup(&r->bench->nccl_version, at, (size_t)(stop - at));
}

/* ---- Tables ---- */

/* Return the k-th column of that name, or SIZE_MAX. Names follow the "#" of a header. */
static size_t column(const struct reader *r, const char *name, int k)
{
    for (size_t i = 1; i < r->n_tokens; i++)
        if (is(&r->tokens[i], name) && k-- == 0)
            return i - 1;
    return SIZE_MAX;
}

/* Begin a table: its shape and its collective. */
static enum lk_status begin_table(struct reader *r)
{
    struct bench_table *t = &r->table;
    int place = r->hints->place == LK_BENCH_IN_PLACE; /* the second of the two */
    bool old = is(&r->tokens[1], "bytes");

    if (column(r, "cputime", 0) != SIZE_MAX)
        return fail(r, "a table of CPU times (-C): it does not say how long the collectives took");
    LK_PASS(bench_table_end(t, r->bench));
    *t = (struct bench_table){.path = r->path, .header_line = r->line};
    t->size = column(r, old ? "bytes" : "size", 0);
    t->redop = column(r, old ? "op" : "redop", 0);
    t->root = column(r, "root", 0);
    t->time = column(r, "time", place);
    t->algbw = column(r, "algbw", place);
    t->busbw = column(r, "busbw", place);
    t->wrong = column(r, "#wrong", place);
    t->time_unit = old ? 1e-3 : 1e-6; /* 1.0 printed ms: PRINT("  %7.3f", deltaSec * 1.0E3) */
    t->width = r->n_tokens - 1;
    if (t->time == SIZE_MAX || t->algbw == SIZE_MAX || t->busbw == SIZE_MAX)
        return fail(r, "a header of nccl-tests without two of time, algbw and busbw");
    if (r->groups && r->ranks % r->groups)
        return fail(r, "the groups of the run (NCCL_TESTS_SPLIT) are not of one size");
    t->ranks = r->groups ? r->group0 : 0;
    /* A group's ranks may lie on fewer hosts than the run, so the nodes of a group are unknown. */
    t->nodes = r->groups > 1 ? 0 : (int)r->n_hosts;
    if (r->groups <= 1)
        bench_table_hosts(t, (const char *const *)r->hosts, r->n_hosts);
    t->program = r->program;
    r->ranks_closed = true;
    r->in_table = true;
    r->n_tables++;
    return bench_table_begin(t, r->hints);
}

/*
 * Put an empty token where a row has no redop: alltoall and others that do not reduce had the
 * column in 2020 already, with an empty name. No operation is a number.
 */
static void fill_redop(struct reader *r)
{
    size_t at = r->table.redop;
    double number_there;

    if (at >= r->n_tokens || r->n_tokens == TOKENS_MAX || !number(&r->tokens[at], &number_there))
        return;
    memmove(&r->tokens[at + 1], &r->tokens[at], (r->n_tokens - at) * sizeof *r->tokens);
    r->tokens[at] = (struct token){r->tokens[at].p, 0};
    r->n_tokens++;
}

static enum lk_status table_row(struct reader *r)
{
    struct bench_table *t = &r->table;
    struct bench_row row = {.line = r->line, .wrong = 0, .root = -1};
    double wrong;
    int64_t bytes = 0;

    if (!whole(&r->tokens[0], INT64_MAX, &bytes))
        return LK_OK; /* another program's line */
    fill_redop(r);
    if (r->n_tokens < t->width)
        return fail(r, "a row of fewer columns than its header has: the log is cut short or mixed");
    row.bytes = (uint64_t)bytes;
    if (t->size != 0 || !number(&r->tokens[t->time], &row.seconds) ||
        !number(&r->tokens[t->algbw], &row.algbw) || !number(&r->tokens[t->busbw], &row.busbw))
        return fail(r, "no number where the header has time, algbw or busbw");
    row.seconds *= t->time_unit;
    row.reduces =
        t->redop != SIZE_MAX && r->tokens[t->redop].len > 0 && !is(&r->tokens[t->redop], "none");
    if (t->root != SIZE_MAX) {
        double root = -1;

        (void)number(&r->tokens[t->root], &root);
        row.root = root < 0 ? -1 : 0;
    }
    if (t->wrong != SIZE_MAX && number(&r->tokens[t->wrong], &wrong) && wrong > 0)
        row.wrong = wrong;
    return bench_table_row(t, &row);
}

static enum lk_status comment(struct reader *r, const char *p, const char *end)
{
    const struct token *t = r->tokens;

    if (r->n_tokens > 1 && is(&t[1], "Rank")) {
        LK_PASS(note_rank(r, end));
    } else if (r->n_tokens > 4 && (is(&t[1], "size") || is(&t[1], "bytes"))) {
        LK_PASS(begin_table(r));
    } else if (r->n_tokens > 2 && (is(&t[1], "Avg") || is(&t[1], "Out"))) {
        r->in_table = false;
    } else {
        note_program(r, p, end);
    }
    return LK_OK;
}

static enum lk_status read_line(struct reader *r, const char *p, const char *end)
{
    const char *text = after_prefixes(p, end);

    split(r, text, end);
    if (!r->n_tokens)
        return LK_OK;
    /* "#size" is "# size" where the number is wide. */
    if (*text == '#') {
        LK_PASS(comment(r, text, end));
    } else if (r->in_table && isdigit((unsigned char)*text)) {
        LK_PASS(table_row(r));
    } else {
        note_program(r, p, end);
        LK_PASS(note_version(r, p, end));
    }
    return LK_OK;
}

enum lk_status bench_read_text(const char *path, const char *text, size_t size,
                               const struct lk_bench_hints *hints, struct lk_bench *out)
{
    enum lk_status st = LK_OK;
    struct reader r = {.path = path, .hints = hints, .bench = out};
    const char *end = text + size;

    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));

        stop = stop ? stop : end;
        r.line++;
        LK_TRY(read_line(&r, p, stop));
        p = stop + 1;
    }
    LK_TRY(bench_table_end(&r.table, out));
    if (!r.n_tables)
        st = lk_fail(LK_EPARSE, "%s:%zu: no table of nccl-tests in this file", path, r.line);
    else if (!out->n_points && !out->n_other && !out->n_wrong)
        st = lk_fail(LK_EPARSE, "%s:%zu: a table without rows", path, r.table.header_line);
out:
    free(r.table.rows);
    forget_ranks(&r);
    free(r.hosts);
    return st;
}
