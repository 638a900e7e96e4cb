/* This file reads the evidence of `lockstep doctor`. Divisions: the job / the machine / rows /
 * rates / runs / results.
 */
#include "base/array.h"
#include "base/file.h"
#include "commands/analyze_impl.h"
#include "commands/doctor_impl.h"
#include "commands/doctor_measures.h"
#include "commands/inputs.h"
#include "facts/gradients.h"
#include "facts/place.h"
#include "facts/preset.h"
#include "profiler/import/import_files.h"
#include "profiler/import/step_times.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 400 };

void doctor_inputs_fini(struct doctor_inputs *in)
{
    lk_job_fini(&in->job);
    lk_cluster_fini(&in->cluster);
    lk_throughput_fini(&in->table);
}

/* ---- The job ---- */

/* Make the job of what a run says of it. */
static enum lk_status take_job(const struct doctor_options *o, const struct lk_run_info *info,
                               struct doctor_inputs *in)
{
    double parameters = 0;

    for (size_t i = 0; i < info->n_tensors; i++)
        parameters += (double)info->tensors[i].elems;
    in->question.flops_per_sample = o->flops > 0 ? o->flops : info->flops_per_sample;
    LK_PASS(lk_gradients_of_count(parameters, info->tensors[0].dtype, &in->job));
    if (info->cap_bytes) {
        in->job.first_bytes = info->first_bytes;
        in->job.cap_bytes = info->cap_bytes;
    }
    return LK_OK;
}

static enum lk_status read_job(const struct doctor_options *o, struct doctor_inputs *in)
{
    double parameters = NAN;

    if (o->model)
        LK_PASS(lk_known_model_find(o->model, &in->model));
    if (o->parameters)
        LK_PASS(lk_gradients_parse_count(o->parameters, &parameters));
    else if (in->model)
        parameters = in->model->parameters;
    else
        return LK_OK; /* a run may say it */
    in->question.flops_per_sample = o->flops > 0 ? o->flops : in->model ? in->model->flops : NAN;
    return lk_gradients_of_count(parameters, (enum lk_dtype)o->dtype, &in->job);
}

/* ---- The machine ---- */

/* Read the first preset, by name, whose GPU it is: of an A100 "dgx-a100". */
static enum lk_status find_gpu(const char *gpu, struct lk_cluster *out)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    size_t n = 0;
    bool found = false;

    LK_TRY(lk_preset_names(&names, &n));
    for (size_t i = 0; i < n && !found; i++) {
        struct lk_cluster c = {0};

        LK_TRY(find_cluster(names[i], &c));
        found = c.gpu && strcmp(c.gpu, "any") != 0 && lk_device_same(gpu, c.gpu) > 0;
        if (found)
            *out = c;
        else
            lk_cluster_fini(&c);
    }
    if (!found)
        st = lk_fail(LK_EUSAGE, "--gpu: no preset has a '%s'; --cluster names a preset or a file",
                     gpu);
out:
    lk_names_free(names, n);
    return st;
}

static enum lk_status read_machine(const struct doctor_options *o, struct doctor_inputs *in)
{
    if (!o->gpu == !o->cluster)
        return lk_fail(LK_EUSAGE, o->gpu ? "--gpu and --cluster: give one or the other"
                                         : "which machine? --gpu, e.g. a100, or --cluster");
    LK_PASS(o->gpu ? find_gpu(o->gpu, &in->cluster) : find_cluster(o->cluster, &in->cluster));
    if (o->gpus_per_node)
        in->cluster.gpus_per_node = (int)o->gpus_per_node;
    in->question.peak_flops =
        lk_quantity_known(&in->cluster.device.flops) ? in->cluster.device.flops.value : NAN;
    return LK_OK;
}

/* ---- Rows ---- */

/* Return a batch that such samples often have. */
static int usual_batch(const struct doctor_inputs *in)
{
    return in->model && !strcmp(in->model->sample, "image") ? 64 : 8;
}

