#include "tests/rigs/nvtx_log.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 32, DEPTH_MAX = 16, CATEGORIES_MAX = 32 };

struct thread {
    long tid;
    char name[48];
    size_t open[DEPTH_MAX]; /* indices of its open ranges */
    int depth;
};

struct reader {
    struct nvtx_log *log;
    size_t line, capacity;
    struct thread threads[THREADS_MAX];
    size_t n_threads;
    char categories[CATEGORIES_MAX][32];
    bool domain, ended;
};

static struct thread *thread_of(struct reader *r, long tid)
{
    for (size_t i = 0; i < r->n_threads; i++)
        if (r->threads[i].tid == tid)
            return &r->threads[i];
    ck_assert_uint_lt(r->n_threads, THREADS_MAX);
    r->threads[r->n_threads].tid = tid;
    return &r->threads[r->n_threads++];
}

static void push(struct reader *r, const char *rest)
{
    struct nvtx_log *l = r->log;
    struct nvtx_range a = {.pushed = r->line};
    struct thread *t;
    unsigned category;
    char payload[32];
    int depth;

    ck_assert_msg(
        sscanf(rest, "%ld %d %u %31s %63[^\n]", &a.tid, &depth, &category, payload, a.text) == 5,
        "push %s", rest);
    t = thread_of(r, a.tid);
    ck_assert_int_eq(depth, t->depth);
    ck_assert_int_lt(depth, DEPTH_MAX);
    ck_assert_uint_lt(category, CATEGORIES_MAX);
    ck_assert_msg(strncmp(a.text, "error", 5) != 0, "%s", rest);
    a.has_payload = strcmp(payload, "-") != 0;
    a.payload = strtoll(payload, NULL, 10);
    strcpy(a.category, r->categories[category]);
    strcpy(a.thread, t->name);
    ck_assert_int_eq(lk_array_grow(&l->ranges, &r->capacity, l->n + 1, sizeof *l->ranges), LK_OK);
    t->open[t->depth++] = l->n;
    l->ranges[l->n++] = a;
}

static void pop(struct reader *r, const char *rest)
{
    struct thread *t;
    long tid;
    int depth;

    ck_assert_int_eq(sscanf(rest, "%ld %d", &tid, &depth), 2);
    t = thread_of(r, tid);
    ck_assert_int_gt(t->depth, 0);
    ck_assert_int_eq(depth, --t->depth);
    r->log->ranges[t->open[t->depth]].popped = r->line;
}

static void take(struct reader *r, const char *line)
{
    unsigned category;
    long tid;
    int at = 0;

    r->line++;
    ck_assert_msg(!r->ended, "a call after the domain's end: %s", line);
    if (sscanf(line, "push %n", &at), at)
        push(r, line + at);
    else if (sscanf(line, "pop %n", &at), at)
        pop(r, line + at);
    else if (sscanf(line, "thread %ld %n", &tid, &at), at)
        snprintf(thread_of(r, tid)->name, sizeof r->threads->name, "%s", line + at);
    else if (sscanf(line, "category %u %n", &category, &at), at)
        snprintf(r->categories[category % CATEGORIES_MAX], sizeof *r->categories, "%s", line + at);
    else if (sscanf(line, "stream 1 %n", &at), at)
        snprintf(r->log->streams + strlen(r->log->streams),
                 sizeof r->log->streams - strlen(r->log->streams), "%s;", line + at);
    else if (!strcmp(line, "domain lockstep"))
        r->domain = true;
    else if (!strcmp(line, "end"))
        r->ended = true;
    else
        ck_abort_msg("the tool says: %s", line);
}

/* Set `within`: ranges of a thread that are open when another begins enclose it. */
static void nest(struct nvtx_log *l)
{
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < i; k++)
            if (l->ranges[k].tid == l->ranges[i].tid && nvtx_during(&l->ranges[i], &l->ranges[k]))
                l->ranges[i].within = &l->ranges[k];
}

static void read_one(const char *dir, const char *name, struct nvtx_log *out)
{
    struct reader *r = NULL;
    char *path = scratch_path(dir, name);
    char *text = NULL, *rest;
    size_t size;

    ck_assert_int_eq(lk_alloc(&r, 1, sizeof *r), LK_OK);
    memset(out, 0, sizeof *out);
    r->log = out;
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line)
            take(r, line);
    ck_assert_msg(r->domain && r->ended, "%s: the domain was not made and destroyed", name);
    for (size_t i = 0; i < r->n_threads; i++)
        ck_assert_msg(r->threads[i].depth == 0, "%s: thread '%s' leaves %d ranges open", name,
                      r->threads[i].name, r->threads[i].depth);
    nest(out);
    free(text);
    free(path);
    free(r);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    size_t na = strlen((*a)->d_name), nb = strlen((*b)->d_name);

    return na != nb ? (na > nb) - (na < nb) : strcmp((*a)->d_name, (*b)->d_name);
}

void nvtx_logs_read(const char *dir, const char *prefix, struct nvtx_log *out, size_t n_files)
{
    struct dirent **entries = NULL;
    size_t found = 0;
    int n = scandir(dir, &entries, NULL, by_name);

    ck_assert_int_ge(n, 0);
    for (int i = 0; i < n; i++) {
        if (!strncmp(entries[i]->d_name, prefix, strlen(prefix))) {
            ck_assert_msg(found < n_files, "one log too many: %s", entries[i]->d_name);
            read_one(dir, entries[i]->d_name, &out[found++]);
        }
        free(entries[i]);
    }
    free(entries);
    ck_assert_uint_eq(found, n_files);
}

void nvtx_log_fini(struct nvtx_log *l)
{
    free(l->ranges);
    memset(l, 0, sizeof *l);
}

const struct nvtx_range *nvtx_next(const struct nvtx_log *l, size_t *at, const char *text)
{
    for (; *at < l->n; ++*at)
        if (!strcmp(l->ranges[*at].text, text))
            return &l->ranges[(*at)++];
    return NULL;
}

bool nvtx_during(const struct nvtx_range *a, const struct nvtx_range *b)
{
    return a->pushed > b->pushed && a->popped < b->popped;
}
