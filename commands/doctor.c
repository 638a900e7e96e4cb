/* lockstep doctor: the likely causes of a loss that two rates show, and the run that tells them
 * apart. Divisions: options / inputs / results / the page / the command. */
#include "sim/throughput/doctor.h"
#include "base/array.h"
#include "base/label.h"
#include "base/option.h"
#include "base/units.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/inputs.h"
#include "facts/bounds.h"
#include "facts/forecast_answer.h"
#include "facts/gradients.h"
#include "facts/known_models.h"
#include "facts/place.h"
#include "facts/preset.h"
#include "sim/throughput/throughput.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

enum { ROWS_MAX = 64, DRAWS = 400 };

struct options {
    struct lk_ints gpus;
    const char *throughput, *model, *parameters, *gpu, *cluster, *result;
    double flops;
    int dtype;
    int64_t local_batch, accumulation, gpus_per_node, seed;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("gpus", gpus, INTS, .min = 1, .max = LK_FORECAST_GPUS_MAX, .group = "what was measured",
           .help = "counts of GPUs, two or more: 1,8; or a table of them as the operand"),
    OPTION("throughput", throughput, TEXT, .word = "X,X,...",
           .help = "samples a second of all GPUs together, one for each count: 410,1900"),
    OPTION("local-batch", local_batch, INT, .min = 1, .max = LK_BATCH_MAX,
           .help = "samples of a micro-batch on one GPU; default: a usual one, known to a factor of four"),
    OPTION("accumulation", accumulation, INT, .min = 1, .max = LK_ACCUMULATION_MAX, .fallback = "1",
           .help = "micro-batches of a step"),
    OPTION("result", result, TEXT, .word = "NAME=X,...",
           .help = "what experiments brought: synthetic=2900,apart=3100/380 (all copies together, the slowest alone)"),
    OPTION("model", model, TEXT, .group = "the job",
           .help = "name of a known model, e.g. resnet50, bert-large, gpt2"),
    OPTION("parameters", parameters, TEXT, .help = "its count of parameters, e.g. 124M"),
    OPTION("flops", flops, REAL, .min = 1, .max = 1e18,
           .help = "operations of a sample, forward and backward, a multiply-add being two: 24.5e9"),
    OPTION("dtype", dtype, CHOICE, .choices = dtype_choices, .fallback = "float32",
           .help = "type of the gradients"),
    OPTION("gpu", gpu, TEXT, .group = "the machine",
           .help = "the GPU, e.g. a100: the machine is a preset's that has it"),
    OPTION("cluster", cluster, TEXT, .role = LK_ROLE_CLUSTER,
           .help = "cluster file or preset, in place of --gpu"),
    OPTION("gpus-per-node", gpus_per_node, INT, .min = 1, .max = 1 << 16,
           .help = "GPUs of a node; default: the cluster's"),
    OPTION("seed", seed, INT, .min = 0, .max = 1e15, .fallback = "1",
           .help = "seed of the draws; the same seed gives the same output"),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "efficiency"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* ---- Inputs ---- */

struct inputs {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_throughput_table table;
    struct lk_doctor_row rows[ROWS_MAX];
    struct lk_doctor_question question;
    const struct lk_known_model *model; /* NULL: not named */
};

static void inputs_fini(struct inputs *in)
{
    lk_job_fini(&in->job);
    lk_cluster_fini(&in->cluster);
    lk_throughput_fini(&in->table);
}

static enum lk_status read_job(const struct options *o, struct inputs *in)
{
    double parameters = NAN;

