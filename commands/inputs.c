/* Inputs that a command's words name: clusters, presets, jobs, and ranks known to be slow. */
#include "commands/inputs.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/option.h"
#include "base/preset.h"
#include "profiler/job_build.h"
#include "profiler/run_set.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum lk_status find_cluster(const char *name, struct lk_cluster *out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_preset_find(NULL, name, &path));
    LK_TRY(lk_cluster_read(path, out));
out:
    free(path);
    return st;
}

enum lk_status job_and_cluster(const char *command, const char **operands, int n,
                               const char *cluster)
{
    if (n < 1)
        return lk_fail(LK_EUSAGE, "which job? Usage: lockstep %s JOB CLUSTER --gpus N,...",
                       command);
    if (n < 2 && !cluster)
        return lk_fail(LK_EUSAGE, "which cluster? Give a cluster file or a preset's name");
    if (n == 2 && cluster)
        return lk_fail(LK_EUSAGE, "two clusters: '%s' and --cluster=%s", operands[1], cluster);
    if (n < 2)
        operands[1] = cluster;
    return LK_OK;
}

/* ---- Jobs ---- */

static bool is_directory(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

enum lk_status find_job(const char *path, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    char *file = NULL;

    if (!is_directory(path))
        return lk_job_read(path, out);
    LK_TRY(lk_path_join(&file, path, "job.json"));
    LK_TRY(lk_job_read(file, out));
out:
    free(file);
    return st;
}

enum lk_status find_job_of_runs(const char *const *paths, size_t n, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};

    if (n == 1)
        return find_job(paths[0], out);
    LK_TRY(lk_run_set_read(paths, n, &set));
    LK_TRY(lk_job_build(&set, out));
out:
    lk_run_set_fini(&set);
    return st;
}

/* ---- Known slow ranks and links ---- */

static enum lk_status check_slow(const struct lk_cluster *c, int at, bool link, int most_gpus)
{
    int most = link ? (most_gpus - 1) / c->gpus_per_node + 1 : most_gpus;

    if (link && c->nodes && at >= c->nodes)
        return lk_fail(LK_EUSAGE, "node %d: cluster %s has %d, from 0", at, c->name, c->nodes);
    if (most_gpus && at >= most)
        return lk_fail(LK_EUSAGE, "%s %d: the most GPUs asked for are %d, %ss 0 to %d",
                       link ? "node" : "rank", at, most_gpus, link ? "node" : "rank", most - 1);
    for (size_t i = 0; i < c->n_slow; i++)
        if ((link ? c->slow[i].node : c->slow[i].rank) == at &&
            lk_quantity_known(link ? &c->slow[i].link : &c->slow[i].compute))
            return lk_fail(LK_EUSAGE, "%s %d is known already", link ? "node" : "rank", at);
    return LK_OK;
}

static enum lk_status add_slow(struct lk_cluster *c, const char *word, bool link, int most_gpus,
                               const char *option)
{
    size_t capacity = c->n_slow;
    struct lk_cluster_slow *e;
    double factor;
    int64_t at;

    LK_PASS(lk_parse_factor_at(word, LK_RANKS_MAX - 1, &at, &factor));
    LK_PASS(check_slow(c, (int)at, link, most_gpus));
    LK_PASS(lk_array_grow(&c->slow, &capacity, c->n_slow + 1, sizeof *c->slow));
    e = &c->slow[c->n_slow++];
    *e = (struct lk_cluster_slow){.rank = link ? -1 : (int)at, .node = link ? (int)at : -1};
    e->compute = e->link = lk_quantity_none();
    return lk_quantity_set(link ? &e->link : &e->compute, factor, NAN, NAN, 0, "--%s", option);
}

static enum lk_status add_slow_list(struct lk_cluster *c, const char *text, bool link,
                                    int most_gpus, const char *option)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *word;

    if (!text)
        return LK_OK;
    LK_TRY(lk_strdup(&copy, text));
    for (rest = copy; (word = strsep(&rest, ","));)
        LK_TRY(add_slow(c, word, link, most_gpus, option));
out:
    free(copy);
    return lk_fail_context(st, "--%s=%s", option, text);
}

enum lk_status known_slow_add(struct lk_cluster *c, int most_gpus, const char *ranks,
                              const char *links)
{
    LK_PASS(add_slow_list(c, ranks, false, most_gpus, "slow-rank"));
    return add_slow_list(c, links, true, most_gpus, "slow-link");
}
