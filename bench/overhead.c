/*
 * Measure what recording adds to a training step: the same job with and without, interleaved.
 *
 *     build/bench/overhead [PAIRS [RANKS [LOCKSTEP]]] [--device cuda] [--with spans,records,...]
 *                          [--job "OPTIONS OF RUN"] [--steps N] [--time-limit 60s]
 *                          [--json FILE]
 *
 * Every round runs the job once without anything and once with each of what is asked for, each
 * round beginning with another of them, so that drift of the machine cancels. A run counts with the
 * 10 % quantile of its steps after the warm-up: recording does the same work in every step, and a
 * slower step was disturbed by something else. Prints the mean ratio to the run without of the same
 * round, with Student's 95 % interval over the rounds (of logarithms, since ratios multiply).
 *
 * A run that records launches a step op by op, so the one without does, too: what a CUDA graph
 * gains is not the cost of recording, and is measured by --with graph.
 *
 * With a time limit as many rounds are run as fit, by the longest so far, at most PAIRS of them. An
 * interval takes 2.
 */
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/option.h"
#include "base/stats.h"
#include "base/units.h"
#include "commands/run_grid.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 1000, ROUNDS_MIN = 2, WARMUP = 20 };
enum { DEVICE_CPU, DEVICE_CUDA };
static const char *const devices[] = {[DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda", NULL};

/* Kinds of recording. The others are compared with the first. */
static const struct arm {
    const char *name;
    bool trace, records, state, nvtx, graph;
    const char *help;
} arms[] = {
    {"nothing", false, false, false, false, false, ""},
    {"spans", true, false, false, false, false, "spans, on a GPU by its events"},
    {"records", true, true, false, false, false, "and CUPTI's records"},
    {"state", true, false, true, false, false, "and NVML's samples"},
    {"nvtx", true, false, false, true, false, "and ranges, for a tool that drops them"},
    {"all", true, true, true, false, false, "spans, records, samples: as it is on GPUs"},
    {"graph", false, false, false, false, true, "nothing, as a CUDA graph"},
};
enum { ARMS = sizeof arms / sizeof *arms };

/* Jobs by device, whose step is neither a few launches nor so long that nothing shows. */
static const struct {
    const char *job, *with;
    int64_t steps;
} usual[] = {
    [DEVICE_CPU] = {"--model=gpt-nano --local-batch=8", "spans", 200},
    [DEVICE_CUDA] = {"--model=gpt2-124m --dtype=bfloat16 --local-batch=8", "spans,all", 60},
};

struct options {
    int device;
    const char *with, *job, *json, *tool;
    int64_t steps;
    double time_limit_s;
};

static const struct lk_option rows[] = {
    {.name = "device",
     .type = LK_OPT_CHOICE,
     .offset = offsetof(struct options, device),
     .choices = devices,
     .fallback = "cpu",
     .help = "what computes"},
    {.name = "with",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, with),
     .help = "spans, records, state, nvtx, all, graph: a list (cpu: spans; cuda: spans,all)"},
    {.name = "job",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, job),
     .help = "options of lockstep run: model and batch (GPT of a size that suits the device)"},
    {.name = "steps",
     .type = LK_OPT_INT,
     .offset = offsetof(struct options, steps),
     .min = 2,
     .max = 1e6,
     .help = "of a run, after 20 of warm-up (cpu: 200; cuda: 60)"},
    {.name = "time-limit",
     .type = LK_OPT_TIME,
     .offset = offsetof(struct options, time_limit_s),
     .min = 1,
     .max = 1e6,
     .fallback = "1000000s",
     .help = "run as many rounds as fit"},
    {.name = "json",
     .type = LK_OPT_FILE,
     .offset = offsetof(struct options, json),
     .help = "write the figures here, too"},
    {.name = "nvtx-tool",
     .type = LK_OPT_FILE,
     .offset = offsetof(struct options, tool),
     .fallback = "build/nvtx_injection.so",
     .help = "the tool of nvtx"},
    {0}};

