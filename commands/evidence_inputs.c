/* Sources of evidence, opened by what a command's words name. */
#include "commands/evidence_inputs.h"

#include "base/array.h"
#include "commands/inputs.h"
#include "commands/job_inputs.h"
#include "facts/bounds.h"
#include "facts/gradients.h"

#include <math.h>
#include <string.h>

const char *const dtype_choices[] = {LK_DTYPE_LIST(LK_WORD_NAME) NULL};

void evidence_fini(struct evidence_inputs *in)
{
    if (in->source.self)
        in->source.ops->close(in->source.self);
    lk_throughput_fini(&in->table);
    lk_job_fini(&in->job);
    lk_cluster_fini(&in->cluster);
    lk_cluster_fini(&in->measured_on);
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
                                     struct evidence_inputs *out)
{
    double n;

    if (o->parameters) {
        LK_PASS(lk_gradients_parse_count(o->parameters, &n));
        LK_PASS(lk_gradients_of_count(n, (enum lk_dtype)o->dtype, &out->job));
    } else if (o->gradients) {
        LK_PASS(
            lk_gradients_read(o->gradients, (enum lk_dtype)o->dtype, &out->job, &out->model.timed));
    } else {
        LK_PASS(find_job(path, &out->job));
        out->model.timed = is_timed(&out->job);
    }
    return LK_OK;
}

static enum lk_status find_model(const struct throughput_options *o, const char *cluster,
                                 const char *const *operands, int n, struct evidence_inputs *out)
{
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
    LK_PASS(find_gradients(o, operands[0], out));
    LK_PASS(find_cluster(cluster ? cluster : operands[jobs], &out->cluster));
    out->model.job = &out->job;
    out->model.cluster = &out->cluster;
    out->request.model = &out->model;
    return LK_OK;
}

static bool is_place_word(const char *word)
{
    return !strcmp(word, LK_PLACE_HERE_WORD) || !strcmp(word, LK_PLACE_ELSEWHERE_WORD);
}

/* Find the cluster that the table's rows were measured on, by the option, else by the table. */
static enum lk_status find_place(const char *option, struct evidence_inputs *in)
{
    const char *word = option ? option : in->table.measured_on;

    if (!word || !in->request.model)
        return option ? lk_fail(LK_EUSAGE, "--measured-on: the table alone is of its own machine; "
                                           "give what the job is and its cluster, too")
                      : LK_OK;
    if (!strcmp(word, LK_PLACE_ELSEWHERE_WORD))
        return lk_fail(LK_EUSAGE,
                       "rows measured elsewhere tell nothing of %s by themselves: "
                       "--measured-on names their cluster, a file or a preset",
                       in->cluster.name);
    if (strcmp(word, LK_PLACE_HERE_WORD) != 0 && strcmp(word, in->cluster.name) != 0) {
        LK_PASS(lk_fail_context(find_cluster(word, &in->measured_on), "%s: measured on",
                                option ? "--measured-on" : in->table.name));
        if (strcmp(in->measured_on.name, in->cluster.name) != 0)
            in->model.measured_on = &in->measured_on;
    }
    in->model.is_said = !in->model.measured_on;
    return LK_OK;
}

enum lk_status evidence_open_table(const struct throughput_options *o, const char *cluster,
                                   const char *const *operands, int n, struct evidence_inputs *in)
{
    in->request.gpus_per_node = (int)o->gpus_per_node;
    LK_PASS(find_model(o, cluster, operands, n, in));
    LK_PASS(lk_throughput_read(o->file, &in->table));
    LK_PASS(find_place(o->measured_on, in));
    return lk_throughput_evidence(&in->table, &in->request, &in->source);
}

/* Set the place that --measured-on says of a job and its runs, in place of what they say. */
static enum lk_status say_place(const char *word, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = {0};
    bool is_word = word && is_place_word(word);

    if (word && !is_word)
        LK_TRY(lk_fail_context(find_cluster(word, &c), "--measured-on"));
    for (size_t i = 0; word && i <= j->n_runs; i++) {
        struct lk_place *p = i < j->n_runs ? &j->runs[i].place : &j->place;

        LK_TRY(lk_place_say(p, is_word ? word : c.name));
        if (!p->device && !is_word)
            LK_TRY(lk_place_set_device(p, c.gpu));
    }
out:
    lk_cluster_fini(&c);
    return st;
}

static int most_gpus(const struct lk_forecast_request *q)
{
    int64_t most = 0;

    for (size_t i = 0; i < q->axes[LK_AXIS_GPUS].n; i++)
        most = q->axes[LK_AXIS_GPUS].v[i].count > most ? q->axes[LK_AXIS_GPUS].v[i].count : most;
    return most < LK_RANKS_MAX ? (int)most : LK_RANKS_MAX;
}

/* Let the scaling law answer from the job's runs where they contradict the step model. */
static enum lk_status add_law(struct evidence_inputs *in)
{
    struct lk_throughput_request q = {
        .grid = in->request.grid, .gpus_per_node = in->cluster.gpus_per_node, .refuted = true};
    struct lk_evidence_source law;

    LK_PASS(lk_throughput_of_runs(&in->job, &in->cluster, &in->table));
    if (!in->table.n || q.grid.anyway)
        return LK_OK;
    LK_PASS(lk_throughput_evidence(&in->table, &q, &law));
    lk_step_evidence_set_law(&in->source, &law);
    return LK_OK;
}

enum lk_status evidence_open_job(const char *const *jobs, size_t n, const char *cluster,
                                 const struct machine_facts *facts, struct evidence_inputs *in)
{
    LK_PASS(find_job_of_runs(jobs, n, &in->job));
    LK_PASS(find_cluster(cluster, &in->cluster));
    LK_PASS(say_place(facts->measured_on, &in->job));
    if (facts->gpus_per_node)
        in->cluster.gpus_per_node = (int)facts->gpus_per_node;
    if (facts->overlap_slowdown > 0)
        LK_PASS(lk_quantity_set(&in->cluster.gamma_wire, facts->overlap_slowdown - 1, NAN, NAN, 0,
                                "--overlap-slowdown"));
    LK_PASS(known_slow_add(&in->cluster, most_gpus(&in->request.grid), facts->slow_ranks,
                           facts->slow_links));
    LK_PASS(lk_step_evidence(&in->job, &in->cluster, &in->request.grid, &in->source));
    return add_law(in);
}

enum lk_status check_no_table(const struct throughput_options *o)
{
    return o->parameters || o->gradients
               ? lk_fail(LK_EUSAGE, "--parameters and --gradients go with --throughput")
               : LK_OK;
}