    if (o->model)
        LK_PASS(lk_known_model_find(o->model, &in->model));
    if (o->parameters)
        LK_PASS(lk_gradients_parse_count(o->parameters, &parameters));
    else if (in->model)
        parameters = in->model->parameters;
    else
        return lk_fail(LK_EUSAGE, "which model? --model, or --parameters and --flops");
    in->question.flops_per_sample = o->flops > 0 ? o->flops : in->model ? in->model->flops : NAN;
    return lk_gradients_of_count(parameters, (enum lk_dtype)o->dtype, &in->job);
}

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

static enum lk_status read_machine(const struct options *o, struct inputs *in)
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

/* Return a batch that such samples often have. */
static int usual_batch(const struct inputs *in)
{
    return in->model && !strcmp(in->model->sample, "image") ? 64 : 8;
}

static enum lk_status add_row(const struct options *o, struct inputs *in, int gpus, double rate,
                              const struct lk_config *like)
{
    struct lk_doctor_row *r = &in->rows[in->question.n_rows];
    int per_node = in->cluster.gpus_per_node;

    if (in->question.n_rows == ROWS_MAX)
        return lk_fail(LK_EUSAGE, "more than %d rates", ROWS_MAX);
    *r = (struct lk_doctor_row){.throughput = rate};
    r->trial.config =
        (struct lk_config){.world_size = gpus,
                           .nodes = like ? like->nodes : 0,
                           .local_batch = like ? like->local_batch : 0,
                           .accumulation = like ? like->accumulation : (int)o->accumulation,
                           .reduce = LK_REDUCTION_LAST};
    if (o->local_batch)
        r->trial.config.local_batch = (int)o->local_batch;
    if (!r->trial.config.local_batch) {
        r->trial.config.local_batch = usual_batch(in);
        in->question.batch_guessed = true;
    }
    if (!r->trial.config.nodes)
        LK_PASS(lk_config_fill_nodes(&r->trial.config, per_node, 0));
    in->question.n_rows++;
    return LK_OK;
}

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

static enum lk_status read_rates(const struct options *o, struct inputs *in)
{
    const char *text = o->throughput;

    if (!o->gpus.n || !text)
        return lk_fail(LK_EUSAGE, "which rates? --gpus 1,8 --throughput 410,1900, or a table with "
                                  "columns gpus,throughput");
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

static enum lk_status read_table(const struct options *o, const char *path, struct inputs *in)
{
    if (o->gpus.n || o->throughput)
        return lk_fail(LK_EUSAGE, "%s: a table takes the place of --gpus and --throughput", path);
    LK_PASS(lk_throughput_read(path, &in->table));
    for (size_t i = 0; i < in->table.n; i++) {
        const struct lk_scaling_point *p = &in->table.points[i];

        LK_PASS(add_row(o, in, p->config.world_size, p->throughput, &p->config));
    }
    return LK_OK;
}

/* ---- Results ---- */

/* Add the rate, or of copies apart the two rates, of one experiment: "synthetic=2900",
 * "apart=3100/380". */
static enum lk_status read_result(const char *word, struct inputs *in)
{
    const char *equals = strchr(word, '='), *rest;
    struct lk_doctor_row *r = &in->rows[in->question.n_rows];
    enum lk_status st = LK_OK;
    char *name = NULL;
    double slowest;

