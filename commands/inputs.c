/* Inputs that a command's options and operands name; see the header. */
#include "commands/inputs.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/gradients.h"
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

/* ---- Clusters and presets ---- */

static const char SUFFIX[] = ".json";

/* Folders of presets relative to a program in build/, in build/VARIANT/ and in PREFIX/bin. */
static const char *const beside_program[] = {"../clusters", "../../clusters",
                                             "../share/lockstep/clusters"};

static bool is_path(const char *name)
{
    size_t n = strlen(name), m = strlen(SUFFIX);

    return strchr(name, '/') || (n > m && !strcmp(name + n - m, SUFFIX));
}

/* Write the folder of this program, without a slash at its end. */
static enum lk_status program_dir(char *buf, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", buf, size - 1);
    char *slash;

    if (n < 0)
        return lk_fail(LK_EIO, "/proc/self/exe: %s", strerror(errno));
    buf[n] = 0;
    slash = strrchr(buf, '/');
    if (slash)
        *slash = 0;
    return LK_OK;
}

/* Return the i-th folder that may hold presets, freed by the caller; NULL after the last. */
static enum lk_status folder(size_t i, char **out)
{
    enum lk_status st = LK_OK;
    char program[4096];

    *out = NULL;
    if (i == 0)
        return lk_strdup(out, "clusters");
    if (i > LK_COUNT(beside_program))
        return LK_OK;
    LK_TRY(program_dir(program, sizeof program));
    LK_TRY(lk_path_join(out, program, beside_program[i - 1]));
out:
    return st;
}