/* Add the row of a rate. like: what is known of its configuration; NULL: nothing. */
static enum lk_status add_row(const struct doctor_options *o, struct doctor_inputs *in, int gpus,
                              double rate, const struct lk_config *like)
{
    struct lk_trial t = {
        .config = {.world_size = gpus,
                   .nodes = like ? like->nodes : 0,
                   .local_batch = like ? like->local_batch : 0,
                   .accumulation = like ? like->accumulation : (int)o->accumulation,
                   .reduce = LK_REDUCTION_LAST}};

    if (in->question.n_rows == DOCTOR_ROWS_MAX)
        return lk_fail(LK_EUSAGE, "more than %d rates", DOCTOR_ROWS_MAX);
    if (o->local_batch)
        t.config.local_batch = (int)o->local_batch;
    if (!t.config.local_batch) {
        t.config.local_batch = usual_batch(in);
        in->question.batch_guessed = true;
    }
    if (!t.config.nodes)
        LK_PASS(lk_config_fill_nodes(&t.config, in->cluster.gpus_per_node, 0));
    in->rows[in->question.n_rows++] = lk_doctor_row_of(&t, rate);
    return LK_OK;
}

/* ---- Rates ---- */

/* Read a number above 0 up to `end`. */
static enum lk_status read_rate(const char *option, const char *text, const char **rest,
                                double *out)
{
    char *end;

    *out = strtod(text, &end);
    if (end == text || !(*out > 0) || isinf(*out) || isalpha((unsigned char)*end))
        return lk_fail(LK_EUSAGE, "--%s: '%.*s' is not a rate above 0, a number of samples/s",
                       option, (int)strcspn(text, ","), text);
    *rest = end;
    return LK_OK;
}

static enum lk_status read_rates(const struct doctor_options *o, struct doctor_inputs *in)
{
    const char *text = o->throughput;

    if (!o->gpus.n && !text)
        return LK_OK; /* operands have them */
    if (!o->gpus.n || !text)
        return lk_fail(LK_EUSAGE, "--gpus and --throughput are given together");
    for (int i = 0; i < o->gpus.n; i++) {
        double rate;

        LK_PASS(read_rate("throughput", text, &text, &rate));
        LK_PASS(add_row(o, in, (int)o->gpus.v[i], rate, NULL));
        if (*text != (i + 1 < o->gpus.n ? ',' : '\0'))
            return lk_fail(LK_EUSAGE, "--throughput has another number of items than --gpus, %d",
                           o->gpus.n);
        text += *text == ',';
    }
    return LK_OK;
}

static enum lk_status read_table(const struct doctor_options *o, const char *path,
                                 struct doctor_inputs *in)
{
    if (o->gpus.n || o->throughput || in->table.n)
        return lk_fail(LK_EUSAGE, "%s: a table takes the place of --gpus and --throughput", path);
    LK_PASS(lk_throughput_read(path, &in->table));
    for (size_t i = 0; i < in->table.n; i++) {
        const struct lk_scaling_point *p = &in->table.points[i];

        LK_PASS(add_row(o, in, p->config.world_size, p->throughput, &p->config));
    }
    return LK_OK;
}

/* ---- Runs ---- */

/* Find a rate of training as it is on so many GPUs; NULL: there is none. */
static const struct lk_doctor_row *rate_on(const struct doctor_inputs *in, int gpus)
{
    for (size_t i = 0; i < in->question.n_rows; i++) {
        const struct lk_doctor_row *r = &in->rows[i];

        if (r->trial.config.world_size == gpus && !isnan(r->measured[LK_MEASURE_RATE]))
            return r;
    }
    return NULL;
}

static bool has_rate(const struct doctor_inputs *in, const struct lk_config *c)
{
    for (size_t i = 0; i < in->question.n_rows; i++)
        if (lk_config_equal(&in->rows[i].trial.config, c) &&
            !isnan(in->rows[i].measured[LK_MEASURE_RATE]))
            return true;
    return false;
}

