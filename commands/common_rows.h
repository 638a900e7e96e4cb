/*
 * Options that several commands have, as rows of their tables (ROW in commands/command.h). A
 * command that has such a row has the members that the row's comment names in the struct of its
 * options:
 *
 *     #define OPTION(...) ROW(struct options, __VA_ARGS__)
 *     static const struct lk_option rows[] = {
 *         OPTION("gpus", gpus, INTS, .min = 1, .max = 1024, .help = "counts of GPUs"),
 *         PAGE_ROWS(OPTION),
 *         DRAW_ROWS(OPTION),
 *         {0}};
 */
#ifndef LK_COMMANDS_COMMON_ROWS_H
#define LK_COMMANDS_COMMON_ROWS_H

#include "base/option.h"
#include "facts/dtype.h"
#include "reports/gates.h"
#include "reports/page.h"
#include "sim/planning/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off */

/* Intervals of a forecast: double level; int64_t draws, seed. */
#define DRAW_ROWS(OPTION)                                                                          \
    OPTION("level", level, REAL, .min = 0.5, .max = 0.99, .fallback = "0.9",                       \
        .help = "share of outcomes that an interval should contain"),                              \
    OPTION("draws", draws, INT, .min = 20, .max = 100000, .fallback = "200",                       \
        .help = "Monte Carlo draws behind an interval"),                                           \
    OPTION("seed", seed, INT, .min = 0, .max = 1e15, .fallback = "1",                              \
        .help = "seed of the draws; the same seed gives the same output")
/* bool anyway */
#define ANYWAY_OPTION                                                                              \
    "anyway", anyway, FLAG,                                                                        \
        .help = "print the numbers of what is contradicted, too; the contradiction is said, and "  \
                "the exit code is 1"
/* int64_t global_batch */
#define GLOBAL_BATCH_OPTION                                                                        \
    "global-batch", global_batch, INT, .min = 1, .max = 1e12,                                      \
        .help = "strong scaling: samples of a step, the same on any number of GPUs"
/* const char *cluster; see job_and_cluster in inputs.h */
#define CLUSTER_OPTION                                                                             \
    "cluster", cluster, TEXT, .role = LK_ROLE_CLUSTER, .group = "model",                                                    \
        .help = "cluster file or name of a preset, in place of the operand"
/* Files that a forecast is written to: const char *out, *csv. */
#define FORECAST_ROWS(OPTION)                                                                      \
    OPTION("out", out, FILE, .role = LK_ROLE_OUTPUT, .group = "output",                            \
        .help = "write the forecast here (JSON)"),                                                 \
    OPTION("csv", csv, FILE, .role = LK_ROLE_OUTPUT, .help = "write its points here (CSV)")

/* How the page is printed: struct lk_page_options page; the frame reads it. */
#define PAGE_FORMAT_OPTION                                                                         \
    PAGE_NAME, page.format, CHOICE, .may_differ = true, .choices = lk_format_names, .fallback = "text",\
        .help = "format of what is printed on standard output"
#define PAGE_TABLE_OPTION                                                                          \
    "table", page.table, TEXT, .may_differ = true, .word = "NAME",                                 \
        .help = "print this table alone; csv without it: the first one"
#define PAGE_VERBOSE_OPTION                                                                        \
    "verbose", page.verbose, FLAG, .may_differ = true, .letter = 'v',                              \
        .help = "print every table, whole, with its notes"
#define PAGE_QUIET_OPTION                                                                          \
    "quiet", page.quiet, FLAG, .may_differ = true, .letter = 'q', .help = "print the answer alone"
#define PAGE_ROWS(OPTION)                                                                          \
    OPTION(PAGE_FORMAT_OPTION), OPTION(PAGE_TABLE_OPTION), OPTION(PAGE_VERBOSE_OPTION),            \
        OPTION(PAGE_QUIET_OPTION)
/* How plots are drawn: struct draw_settings draw (commands/draw.h). */
#define PLOT_ROWS(OPTION)                                                                          \
    OPTION("size", draw.size, TEXT, .word = "WxH", .group = "plots", .fallback = "1600x900",       \
        .help = "size of a plot in pixels; its type is in proportion, 20 pixels at 1600x900"),     \
    OPTION("theme", draw.theme, CHOICE, .choices = draw_themes, .fallback = "light",               \
        .help = "colours of the plots: for paper, or for a dark screen")
/* const char *secret_file; the text is for commands that launch their ranks */
#define NEEDLESS_SECRET                                                                            \
    "--secret-file: not needed; ranks that are started here get a secret of their own"
#define SECRET_FILE_OPTION                                                                         \
    "secret-file", secret_file, FILE, .role = LK_ROLE_INPUT, .may_differ = true,                   \
        .help = "a secret that all ranks of another launcher have, in a file that only you may "   \
                "read (docs/security.md)"
/* bool force, for claim_folder (commands/paths.h) */
#define FORCE_OPTION                                                                               \
    "force", force, FLAG, .may_differ = true,                                                      \
        .help = "take a folder that is not empty: what lockstep wrote there is removed"
/* Conditions under which the command fails after it has printed its page: struct lk_gate_options gate,
 * which the frame reads; `value` is the command's main_value, a literal. */
#define GATE_ROWS(OPTION, value)                                                                   \
    OPTION("fail-below", gate.fail_below, REAL, .min = 1e-9, .max = 1e9, .group = "gates",         \
        .help = "exit with 3 if " value " is below this anywhere"),                                \
    OPTION(GATE_NAME, gate.fail_if, TEXT, .word = "CONDITION,...",                                 \
        .help = "exit with 3 if a value fulfils one: '" value "<0.8' or 'step_s{gpus=64}>20ms'"),  \
    OPTION("junit", gate.junit, FILE, .role = LK_ROLE_OUTPUT, .help = "write the conditions' results here (JUnit XML)")
