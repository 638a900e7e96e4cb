/* lockstep doctor: the likely causes of a loss that two rates show, and the run that tells them
 * apart. Divisions: options / the page / the command. */
#include "base/array.h"
#include "base/label.h"
#include "base/option.h"
#include "base/units.h"
#include "commands/command.h"
#include "commands/doctor_impl.h"
#include "facts/bounds.h"
#include "facts/forecast_answer.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

#define OPTION(...) ROW(struct doctor_options, __VA_ARGS__)

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

/* ---- The page ---- */

extern const struct lk_command lk_command_doctor;

/* A recipe says what to do for a run of an experiment; %d: GPUs. */
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

/* Say how to make a run of an experiment. */
static enum lk_status recipe_of(const struct lk_experiment *e, const struct lk_trial *t, char **out)
{
    int gpus = t->config.world_size;
    const char *rest = NULL;

    if (e->profiled)
        return lk_asprintf(out,
                           "lockstep profile --out profile-%d -- JOB, on %d GPUs%s; of `lockstep "
                           "run` its folder is one",
                           gpus, gpus, t->config.nodes > 1 ? " of all nodes" : "");
    for (size_t i = 0; i < LK_COUNT(recipes); i++)
        if (!strcmp(recipes[i].name, e->name))
            rest = strstr(recipes[i].what, "%d") + 2;
    return rest ? lk_asprintf(out, "%d%s", gpus, rest) : lk_strdup(out, e->name);
}

/* Say what is reached, and what the machine should reach. */
static enum lk_status say_rates(const struct doctor_inputs *in, const struct lk_diagnosis *d,
                                struct lk_page *page)
{
    const struct lk_doctor_row *most = lk_doctor_end(&in->question, true);
    const struct lk_doctor_row *least = lk_doctor_end(&in->question, false);
    double rate_most = most->measured[LK_MEASURE_RATE];
    int gpus = most->trial.config.world_size, from = least->trial.config.world_size;
    double linear = least->measured[LK_MEASURE_RATE] / from * gpus;
    char rate[32], expected[32], share[32], peak[96] = "";