    if (!equals)
        return lk_fail(LK_EUSAGE, "--result: '%s' is not NAME=RATE", word);
    if (in->question.n_rows + 2 > ROWS_MAX)
        return lk_fail(LK_EUSAGE, "more than %d rates", ROWS_MAX);
    LK_TRY(lk_asprintf(&name, "%.*s", (int)(equals - word), word));
    LK_TRY(lk_doctor_trial(&in->question, name, &r->trial));
    LK_TRY(read_rate("result", equals + 1, &rest, &r->throughput));
    if (*rest == '/' && r->trial.apart) {
        LK_TRY(read_rate("result", rest + 1, &rest, &slowest));
        r[1] = *r;
        r[1].trial.slowest = true;
        r[1].throughput = slowest * r->trial.config.world_size;
        in->question.n_rows++;
    }
    if (*rest)
        LK_TRY(lk_fail(LK_EUSAGE, "--result: '%s' is not NAME=RATE%s", word,
                       r->trial.apart ? " or NAME=RATE/SLOWEST" : ""));
    in->question.n_rows++;
out:
    free(name);
    return st;
}

static enum lk_status read_results(const struct options *o, struct inputs *in)
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

static enum lk_status read_inputs(const struct options *o, const char **operands, int n,
                                  struct inputs *in)
{
    LK_PASS(read_job(o, in));
    LK_PASS(read_machine(o, in));
    in->question.rows = in->rows;
    in->question.job = &in->job;
    in->question.cluster = &in->cluster;
    in->question.draws = DRAWS;
    in->question.seed = (uint64_t)o->seed;
    LK_PASS(n ? read_table(o, operands[0], in) : read_rates(o, in));
    return read_results(o, in);
}

/* ---- The page ---- */

extern const struct lk_command lk_command_doctor;

/* A recipe says what to do for an experiment; %d: GPUs. */
static const struct {
    const char *name, *what;
} recipes[] = {
    {"synthetic", "%d GPUs with input that is made on the GPU: one batch, kept, in place of the "
                  "loader's"},
    {"apart", "%d copies of the 1-GPU job at once, one a GPU, as with CUDA_VISIBLE_DEVICES=$i: "
              "their rates added, and the slowest one's"},
    {"apart-synthetic",
     "%d copies of the 1-GPU job at once, one a GPU, each with one batch that is "
     "kept on its GPU: their rates added, and the slowest one's"},
    {"accumulate-x4",
     "%d GPUs with four times the micro-batches a step, under no_sync() but for the "
     "last"},
    {"batch-x2", "%d GPUs with twice the local batch"},
    {"no-sync", "%d GPUs under no_sync() in all micro-batches of a step but the last"},
    {"half", "%d of the GPUs, of the same node"},
    {"one-node", "%d GPUs of one node"},
};

static enum lk_status recipe_of(const struct lk_experiment *e, char **out)
{
    for (size_t i = 0; i < LK_COUNT(recipes); i++)
        if (!strcmp(recipes[i].name, e->name)) {
            int gpus = e->trial.config.world_size;
            const char *rest = strstr(recipes[i].what, "%d") + 2;

            return lk_asprintf(out, "%d%s", gpus, rest);
        }
    return lk_strdup(out, e->name);
}

static const struct lk_doctor_row *end_row(const struct inputs *in, bool most)
{
    const struct lk_doctor_row *found = &in->rows[0];

    for (size_t i = 1; i < in->question.n_rows; i++) {
        const struct lk_doctor_row *r = &in->rows[i];
        int by = LK_ORDER(r->trial.config.world_size, found->trial.config.world_size);

        if (!r->trial.no_sync && !r->trial.synthetic && !r->trial.apart && (most ? by > 0 : by < 0))
            found = r;
    }
    return found;
}

/* Say what is reached, and what the machine should reach. */
static enum lk_status say_rates(const struct inputs *in, const struct lk_diagnosis *d,
                                struct lk_page *page)
{
    const struct lk_doctor_row *most = end_row(in, true), *least = end_row(in, false);
    int gpus = most->trial.config.world_size, from = least->trial.config.world_size;
    double linear = least->throughput / from * gpus;
    char rate[32], expected[32], share[32], peak[96] = "";

    if (!isnan(d->peak_share))
        snprintf(peak, sizeof peak, "; %d GPU%s reach%s %s %% of the peak", from,
                 from == 1 ? "" : "s", from == 1 ? "es" : "",
                 lk_answer_percent(d->peak_share, share, sizeof share));
    LK_PASS(lk_page_value(page, "efficiency", "", LK_DIM_NONE, most->throughput / linear));
    LK_PASS(lk_page_value(page, "expected_per_s", "", LK_DIM_NONE, d->expected));
    return lk_page_say(page,
                       "%d GPUs make %s samples/s, %.0f %% of linear scaling against %d; %s (%.0f "
                       "%%) are to be expected of %s%s.",
                       gpus, lk_answer_number(most->throughput, rate, sizeof rate),
                       100 * most->throughput / linear, from,
                       lk_answer_number(d->expected, expected, sizeof expected),
                       100 * d->expected / linear, in->cluster.name, peak);
}

static int next_cause(const struct lk_diagnosis *d, const bool *taken)
{
    int found = -1;

    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        if (!taken[c] && d->odds[c] > 0.02 && (found < 0 || d->odds[c] > d->odds[found]))
            found = c;
    return found;
}

/* Say that nothing is lost that has to be explained; a cause that slows one GPU as much as all may
 * be likely all the same. more: the rates are above what is to be expected. */
static enum lk_status say_no_loss(const struct inputs *in, const struct lk_diagnosis *d, bool more,
                                  struct lk_page *page)
{
    bool tells;
    enum lk_cause first = lk_diagnosis_first(d, &tells);