static bool has_name(char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum lk_status find_presets(char ***out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    char *dir = NULL, **found = NULL, **all = NULL;
    size_t n_found = 0, n = 0, capacity = 0;

    for (size_t i = 0;; i++) {
        LK_TRY(folder(i, &dir));
        if (!dir)
            break;
        if (lk_dir_list(dir, SUFFIX, &found, &n_found) != LK_OK)
            n_found = 0; /* no such folder: its presets are elsewhere */
        for (size_t k = 0; k < n_found; k++) {
            found[k][strlen(found[k]) - strlen(SUFFIX)] = '\0';
            if (has_name(all, n, found[k]))
                continue;
            LK_TRY(lk_array_grow(&all, &capacity, n + 1, sizeof *all));
            LK_TRY(lk_strdup(&all[n], found[k]));
            n++;
        }
        lk_names_free(found, n_found);
        found = NULL;
        n_found = 0;
        free(dir);
        dir = NULL;
    }
    if (n) /* by name: with ".json" at their ends the order was another */
        qsort(all, n, sizeof *all, compare_names);
    *out = all;
    *out_n = n;
    all = NULL;
    n = 0;
out:
    free(dir);
    lk_names_free(found, n_found);
    lk_names_free(all, n);
    return st;
}

/* Fail with "no preset 'x'; did you mean 'y'? presets: a, b". */
static enum lk_status unknown_preset(const char *name)
{
    enum lk_status st = LK_OK;
    char known[1024] = "", **names = NULL;
    const char *near;
    size_t at = 0, n = 0;

    LK_TRY(find_presets(&names, &n));
    for (size_t k = 0; k < n && at < sizeof known; k++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", names[k]);
    near = lk_option_nearest(name, (const char *const *)names, n);
    st = lk_fail(LK_EUSAGE, "no cluster file and no preset '%s'%s%s%s%s%s", name,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                 at ? "; presets: " : "; no presets were found", known);
out:
    lk_names_free(names, n);
    return st;
}

enum lk_status find_cluster(const char *name, struct lk_cluster *out)
{
    enum lk_status st = LK_OK;
    char *dir = NULL, *file = NULL, *path = NULL;

    if (is_path(name) || lk_file_exists(name))
        return lk_cluster_read(name, out);
    LK_TRY(lk_asprintf(&file, "%s%s", name, SUFFIX));
    for (size_t i = 0;; i++) {
        free(dir);
        free(path);
        path = NULL;
        LK_TRY(folder(i, &dir));
        if (!dir)
            break;
        LK_TRY(lk_path_join(&path, dir, file));
        if (lk_file_exists(path)) {
            st = lk_cluster_read(path, out);
            goto out;
        }
    }
    st = unknown_preset(name);
out:
    free(dir);
    free(file);
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

static enum lk_status check_slow(const struct lk_cluster *c, int at, bool link)
{
    if (link && c->nodes && at >= c->nodes)
        return lk_fail(LK_EUSAGE, "node %d: cluster %s has %d, from 0", at, c->name, c->nodes);
    for (size_t i = 0; i < c->n_slow; i++)
        if ((link ? c->slow[i].node : c->slow[i].rank) == at &&
            lk_quantity_known(link ? &c->slow[i].link : &c->slow[i].compute))
            return lk_fail(LK_EUSAGE, "%s %d is known already", link ? "node" : "rank", at);
    return LK_OK;
}

static enum lk_status add_slow(struct lk_cluster *c, const char *word, bool link,
                               const char *option)
{
    enum lk_status st = LK_OK;
    size_t capacity = c->n_slow;
    struct lk_cluster_slow *e;
    double factor;
    int64_t at;

    LK_TRY(lk_parse_factor_at(word, LK_RANKS_MAX - 1, &at, &factor));
    LK_TRY(check_slow(c, (int)at, link));
    LK_TRY(lk_array_grow(&c->slow, &capacity, c->n_slow + 1, sizeof *c->slow));
    e = &c->slow[c->n_slow++];
    *e = (struct lk_cluster_slow){.rank = link ? -1 : (int)at, .node = link ? (int)at : -1};
    e->compute = e->link = lk_quantity_none();
    LK_TRY(lk_quantity_set(link ? &e->link : &e->compute, factor, NAN, NAN, 0, "--%s", option));
out:
    return st;
}

static enum lk_status add_slow_list(struct lk_cluster *c, const char *text, bool link,
                                    const char *option)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *word;

    if (!text)
        return LK_OK;
    LK_TRY(lk_strdup(&copy, text));
    for (rest = copy; (word = strsep(&rest, ","));)
        LK_TRY(add_slow(c, word, link, option));
out:
    free(copy);
    return lk_fail_context(st, "--%s=%s", option, text);
}

enum lk_status known_slow_add(struct lk_cluster *c, const char *ranks, const char *links)
{
    enum lk_status st = LK_OK;

    LK_TRY(add_slow_list(c, ranks, false, "slow-rank"));
    LK_TRY(add_slow_list(c, links, true, "slow-link"));
out:
    return st;
}

/* ---- Tables of throughputs ---- */

const char *const dtype_choices[] = {LK_DTYPE_LIST(LK_WORD_NAME) NULL};

void throughput_inputs_fini(struct throughput_inputs *in)
{
    lk_throughput_fini(&in->table);
    lk_job_fini(&in->job);
    lk_cluster_fini(&in->cluster);
}

/* Return true if a job file's ready times were measured: they differ from the even default. */
static bool is_timed(const struct lk_job *j)
{
    for (size_t i = 0; i < j->n_tensors; i++)
        if (j->tensors[j->ready_order[i]].ready != (double)(i + 1) / (double)j->n_tensors)
            return true;
    return false;
}

static enum lk_status find_gradients(const struct throughput_options *o, const char *path,
                                     struct throughput_inputs *out)
{
    enum lk_status st = LK_OK;
    double n;

    if (o->parameters) {
        LK_TRY(lk_gradients_parse_count(o->parameters, &n));
        LK_TRY(lk_gradients_of_count(n, (enum lk_dtype)o->dtype, &out->job));
    } else if (o->gradients) {
        LK_TRY(
            lk_gradients_read(o->gradients, (enum lk_dtype)o->dtype, &out->job, &out->model.timed));
    } else {
        LK_TRY(find_job(path, &out->job));
        out->model.timed = is_timed(&out->job);
    }
out:
    return st;
}

static enum lk_status find_model(const struct throughput_options *o, const char *cluster,
                                 const char *const *operands, int n, struct throughput_inputs *out)
{
    enum lk_status st = LK_OK;
    bool list = o->parameters || o->gradients;
    int jobs = list ? 0 : 1, clusters = cluster ? 0 : 1;

    if (o->parameters && o->gradients)
        return lk_fail(LK_EUSAGE, "--parameters and --gradients: give one or the other");
    if (!n && !cluster && !list)
        return LK_OK;
    if (n != jobs + clusters)
        return lk_fail(LK_EUSAGE, "with --throughput give both or neither of what the job is (JOB, "
                                  "--parameters or --gradients) and its cluster (CLUSTER or "
                                  "--cluster), each once");
    LK_TRY(find_gradients(o, operands[0], out));
    LK_TRY(find_cluster(cluster ? cluster : operands[jobs], &out->cluster));
    out->model.job = &out->job;
    out->model.cluster = &out->cluster;
    out->request.model = &out->model;
out:
    return st;
}

enum lk_status throughput_inputs_read(const struct throughput_options *o, const char *cluster,
                                      const char *const *operands, int n,
                                      struct throughput_inputs *out)
{
    enum lk_status st = LK_OK;

    out->request.gpus_per_node = (int)o->gpus_per_node;
    LK_TRY(find_model(o, cluster, operands, n, out));
    LK_TRY(lk_throughput_read(o->file, &out->table));
out:
    return st;
}