    if (!isnan(d->peak_share))
        snprintf(peak, sizeof peak, "; %d GPU%s reach%s %s %% of the peak", from,
                 from == 1 ? "" : "s", from == 1 ? "es" : "",
                 lk_answer_percent(d->peak_share, share, sizeof share));
    LK_PASS(lk_page_value(page, "efficiency", "", LK_DIM_NONE, rate_most / linear));
    LK_PASS(lk_page_value(page, "expected_per_s", "", LK_DIM_NONE, d->expected));
    return lk_page_say(page,
                       "%d GPUs make %s samples/s, %.0f %% of linear scaling against %d; %s (%.0f "
                       "%%) are to be expected of %s%s.",
                       gpus, lk_answer_number(rate_most, rate, sizeof rate),
                       100 * rate_most / linear, from,
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
static enum lk_status say_no_loss(const struct doctor_inputs *in, const struct lk_diagnosis *d,
                                  bool more, struct lk_page *page)
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
static enum lk_status say_causes(const struct doctor_inputs *in, const struct lk_diagnosis *d,
                                 struct lk_page *page)
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
    above = lk_doctor_end(&in->question, true)->measured[LK_MEASURE_RATE] / d->expected - 1;
    if ((!tells || !in->n_told) && above > -ALIKE) {
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

/* Add the question's own words, for one that goes on from it; results: with those that it has. */
static enum lk_status add_question(const struct doctor_options *o, const char **operands, int n,
                                   bool results, char **text)
{
    enum lk_status st = LK_OK;
    struct doctor_options more = *o;
    char **argv = NULL;

    more.page = (struct lk_page_options){0};
    more.gate = (struct lk_gate_options){0};
    if (!results)
        more.result = NULL;
    LK_TRY(lk_command_argv(&lk_command_doctor, &more, NULL, &argv));
    for (size_t i = 0; argv[i]; i++)
        LK_TRY(lk_text_add(text, "%s%s", i ? " " : "", argv[i]));
    for (int i = 0; i < n; i++)
        LK_TRY(lk_text_add(text, " %s", operands[i]));
out:
    lk_argv_free(argv);
    return st;
}

/* Say which run tells most, and how to go on with its result. */
static enum lk_status say_experiment(const struct doctor_options *o, const char **operands, int n,
                                     const struct lk_diagnosis *d, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    const struct lk_experiment *e = &d->experiments[0];
    char *what = NULL, *again = NULL;

    if (!d->n_experiments || e->bits < 0.05)
        return lk_page_next(page, "no short run would tell much more; lockstep analyze shows of a "
                                  "profiled run where a step's time goes, rank by rank");
    LK_TRY(add_question(o, operands, n, e->profiled, &again));
    for (size_t i = 0; i < e->n_trials; i++) {
        free(what);
        what = NULL;
        LK_TRY(recipe_of(e, &e->trials[i], &what));
        LK_TRY(lk_page_next(page, "run for %s: %s", e->n_trials > 1 ? "a minute" : "two minutes",
                            what));
        if (e->profiled)
            LK_TRY(lk_text_add(&again, " profile-%d", e->trials[i].config.world_size));
    }
    if (e->profiled)
        LK_TRY(lk_page_next(page, "then: %s", again));
    else
        LK_TRY(lk_page_next(page, "then: %s --result=%s%s%s=RATE%s", again,
                            o->result ? o->result : "", o->result ? "," : "", e->name,
                            e->trials[0].apart ? "/SLOWEST" : ""));
out:
    free(again);
    free(what);
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

/* Add what was told of each run. */
static enum lk_status add_told(const struct doctor_inputs *in, struct lk_page *page)
{
    static const struct lk_column first[] = {{"gpus", "GPUs", LK_DIM_NONE, -1},
                                             {"nodes", "nodes", LK_DIM_NONE, -1},
                                             {"local_batch", "local batch", LK_DIM_NONE, -1},
                                             {"accumulation", "accumulation", LK_DIM_NONE, -1}};
    enum { FIRST = LK_COUNT(first) };
    struct lk_column columns[FIRST + LK_MEASURE_COUNT];
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    memcpy(columns, first, sizeof first);
    for (int m = 0; m < LK_MEASURE_COUNT; m++) {
        const char *name = lk_measure_name((enum lk_measure)m);
        bool ratio = m == LK_MEASURE_RATE || m == LK_MEASURE_SLOWEST || m == LK_MEASURE_REDUCED;

        columns[FIRST + m] =
            (struct lk_column){name, name, ratio ? LK_DIM_NONE : LK_DIM_TIME, ratio ? 2 : 0};
    }
    LK_TRY(lk_table_create("What runs told: rates in samples/s, times of a step", columns,
                           LK_COUNT(columns), &t));
    for (size_t i = 0; i < in->question.n_rows; i++) {
        const struct lk_doctor_row *r = &in->rows[i];

        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_number(t, "gpus", r->trial.config.world_size));
        LK_TRY(lk_table_number(t, "nodes", r->trial.config.nodes));
        LK_TRY(lk_table_number(t, "local_batch", r->trial.config.local_batch));
        LK_TRY(lk_table_number(t, "accumulation", r->trial.config.accumulation));
        for (int m = 0; m < LK_MEASURE_COUNT; m++)
            LK_TRY(lk_table_number(t, columns[FIRST + m].name, r->measured[m]));
    }
    LK_TRY(lk_page_table(page, "told", LK_PAGE_DETAIL, NULL, 0, &t));
out:
    lk_table_destroy(t);
    return st;
}

/* ---- The command ---- */

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct doctor_options *o = options;
    enum lk_status st = LK_OK;
    struct doctor_inputs in = {0};
    struct lk_diagnosis d;

    LK_TRY(doctor_inputs_read(o, operands, n, &in));
    LK_TRY(lk_doctor(&in.question, &d));
    LK_TRY(say_rates(&in, &d, page));
    LK_TRY(say_causes(&in, &d, page));
    if (in.question.batch_guessed)
        LK_TRY(lk_page_note(page,
                            "the local batch is guessed, %d to a factor of four: --local-batch "
                            "sharpens the odds",
                            in.rows[0].trial.config.local_batch));
    LK_TRY(add_causes(&d, page));
    LK_TRY(add_experiments(&d, page));
    LK_TRY(add_told(&in, page));
    LK_TRY(say_experiment(o, operands, n, &d, page));
out:
    doctor_inputs_fini(&in);
    return st;
}

const struct lk_command lk_command_doctor = {
    .name = "doctor",
    .usage = "[TABLE | RUN... | TRACE... | TIMES.csv]",
    .help = "say what likely causes a loss that two rates show, and which short run tells",
    .options = rows,
    .size = sizeof(struct doctor_options),
    .operands_max = DOCTOR_OPERANDS_MAX,
    .main_value = "efficiency",
    .tables = TABLES("causes", "experiments", "told"),
    .run = run,
};