struct bench {
    struct options opt;
    const char *program, *dir;
    int64_t pairs, ranks;
    bool on[ARMS];
    double *step_s[ARMS]; /* by round */
    size_t n;             /* rounds */
    int runs;             /* so far: each has its own directory */
};

struct figure {
    double step_s, value, lo, hi; /* value: ratio less 1 */
};

/* ---- One run ---- */

static enum lk_status find_result(const char *dir, char **out)
{
    enum lk_status st = LK_OK;
    char *pattern = NULL;
    glob_t g = {0};

    LK_TRY(lk_asprintf(&pattern, "%s/*/result.json", dir));
    if (glob(pattern, 0, NULL, &g) || g.gl_pathc != 1) {
        st = lk_fail(LK_EIO, "%s: %zu files, not one", pattern, g.gl_pathc);
        goto out;
    }
    LK_TRY(lk_strdup(out, g.gl_pathv[0]));
out:
    globfree(&g);
    free(pattern);
    return st;
}

static enum lk_status quiet_step(const char *dir, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_train_result r = {0};
    char *path = NULL;

    LK_TRY(find_result(dir, &path));
    LK_TRY(run_result_read(path, &r));
    if (r.n <= WARMUP) {
        st = lk_fail(LK_EEVIDENCE, "%s: no step after the warm-up", path);
        goto out;
    }
    *out = lk_stats_quantile(r.step_s + WARMUP, (size_t)(r.n - WARMUP), 0.1);
out:
    lk_train_result_fini(&r);
    free(path);
    return st;
}

/* The last line that it wrote, for the message. */
static void last_words(const char *log, char *out, size_t size)
{
    char *text = NULL, *end;
    size_t n;

    out[0] = '\0';
    if (lk_file_read(log, &text, &n) != LK_OK)
        return;
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    end = strrchr(text, '\n');
    (void)snprintf(out, size, "%s", end ? end + 1 : text);
    free(text);
}

static const char *yes(bool wanted)
{
    return wanted ? "yes" : "no";
}

/* A tool that runs this program is not to run the runs, too. */
static enum lk_status command_of(const struct bench *b, const struct arm *arm, const char *dir,
                                 const char *log, char **out)
{
    return lk_asprintf(
        out,
        "env -u NVTX_INJECTION64_PATH %s%s%s '%s' run -n %lld --device=%s %s --steps=%lld "
        "--warmup=%d --%strace --gpu-records=%s --gpu-record-steps=0 --gpu-state=%s --nvtx=%s "
        "--out '%s' --graph=%s > '%s' 2>&1",
        arm->nvtx ? "NVTX_INJECTION64_PATH='" : "", arm->nvtx ? b->opt.tool : "",
        arm->nvtx ? "'" : "", b->program, (long long)b->ranks, devices[b->opt.device], b->opt.job,
        (long long)b->opt.steps, WARMUP, arm->trace ? "" : "no-", yes(arm->records),
        yes(arm->state), yes(arm->nvtx), dir, arm->graph ? "yes" : "no", log);
}

static enum lk_status measure(struct bench *b, const struct arm *arm, double *out)
{
    enum lk_status st = LK_OK;
    char *command = NULL, *dir = NULL, *log = NULL;
    char why[256];

    LK_TRY(lk_asprintf(&dir, "%s/%d", b->dir, b->runs++));
    LK_TRY(lk_asprintf(&log, "%s.log", dir));
    LK_TRY(command_of(b, arm, dir, log, &command));
    if (system(command)) {
        last_words(log, why, sizeof why);
        st = lk_fail(LK_EIO, "failed: %s: %s", command, why);
        goto out;
    }
    LK_TRY(quiet_step(dir, out));
out:
    free(command);
    free(log);
    free(dir);
    return st;
}

/* ---- Rounds ---- */