    if (more)
        return lk_page_say(page,
                           "That is more than is to be expected, so no loss has to be explained: "
                           "are all rates of one batch, and of GPUs like %s's?",
                           in->cluster.name);
    if (!tells || first == LK_CAUSE_NONE)
        return lk_page_say(page, "That is as expected, so nothing needs to be wrong, and small "
                                 "faults cannot be told.");
    return lk_page_say(page,
                       "That is as expected: scaling loses nothing that has to be explained. What "
                       "slows one GPU as much as all would most likely be %s (%.0f %%).",
                       lk_cause_name(first), 100 * d->odds[first]);
}

/* Name the causes, the likeliest first. */
static enum lk_status say_causes(const struct inputs *in, bool results,
                                 const struct lk_diagnosis *d, struct lk_page *page)
{
    const double ALIKE = 0.05; /* as two rates of one job are, more or less */
    enum lk_status st = LK_OK;
    bool tells, taken[LK_CAUSE_COUNT] = {false};
    enum lk_cause first = lk_diagnosis_first(d, &tells);
    char *others = NULL;
    double above;

    taken[first] = true;
    for (int c, n = 0; n < 3 && (c = next_cause(d, taken)) >= 0; n++) {
        taken[c] = true;
        LK_TRY(lk_text_add(&others, "%s%s (%.0f %%)", n ? ", " : "",
                           lk_cause_name((enum lk_cause)c), 100 * d->odds[c]));
    }
    above = end_row(in, true)->throughput / d->expected - 1;
    if ((!tells || !results) && above > -ALIKE) {
        st = say_no_loss(in, d, above >= ALIKE, page);
        goto out;
    }
    st = tells ? lk_page_say(page, "Most likely %s (%s, %.0f %%)%s%s.", lk_cause_text(first),
                             lk_cause_name(first), 100 * d->odds[first], others ? "; else " : "",
                             others ? others : "")
               : lk_page_say(page,
                             "These rates cannot tell the cause: %s (%.0f %%)%s%s are about as "
                             "likely.",
                             lk_cause_name(first), 100 * d->odds[first], others ? ", " : "",
                             others ? others : "");
out:
    free(others);
    return st;
}

/* Say which run tells most, and how to go on with its result. */
static enum lk_status say_experiment(const struct options *o, const char **operands, int n,
                                     const struct lk_diagnosis *d, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    const struct lk_experiment *e = &d->experiments[0];
    char *what = NULL, *again = NULL, **argv = NULL;
    struct options more = *o;

    if (!d->n_experiments || e->bits < 0.05)
        return lk_page_next(page,
                            "no short run would tell much more; lockstep profile -- JOB shows "
                            "where a step's time goes, rank by rank");
    more.result = NULL;
    more.page = (struct lk_page_options){0};
    more.gate = (struct lk_gate_options){0};
    LK_TRY(recipe_of(e, &what));
    LK_TRY(lk_command_argv(&lk_command_doctor, &more, n ? operands[0] : NULL, &argv));
    for (size_t i = 0; argv[i]; i++)
        LK_TRY(lk_text_add(&again, "%s%s", i ? " " : "", argv[i]));
    LK_TRY(lk_page_next(page, "run for two minutes: %s", what));
    LK_TRY(lk_page_next(page, "then: %s --result=%s%s%s=RATE%s", again, o->result ? o->result : "",
                        o->result ? "," : "", e->name, e->trial.apart ? "/SLOWEST" : ""));
out:
    free(again);
    free(what);
    lk_argv_free(argv);
    return st;
}

static enum lk_status add_causes(const struct lk_diagnosis *d, struct lk_page *page)
{
    static const struct lk_column columns[] = {
        {"cause", "cause", LK_DIM_NONE, -1},
        {"odds", "odds", LK_DIM_NONE, LK_TABLE_PERCENT},
        {"size", "times as long", LK_DIM_NONE, 2},
        {"what", "what it is", LK_DIM_NONE, -1},
    };
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    bool taken[LK_CAUSE_COUNT] = {false};
    char *labels = NULL;