/* Take a run's batch for those that were guessed. */
static void take_batch(int local_batch, struct doctor_inputs *in)
{
    for (size_t i = 0; in->question.batch_guessed && i < in->question.n_rows; i++) {
        struct lk_config *c = &in->rows[i].trial.config;

        if (c->local_batch == usual_batch(in))
            c->local_batch = local_batch;
    }
    in->question.batch_guessed = false;
}

/* Add what a run tells. Recording slows a run: a rate that was given for its configuration counts
 * in place of its own. */
static enum lk_status add_run(const struct doctor_options *o, const struct lk_run *run,
                              struct doctor_inputs *in)
{
    const struct lk_run_info *info = lk_run_about(run);
    const struct lk_doctor_row *rate = rate_on(in, lk_run_world_size(run));
    bool counted = !info->sample_unit || strcmp(info->sample_unit, "micro-batch") != 0;
    const struct lk_config like = {.nodes = info->nodes,
                                   .local_batch = counted ? info->local_batch
                                                  : rate  ? rate->trial.config.local_batch
                                                          : 0,
                                   .accumulation = info->accumulation};
    double told[LK_MEASURE_COUNT];
    struct lk_doctor_row *r;
    bool known;

    LK_PASS(doctor_measure_run(run, told));
    if (counted)
        take_batch(info->local_batch, in);
    if (!in->job.n_tensors && info->n_tensors)
        LK_PASS(take_job(o, info, in));
    LK_PASS(add_row(o, in, lk_run_world_size(run), NAN, &like));
    r = &in->rows[in->question.n_rows - 1];
    known = has_rate(in, &r->trial.config);
    memcpy(r->measured, told, sizeof r->measured);
    if (known)
        r->measured[LK_MEASURE_RATE] = NAN;
    else if (!counted) /* it is of micro-batches */
        r->measured[LK_MEASURE_RATE] *= r->trial.config.local_batch;
    in->n_told++;
    return LK_OK;
}

static enum lk_status add_runs(const struct doctor_options *o, const struct lk_run_set *set,
                               struct doctor_inputs *in)
{
    for (size_t i = 0; i < set->n; i++)
        LK_PASS(add_run(o, &set->runs[i], in));
    return LK_OK;
}

static enum lk_status read_folder(const struct doctor_options *o, const char *path,
                                  struct doctor_inputs *in)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};

    LK_TRY(lk_run_set_read(&path, 1, &set));
    LK_TRY(add_runs(o, &set, in));
out:
    lk_run_set_fini(&set);
    return st;
}

/* Read traces of other programs, of one run. */
static enum lk_status read_traces(const struct doctor_options *o, const char *const *paths,
                                  size_t n, struct doctor_inputs *in)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};
    struct lk_import import = {0};

    LK_TRY(analyze_import_read(paths, n, &import, &set));
    if (!set.n)
        LK_TRY(lk_fail(LK_EEVIDENCE, "%s: %s", paths[0], import.no_steps));
    LK_TRY(add_runs(o, &set, in));
out:
    lk_run_set_fini(&set);
    lk_import_fini(&import);
    return st;
}

/* Read a table of ranks' times: of the configuration that has a rate on as many GPUs. */
static enum lk_status read_times(const char *path, struct doctor_inputs *in)
{
    enum lk_status st = LK_OK;
    struct lk_step_times t = {0};
    const struct lk_doctor_row *rate;
    struct lk_doctor_row *r = &in->rows[in->question.n_rows];

    if (in->question.n_rows == DOCTOR_ROWS_MAX)
        return lk_fail(LK_EUSAGE, "more than %d rates", DOCTOR_ROWS_MAX);
    LK_TRY(lk_step_times_read(path, &t));
    rate = rate_on(in, (int)t.n_ranks);
    if (!rate)
        LK_TRY(lk_fail(LK_EUSAGE, "%s has times of %zu ranks, but no rate is of as many GPUs", path,
                       t.n_ranks));
    *r = lk_doctor_row_of(&rate->trial, NAN);
    LK_TRY(doctor_measure_times(&t, r->measured));
    in->question.n_rows++;
    in->n_told++;
out:
    lk_step_times_fini(&t);
    return st;
}