static enum lk_status run_round(struct bench *b)
{
    size_t on[ARMS], n = 0;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < ARMS; i++)
        if (b->on[i])
            on[n++] = i;
    for (size_t k = 0; k < n; k++) {
        size_t i = on[(k + b->n) % n];

        LK_TRY(measure(b, &arms[i], &b->step_s[i][b->n]));
    }
    b->n++;
out:
    return st;
}

static enum lk_status compare(const struct bench *b, size_t arm, struct figure *out)
{
    enum lk_status st = LK_OK;
    struct lk_summary s;
    double *logs = NULL;
    double half;

    LK_TRY(lk_alloc(&logs, b->n, sizeof *logs));
    for (size_t i = 0; i < b->n; i++)
        logs[i] = log(b->step_s[arm][i] / b->step_s[0][i]);
    LK_TRY(lk_stats_summary(logs, b->n, &s));
    half = lk_stats_student_t(0.95, b->n - 1) * s.sd / sqrt((double)b->n);
    *out = (struct figure){.step_s = lk_stats_mean(b->step_s[arm], b->n),
                           .value = expm1(s.mean),
                           .lo = expm1(s.mean - half),
                           .hi = expm1(s.mean + half)};
out:
    free(logs);
    return st;
}

/* ---- Output ---- */

struct report {
    const struct bench *b;
    struct figure figures[ARMS];
};