    LK_TRY(lk_table_create("Causes", columns, LK_COUNT(columns), &t));
    for (int i = 0; i < LK_CAUSE_COUNT; i++) {
        int c = -1;

        for (int k = 0; k < LK_CAUSE_COUNT; k++)
            if (!taken[k] && (c < 0 || d->odds[k] > d->odds[c]))
                c = k;
        taken[c] = true;
        if (!(d->odds[c] > 0))
            continue;
        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_word(t, "cause", lk_cause_name((enum lk_cause)c)));
        LK_TRY(lk_table_number(t, "odds", d->odds[c]));
        LK_TRY(lk_table_number(t, "size", d->size[c]));
        LK_TRY(lk_table_word(t, "what", lk_cause_text((enum lk_cause)c)));
        free(labels);
        labels = NULL;
        LK_TRY(lk_label_add(&labels, "cause", "%s", lk_cause_name((enum lk_cause)c)));
        LK_TRY(lk_page_value(page, "odds", labels, LK_DIM_NONE, d->odds[c]));
    }
    LK_TRY(lk_page_table(page, "causes", LK_PAGE_MAIN, NULL, 0, &t));
out:
    free(labels);
    lk_table_destroy(t);
    return st;
}

static enum lk_status add_experiments(const struct lk_diagnosis *d, struct lk_page *page)
{
    enum { FIRST = 2 };
    struct lk_column columns[FIRST + LK_CAUSE_COUNT] = {
        {"experiment", "experiment", LK_DIM_NONE, -1}, {"bits", "bits", LK_DIM_NONE, 2}};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        const char *name = lk_cause_name((enum lk_cause)c);

        columns[FIRST + c] = (struct lk_column){name, name, LK_DIM_NONE, 0};
    }
    LK_TRY(lk_table_create("Experiments: bits of information on the cause, and the rate that each "
                           "cause makes likely",
                           columns, LK_COUNT(columns), &t));
    for (size_t i = 0; i < d->n_experiments; i++) {
        const struct lk_experiment *e = &d->experiments[i];

        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_word(t, "experiment", e->name));
        LK_TRY(lk_table_number(t, "bits", e->bits));
        for (int c = 0; c < LK_CAUSE_COUNT; c++)
            LK_TRY(lk_table_number(t, columns[FIRST + c].name, e->rate[c]));
    }
    LK_TRY(lk_page_table(page, "experiments", LK_PAGE_DETAIL, NULL, 0, &t));
out:
    lk_table_destroy(t);
    return st;
}

/* ---- The command ---- */

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *o = options;
    enum lk_status st = LK_OK;
    struct inputs in = {0};
    struct lk_diagnosis d;

    LK_TRY(read_inputs(o, operands, n, &in));
    LK_TRY(lk_doctor(&in.question, &d));
    LK_TRY(say_rates(&in, &d, page));
    LK_TRY(say_causes(&in, o->result != NULL, &d, page));
    if (in.question.batch_guessed)
        LK_TRY(lk_page_note(page,
                            "the local batch is guessed, %d to a factor of four: --local-batch "
                            "sharpens the odds",
                            in.rows[0].trial.config.local_batch));
    LK_TRY(add_causes(&d, page));
    LK_TRY(add_experiments(&d, page));
    LK_TRY(say_experiment(o, operands, n, &d, page));
out:
    inputs_fini(&in);
    return st;
}

const struct lk_command lk_command_doctor = {
    .name = "doctor",
    .usage = "[TABLE]",
    .help = "say what likely causes a loss that two rates show, and which short run tells",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 1,
    .main_value = "efficiency",
    .tables = TABLES("causes", "experiments"),
    .run = run,
};