/* Read operands: tables of rates first, since runs are told apart by them. */
static enum lk_status read_operands(const struct doctor_options *o, const char **operands, int n,
                                    struct doctor_inputs *in)
{
    const char *traces[DOCTOR_OPERANDS_MAX];
    size_t n_traces = 0;

    for (int i = 0; i < n; i++)
        if (!lk_is_folder(operands[i]) && !lk_step_times_is(operands[i]) &&
            !lk_import_reads(operands[i]))
            LK_PASS(read_table(o, operands[i], in));
    for (int i = 0; i < n; i++) {
        if (lk_is_folder(operands[i]))
            LK_PASS(lk_import_is(operands[i]) ? read_traces(o, &operands[i], 1, in)
                                              : read_folder(o, operands[i], in));
        else if (!lk_step_times_is(operands[i]) && lk_import_reads(operands[i]))
            traces[n_traces++] = operands[i];
    }
    if (n_traces)
        LK_PASS(read_traces(o, traces, n_traces, in));
    for (int i = 0; i < n; i++)
        if (!lk_is_folder(operands[i]) && lk_step_times_is(operands[i]))
            LK_PASS(read_times(operands[i], in));
    if (!in->question.n_rows)
        return lk_fail(LK_EUSAGE, "which rates? --gpus 1,8 --throughput 410,1900, or a table with "
                                  "columns gpus,throughput, or runs");
    return LK_OK;
}

/* ---- Results ---- */

/* Add the rate, or of copies apart the two rates, of one experiment: "synthetic=2900",
 * "apart=3100/380". */
static enum lk_status read_result(const char *word, struct doctor_inputs *in)
{
    const char *equals = strchr(word, '='), *rest;
    enum lk_status st = LK_OK;
    struct lk_trial t;
    char *name = NULL;
    double rate, slowest = NAN;

    if (!equals)
        return lk_fail(LK_EUSAGE, "--result: '%s' is not NAME=RATE", word);
    if (in->question.n_rows == DOCTOR_ROWS_MAX)
        return lk_fail(LK_EUSAGE, "more than %d rates", DOCTOR_ROWS_MAX);
    LK_TRY(lk_asprintf(&name, "%.*s", (int)(equals - word), word));
    LK_TRY(lk_doctor_trial(&in->question, name, &t));
    LK_TRY(read_rate("result", equals + 1, &rest, &rate));
    if (*rest == '/' && t.apart)
        LK_TRY(read_rate("result", rest + 1, &rest, &slowest));
    if (*rest)
        LK_TRY(lk_fail(LK_EUSAGE, "--result: '%s' is not NAME=RATE%s", word,
                       t.apart ? " or NAME=RATE/SLOWEST" : ""));
    in->rows[in->question.n_rows] = lk_doctor_row_of(&t, rate);
    in->rows[in->question.n_rows].measured[LK_MEASURE_SLOWEST] =
        (rate - slowest) / (t.config.world_size - 1) / slowest;
    in->question.n_rows++;
    in->n_told++;
out:
    free(name);
    return st;
}

static enum lk_status read_results(const struct doctor_options *o, struct doctor_inputs *in)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest;

    if (!o->result)
        return LK_OK;
    LK_TRY(lk_strdup(&copy, o->result));
    rest = copy;
    for (char *word; (word = lk_list_next(&rest));)
        LK_TRY(read_result(word, in));
out:
    free(copy);
    return st;
}

enum lk_status doctor_inputs_read(const struct doctor_options *o, const char **operands, int n,
                                  struct doctor_inputs *in)
{
    LK_PASS(read_job(o, in));
    LK_PASS(read_machine(o, in));
    in->question.rows = in->rows;
    in->question.job = &in->job;
    in->question.cluster = &in->cluster;
    in->question.draws = DRAWS;
    in->question.seed = (uint64_t)o->seed;
    LK_PASS(read_rates(o, in));
    LK_PASS(read_operands(o, operands, n, in));
    if (!in->job.n_tensors)
        return lk_fail(LK_EUSAGE, "which model? --model, or --parameters and --flops");
    return read_results(o, in);
}
