/* The list of measured runs on shaped links. */
#include "bench/lib/net_list.h"

#include "base/array.h"
#include "base/stats.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    GROUP,
    SINGLE,
    PAIR,
    CLUSTER,
    RUN,
    HOSTS,
    RATE,
    RANKS,
    CAP,
    ACCUMULATION,
    SLOW_RANK,
    SLOW_LINK,
    SETTING,
    N_COLUMNS
};
static const struct lk_csv_column columns[N_COLUMNS] = {
    [GROUP] = {"group", true},
    [SINGLE] = {"single", true},
    [PAIR] = {"pair", false},
    [CLUSTER] = {"cluster", true},
    [RUN] = {"run", true},
    [HOSTS] = {"hosts", true},
    [RATE] = {"rate", true},
    [RANKS] = {"ranks", true},
    [CAP] = {"cap", true},
    [ACCUMULATION] = {"accumulation", true},
    [SLOW_RANK] = {"slow_rank", false},
    [SLOW_LINK] = {"slow_link", false},
    [SETTING] = {"setting", false},
};

enum lk_status net_list_load(const char *path, struct lk_csv **out)
{
    return lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, out);
}

enum lk_status net_list_row(const struct lk_csv *t, size_t row, struct net_run *out)
{
    enum lk_status st = LK_OK;
    const char *text[N_COLUMNS] = {NULL};
    int64_t ranks, accumulation;
    double cap;

    for (size_t i = 0; i < N_COLUMNS; i++)
        if (columns[i].required || lk_csv_has(t, row, i))
            LK_TRY(lk_csv_text(t, row, i, &text[i]));
    LK_TRY(lk_csv_int(t, row, RANKS, 2, 1024, &ranks));
    LK_TRY(lk_csv_int(t, row, ACCUMULATION, 1, 1000, &accumulation));
    LK_TRY(lk_csv_quantity(t, row, CAP, LK_DIM_BYTES, 1, 1e12, &cap));
    *out = (struct net_run){.group = text[GROUP],
                            .single = text[SINGLE],
                            .pair = text[PAIR],
                            .cluster = text[CLUSTER],
                            .run = text[RUN],
                            .hosts = text[HOSTS],
                            .rate = text[RATE],
                            .cap = text[CAP],
                            .slow_rank = text[SLOW_RANK],
                            .slow_link = text[SLOW_LINK],
                            .setting = text[SETTING],
                            .ranks = (int)ranks,
                            .accumulation = (int)accumulation,
                            .cap_bytes = (uint64_t)cap};
out:
    return st;
}

static bool is_file(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

enum { PATHS_MAX = 32 };

/* Split a copy of words at blanks: add them to paths. */
static enum lk_status add_paths(char *words, const char **paths, size_t *n)
{
    char *rest = NULL;

    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        if (*n == PATHS_MAX)
            return lk_fail(LK_EUSAGE, "more than %d runs in one field of the list", PATHS_MAX);
        paths[(*n)++] = w;
    }
    return LK_OK;
}

/* Build the job of runs, whose paths are separated by blanks; second may be NULL. */
static enum lk_status build_job(const char *first, const char *second, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    const char *paths[PATHS_MAX];
    char *words = NULL;
    struct lk_run_set set = {0};
    size_t n = 0;

    if (is_file(first))
        return lk_job_read(first, out);
    LK_TRY(lk_asprintf(&words, "%s %s", first, second ? second : ""));
    LK_TRY(add_paths(words, paths, &n));
    LK_TRY(lk_run_set_read(paths, n, &set));
    LK_TRY(lk_job_build(&set, out));
out:
    lk_run_set_fini(&set);
    free(words);
    return st;
}

enum lk_status net_run_evidence(const struct net_run *r, struct lk_job *out)
{
    return build_job(r->single, r->pair, out);
}

enum lk_status net_run_step_s(const struct net_run *r, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_job job = {0};
    double sum = 0;

    LK_TRY(build_job(r->run, NULL, &job));
    if (!job.n_runs)
        LK_TRY(lk_fail(LK_EPARSE, "%s: no run in it", r->run));
    for (size_t i = 0; i < job.n_runs; i++)
        sum += lk_stats_mean(job.runs[i].step_s, job.runs[i].n_steps);
    *out = sum / (double)job.n_runs;
out:
    lk_job_fini(&job);
    return st;
}