static void write_report(struct lk_json_out *o, const void *ctx)
{
    const struct report *r = ctx;
    const struct bench *b = r->b;

    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", "lockstep-overhead");
    lk_json_out_int(o, "version", 1);
    lk_json_out_text(o, "device", devices[b->opt.device]);
    lk_json_out_text(o, "job", b->opt.job);
    lk_json_out_int(o, "steps", b->opt.steps);
    lk_json_out_int(o, "ranks", b->ranks);
    lk_json_out_uint(o, "rounds", b->n);
    lk_json_out_number(o, "step_s", r->figures[0].step_s);
    lk_json_out_array(o, "overhead");
    for (size_t i = 1; i < ARMS; i++) {
        if (!b->on[i])
            continue;
        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_text(o, "with", arms[i].name);
        lk_json_out_number(o, "step_s", r->figures[i].step_s);
        lk_json_out_number(o, "value", r->figures[i].value);
        lk_json_out_number(o, "lo", r->figures[i].lo);
        lk_json_out_number(o, "hi", r->figures[i].hi);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_close(o);
}

static enum lk_status report_of(const struct bench *b, struct report *out)
{
    *out = (struct report){.b = b};
    for (size_t i = 0; i < ARMS; i++)
        if (b->on[i])
            LK_PASS(compare(b, i, &out->figures[i]));
    return LK_OK;
}

static void print(const struct report *r)
{
    const struct bench *b = r->b;

    printf("# %zu rounds of runs of %lld steps on %lld rank(s), device %s: %s\n"
           "without        %9.4f ms a step (mean of 10 %% quantiles)\n",
           b->n, (long long)b->opt.steps, (long long)b->ranks, devices[b->opt.device], b->opt.job,
           1e3 * r->figures[0].step_s);
    for (size_t i = 1; i < ARMS; i++)
        if (b->on[i])
            printf("%-14s %9.4f ms  overhead %+8.3f %%   95 %% interval %+.3f to %+.3f %%   %s\n",
                   arms[i].name, 1e3 * r->figures[i].step_s, 100 * r->figures[i].value,
                   100 * r->figures[i].lo, 100 * r->figures[i].hi, arms[i].help);
}

/* ---- The whole ---- */

static enum lk_status run_rounds(struct bench *b)
{
    struct lk_deadline end = lk_deadline_in(lk_ns_from_s(b->opt.time_limit_s));
    uint64_t longest_ns = 0;
    struct report r;
    enum lk_status st = LK_OK;

    while ((int64_t)b->n < b->pairs && lk_deadline_left_ns(end) > longest_ns) {
        uint64_t began_ns = lk_monotonic_ns(), took_ns;

        LK_TRY(run_round(b));
        took_ns = lk_monotonic_ns() - began_ns;
        if (took_ns > longest_ns)
            longest_ns = took_ns;
        if (b->n < ROUNDS_MIN)
            continue;
        LK_TRY(report_of(b, &r));
        if (b->opt.json) /* after every round: a kill leaves what was measured */
            LK_TRY(lk_json_write(b->opt.json, write_report, &r));
    }
    if (b->n < ROUNDS_MIN)
        st = lk_fail(LK_EEVIDENCE,
                     "%zu round(s) of %.1f s in the time limit of %.0f s: an "
                     "interval takes %d",
                     b->n, lk_s_from_ns(longest_ns), b->opt.time_limit_s, ROUNDS_MIN);
    else
        print(&r);
out:
    return st;
}

/* ---- Usage ---- */

static enum lk_status choose_arms(struct bench *b)
{
    const char *at = b->opt.with;

    b->on[0] = true;
    while (*at) {
        size_t n = strcspn(at, ","), i = 1;

        while (i < ARMS && (strlen(arms[i].name) != n || strncmp(arms[i].name, at, n) != 0))
            i++;
        if (i == ARMS)
            return lk_fail(LK_EUSAGE,
                           "--with: '%.*s' is none of spans, records, state, nvtx, all, graph",
                           (int)n, at);
        if ((arms[i].records || arms[i].state || arms[i].graph) && b->opt.device != DEVICE_CUDA)
            return lk_fail(LK_EUSAGE, "--with %s needs --device cuda", arms[i].name);
        if (arms[i].nvtx && access(b->opt.tool, R_OK))
            return lk_fail(LK_EUSAGE, "--with nvtx: no tool %s (make test-bin; --nvtx-tool)",
                           b->opt.tool);
        b->on[i] = true;
        at += n + (at[n] == ',');
    }
    return LK_OK;
}

static enum lk_status parse(struct bench *b, int argc, char **argv)
{
    const char *operands[3] = {"20", "1", "build/lockstep"};
    const char *given[3];
    enum lk_status st = LK_OK;
    int n;

    LK_TRY(lk_option_parse(rows, &b->opt, argc - 1, argv + 1, given, 3, &n));
    memcpy(operands, given, (size_t)n * sizeof *given);
    LK_TRY(
        lk_fail_context(lk_parse_int64(operands[0], ROUNDS_MIN, ROUNDS_MAX, &b->pairs), "PAIRS"));
    LK_TRY(lk_fail_context(lk_parse_int64(operands[1], 1, 64, &b->ranks), "RANKS"));
    b->program = operands[2];
    if (!b->opt.with)
        b->opt.with = usual[b->opt.device].with;
    if (!b->opt.job)
        b->opt.job = usual[b->opt.device].job;
    if (!b->opt.steps)
        b->opt.steps = usual[b->opt.device].steps;
    LK_TRY(choose_arms(b));
    for (size_t i = 0; i < ARMS; i++)
        LK_TRY(lk_alloc(&b->step_s[i], (size_t)b->pairs, sizeof(double)));
out:
    return st;
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/lockstep-overhead-XXXXXX";
    struct bench b = {.dir = NULL};
    char *command = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(parse(&b, argc, argv));
    b.dir = mkdtemp(dir);
    if (!b.dir) {
        st = lk_fail(LK_EIO, "cannot make a directory in /tmp");
        goto out;
    }
    LK_TRY(run_rounds(&b));
out:
    if (st != LK_OK)
        fprintf(stderr, "bench/overhead: %s\n", lk_error_text());
    if (b.dir && lk_asprintf(&command, "rm -rf '%s'", dir) == LK_OK && system(command))
        fprintf(stderr, "bench/overhead: %s stays behind\n", dir);
    free(command);
    for (size_t i = 0; i < ARMS; i++)
        free(b.step_s[i]);
    return lk_status_exit_code(st);
}