/* A row of every command: const char *log, the level of the log, which lk_command_start sets. */
#define LOG_OPTION                                                                                 \
    LOG_NAME, log, TEXT, .may_differ = true, .fallback = "warn",                                   \
        .help = "log level: info, or comm=debug,train=info, ..."

/* ---- Planning: struct plan_options plan ---- */

struct plan_options {
    struct lk_plan_request request; /* sim/planning/plan.h has units; 0: not given */
    bool memory;                    /* print the memory of a GPU part by part */
};

/* Return true if a planning option other than a factor with a default was given. */
static inline bool plan_asked(const struct plan_options *o)
{
    struct lk_plan_request r = o->request;

    r.cost_factor = 0;
    return o->memory || memcmp(&r, &(struct lk_plan_request){0}, sizeof r) != 0;
}

#define PLAN_REAL(OPTION, word, field, ...) /* a number above 0 */                                 \
    OPTION(word, plan.request.field, REAL, .min = 1e-12, .max = 1e18, __VA_ARGS__)
#define PLAN_ROWS(OPTION)                                                                          \
    PLAN_REAL(OPTION, "target-samples", target_samples, .group = "planning",                       \
              .help = "samples that reach the target if the batch is small; default: the job's"),  \
    PLAN_INPUT_ROWS(OPTION),                                                                       \
    OPTION("cost-factor", plan.request.cost_factor, REAL, .min = 1, .max = 1e6, .fallback = "1.5", \
        .help = "largest acceptable cost to the target, as a multiple of the lowest")
#define PLAN_INPUT_ROWS(OPTION) /* those that `plan` has, too */                                   \
    PLAN_REAL(OPTION, "target-batch", target_batch,                                                \
              .help = "global batch at which --target-samples reached the target"),                \
    PLAN_REAL(OPTION, "noise-scale", noise_scale,                                                  \
              .help = "gradient noise scale, samples; default: the job's"),                        \
    PLAN_REAL(OPTION, "price", price_per_hour,                                                     \
              .help = "price of a GPU per hour; default: the cluster's"),                          \
    OPTION("currency", plan.request.currency, TEXT,                                                \
           .help = "currency of the price, e.g. USD; default: the cluster's"),                     \
    PLAN_REAL(OPTION, "power", power_W, .help = "power of a GPU, W; default: the cluster's"),      \
    OPTION("device-memory", plan.request.device_bytes, SIZE, .min = 1, .max = 1e18,                \
        .help = "memory of a GPU; default: the cluster's"),                                        \
    OPTION("memory", plan.memory, FLAG,                                                            \
        .help = "print the memory of a GPU part by part, plain and sharded"),                      \
    OPTION("mtbf", plan.request.gpu_mtbf_s, TIME, .min = 1, .max = 1e18,                           \
        .help = "mean time between failures of one GPU that stop the job"),                        \
    OPTION("restart", plan.request.restart_s, TIME, .min = 1e-9, .max = 1e18,                      \
        .help = "time from a failure to the next step"),                                           \
    OPTION("checkpoint", plan.request.checkpoint_s, TIME, .min = 1e-9, .max = 1e18,                \
        .help = "time for which a checkpoint stops training"),                                     \
    OPTION("checkpoint-bandwidth", plan.request.checkpoint_Bps, RATE, .min = 1, .max = 1e18,       \
        .help = "rate at which the job's checkpoint is written")

/* ---- Tables of throughputs: struct throughput_options table ---- */

/* Texts are NULL where not given. */
struct throughput_options {
    /* The table's path (CSV), the job's count of parameters, e.g. "124M", and the path of the
     * job's list of tensors (CSV). */
    const char *file, *parameters, *gradients;
    const char *measured_on; /* a cluster, "here" or "elsewhere": where runs or rows were measured */
    int dtype;             /* enum lk_dtype of the gradients, if no input gives it */
    int64_t gpus_per_node; /* in the forecast; 0: found from the table or the cluster */
};
extern const char *const dtype_choices[]; /* NULL-ended */

/* The option says where the runs of a job, or the rows of a table, were measured. */
#define MEASURED_ON_OPTION                                                                         \
    "measured-on", table.measured_on, TEXT, .role = LK_ROLE_CLUSTER,                               \
        .help = "cluster on which the runs or the table's rows were measured, here or elsewhere; " \
                "default: what they say, else here, on the cluster that is asked for"
#define THROUGHPUT_ROWS(OPTION)                                                                    \
    OPTION("throughput", table.file, FILE, .role = LK_ROLE_INPUT, .group = "from throughputs",                            \
        .help = "forecast from this table (CSV: gpus, throughput; optional nodes, local_batch, "   \
                "accumulation, bucket_cap): alone, or with JOB and CLUSTER"),                      \
    OPTION("parameters", table.parameters, TEXT,                                                   \
        .help = "in place of JOB: its count of parameters, e.g. 124M"),                            \
    OPTION("gradients", table.gradients, FILE, .role = LK_ROLE_INPUT,                                                    \
        .help = "in place of JOB: its tensors (CSV: name, elements or shape; optional dtype, "     \
                "ready)"),                                                                         \
    OPTION("dtype", table.dtype, CHOICE, .choices = dtype_choices, .fallback = "float32",          \
        .help = "type of the gradients, if no input gives it")
/* One more, where GPUs a node are no axis. */
#define GPUS_PER_NODE_OPTION                                                                       \
    "gpus-per-node", table.gpus_per_node, INT, .min = 1, .max = 1 << 16,                    \
        .help = "GPUs of a node; default: the cluster's, or the most that a node has in the " \
                "table's rows of several nodes"
/* clang-format on */

#endif
