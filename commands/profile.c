/*
 * lockstep profile: runs a job that nobody changes, and makes a run directory of what its ranks
 * did. Divisions: options, the ways that are on, the job, the import, the report.
 */
#include "base/array.h"
#include "base/file.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/import_impl.h"
#include "commands/paths.h"
#include "commands/profile_job.h"
#include "commands/profile_ops.h"
#include "commands/profile_snippet.h"
#include "commands/watch.h"
#include "facts/bounds.h"
#include "profiler/analysis/run_live.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACES "traces" /* folder in the run directory */

/* ---- Options ---- */

struct profile_options {
    const char *out, *with, *step_range, *log;
    int64_t steps, after;
    int local_batch, nodes;
    double delay_s, length_s;
    bool force, keep_traces, snippet, watch;
    double interval_s;
};

#define OPTION(...) ROW(struct profile_options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("steps", steps, INT, .min = 1, .max = 1e6, .fallback = "20", .group = "what to record",
           .help = "iterations to record: optimizer steps"),
    OPTION("after", after, INT, .min = 0, .max = 1e9, .fallback = "50",
           .help = "iterations before the first recorded one; let them take a second or more"),
    OPTION("for", length_s, TIME, .min = 0.01, .max = 3600,
           .help = "record for this long instead of --steps: for jobs without an optimizer of torch.optim; kernels by preload (default: 5 s)"),
    OPTION("delay", delay_s, TIME, .min = 0.001, .max = 1e6,
           .help = "from when a process imports torch until it may record; with --for it begins 8 s later. Kernels by preload: from its first collective (default: 10 s)"),
    OPTION("with", with, TEXT, .word = "WAY,...",
           .help = "ways to record: daemon, preload (default: all that can work); preload alone records kernels, too"),
    OPTION("local-batch", local_batch, INT, .min = 1, .max = 1e6, .group = "what to make of it",
           .help = "samples of a micro-batch on one rank; without it a micro-batch counts as one"),
    OPTION("nodes", nodes, INT, .min = 1, .max = LK_RANKS_MAX,
           .help = "machines of the whole job (default 1)"),
    OPTION("step-range", step_range, TEXT,
           .help = "ranges of the host (NVTX) whose names start so are steps, too"),
    OPTION("out", out, FILE, .role = LK_ROLE_FOLDER, .fallback = "profile",
           .help = "run directory, new or empty"),
    OPTION(FORCE_OPTION),
    OPTION("keep-traces", keep_traces, FLAG,
           .help = "keep the traces as they were recorded, in the run directory's folder " TRACES),
    OPTION("watch", watch, FLAG,
           .help = "say on standard error, while the job runs, how it does: by the preload library's records"),
    OPTION("interval", interval_s, TIME, .min = 0.1, .max = 86400, .fallback = "5s",
           .help = "between two lines of --watch; more if a look takes long"),
    OPTION("snippet", snippet, FLAG,
           .help = "run nothing; print the lines of Python that record a job where it has to be changed"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* ---- The ways that are on ---- */

/* The first that recorded something counts: it knows more than those behind it. */
static const struct profile_ops *const ways[] = {&profile_daemon, &profile_preload};
enum { N_WAYS = sizeof ways / sizeof *ways };

struct profile {
    const struct profile_options *options;
    char *traces;      /* absolute path of the folder for what is recorded */
    bool is_new;       /* the run directory was not there */
    bool on[N_WAYS];   /* what --with says */
    void *way[N_WAYS]; /* NULL: off */
    const char **environment;
    size_t n_environment, environment_capacity;
    struct profile_watch watches[N_WAYS];
    size_t n_watches;
    struct profile_found found;
    const struct profile_ops *recorded_by;
    struct watch watch;
};

/* Read --with: names of ways, apart by commas; NULL: all. */
static enum lk_status choose_ways(const char *with, bool *on)
{
    for (size_t i = 0; i < N_WAYS; i++)
        on[i] = !with;
    while (with && *with) {
        size_t n = strcspn(with, ","), i = 0;

        while (i < N_WAYS && (strlen(ways[i]->name) != n || memcmp(ways[i]->name, with, n) != 0))
            i++;
        if (i == N_WAYS)
            return lk_fail(LK_EUSAGE, "--with: no way to record is called '%.*s'", (int)n, with);
        on[i] = true;
        with += n + (with[n] == ',');
    }
    return LK_OK;
}

static size_t count_ways(const bool *on)
{
    size_t n = 0;

    for (size_t i = 0; i < N_WAYS; i++)
        n += on[i];
    return n;
}

static enum lk_status open_way(struct profile *p, size_t i, const struct profile_request *r)
{
    const char *const *more;
    size_t n;

    LK_PASS(ways[i]->open(r, &p->way[i]));
    more = ways[i]->environment(p->way[i], &n);
    LK_PASS(lk_array_grow(&p->environment, &p->environment_capacity, p->n_environment + n,
                          sizeof *p->environment));
    for (size_t k = 0; k < n; k++)
        p->environment[p->n_environment++] = more[k];
    if (ways[i]->descriptor(p->way[i]) >= 0)
        p->watches[p->n_watches++] =
            (struct profile_watch){ways[i]->descriptor(p->way[i]), ways[i]->serve, p->way[i]};
    return LK_OK;
}

static enum lk_status open_ways(struct profile *p)
{
    const struct profile_options *o = p->options;
    const size_t n_on = count_ways(p->on);
    const struct profile_request request = {.traces = p->traces,
                                            .steps = o->length_s > 0 ? 0 : o->steps,
                                            .after = o->after,
                                            .delay_s = o->delay_s,
                                            .length_s = o->length_s,
                                            .step_range = o->step_range,
                                            .asked = o->with != NULL,
                                            .alone = n_on == 1};

    for (size_t i = 0; i < N_WAYS; i++)
        if (p->on[i])
            LK_PASS(open_way(p, i, &request));
    return LK_OK;
}

/* ---- The run directory ---- */

static enum lk_status make_folder(struct profile *p)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(claim_folder(p->options->out, p->options->force));
    p->is_new = !lk_file_exists(p->options->out);
    LK_TRY(lk_path_join(&path, p->options->out, TRACES));
    LK_TRY(lk_mkdirs(path));
    p->traces = realpath(path, NULL);
    if (!p->traces)
        st = lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
out:
    free(path);
    return st;
}

/* Remove what was recorded, and a run directory that stayed empty. */
static void remove_traces(const struct profile *p)
{
    char **names = NULL, *path = NULL;
    size_t n = 0;

    if (lk_dir_list(p->traces, "", &names, &n) != LK_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        if (lk_path_join(&path, p->traces, names[i]) == LK_OK)
            (void)unlink(path);
        free(path);
        path = NULL;
    }
    lk_names_free(names, n);
    (void)rmdir(p->traces);
    if (p->is_new)
        (void)rmdir(p->options->out);
}

/* ---- After the job ---- */

void profile_say(const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    if (lk_vasprintf(&text, format, ap) == LK_OK)
        fprintf(stderr, "lockstep profile: %s\n", text);
    va_end(ap);
    free(text);
}

/* Leave out traces that nothing can be read of: a process was killed as it began to write. */
static void drop_unreadable(struct profile_found *f)
{
    size_t kept = 0;

    for (size_t i = 0; i < f->n; i++) {
        if (lk_import_is(f->files[i])) {
            f->files[kept++] = f->files[i];
            continue;
        }
        profile_say("%s: nothing can be read of it: its process ended as it wrote", f->files[i]);
        free(f->files[i]);
    }
    f->n = kept;
}

/* List what the ways recorded: the first that has traces counts. */
static enum lk_status collect(struct profile *p)
{
    for (size_t i = 0; i < N_WAYS && !p->recorded_by; i++) {
        if (!p->way[i])
            continue;
        LK_PASS(ways[i]->collect(p->way[i], &p->found));
        drop_unreadable(&p->found);
        if (p->found.n)
            p->recorded_by = ways[i];
    }
    for (size_t i = 0; i < N_WAYS; i++)
        if (p->way[i])
            ways[i]->explain(p->way[i], p->found.n);
    return LK_OK;
}

static void report(const struct profile *p, const struct import_made *m)
{
    const char *dir = p->options->out;

    profile_say("recorded %zu of %d ranks by %s: %zu steps, their median %.4g ms", m->n_ranks,
                m->world_size, p->recorded_by->text, m->n_steps, 1e3 * m->step_s);
    profile_say("overhead: %s", *m->cost ? m->cost : p->recorded_by->overhead);
    if (m->is_apart)
        profile_say("the ranks recorded different iterations, so what they waited for each other "
                    "is wrong%s%s",
                    p->recorded_by->apart ? ": " : "",
                    p->recorded_by->apart ? p->recorded_by->apart : "");
    if (m->no_job)
        profile_say("no job.json: %s", m->no_job);
    profile_say("run directory: %s; next: lockstep analyze %s", dir, dir);
}

/* Make the run directory of what was found, and say what it has. */
static enum lk_status make_run(struct profile *p)
{
    const struct lk_import_options options = {.local_batch = p->options->local_batch,
                                              .nodes = p->options->nodes,
                                              .step_range = p->options->step_range,
                                              .world_size = p->found.world_size};
    struct import_made made = {0};
    enum lk_status st = LK_OK;

    LK_TRY(import_run(&options, p->options->out, (const char *const *)p->found.files, p->found.n,
                      &made));
    report(p, &made);
out:
    import_made_fini(&made);
    return st;
}

/* Import what was recorded, and say what came of it. The job has ended: its exit status counts. */
static void finish(struct profile *p)
{
    enum lk_status st = collect(p);

    if (st == LK_OK && !p->found.n)
        profile_say("nothing was recorded; lockstep profile --snippet prints the lines that record "
                    "a job that may be changed");
    if (st == LK_OK && p->found.n)
        st = make_run(p);
    if (st != LK_OK) {
        profile_say("%s", lk_error_text());
        profile_say("no run directory was made; what was recorded is in %s", p->traces);
    } else if (!p->options->keep_traces || !p->found.n) {
        remove_traces(p);
    }
}

/* ---- While the job runs ---- */

/* Read what the ranks have recorded so far as a run of their last steps. LK_EEVIDENCE, LK_EPARSE,
 * LK_EIO: there is none yet. */
static enum lk_status read_so_far(const struct profile *p, struct lk_run *out)
{
    const struct lk_import_options options = {.local_batch = p->options->local_batch,
                                              .nodes = p->options->nodes,
                                              .step_range = p->options->step_range};
    enum lk_status st = LK_OK;
    struct lk_import import = {0};
    char **files = NULL;
    size_t n = 0;

    LK_TRY(lk_import_files((const char *const *)&p->traces, 1, &files, &n));
    LK_TRY(lk_import_run(files, n, &options, &import));
    if (import.traces)
        lk_traces_keep_last(import.traces, import.n, WATCH_STEPS);
    LK_TRY(lk_import_take(&import, p->options->out, out));
out:
    lk_import_fini(&import);
    lk_names_free(files, n);
    return st;
}

static double look_left_s(void *ctx)
{
    return watch_left_s(&((struct profile *)ctx)->watch);
}

/* Watching must not end the job: a failure is a line. */
static void look(void *ctx)
{
    struct profile *p = ctx;
    struct lk_run run = {0};
    enum lk_status st;

    (void)watch_due(&p->watch);
    st = read_so_far(p, &run);
    if (watch_show(&p->watch, st == LK_OK ? &run : NULL,
                   "nothing was recorded yet of a step of all ranks") != LK_OK)
        profile_say("%s", lk_error_text());
    lk_run_fini(&run);
}

/* ---- The command ---- */

static void profile_fini(struct profile *p)
{
    for (size_t i = 0; i < N_WAYS; i++)
        ways[i]->close(p->way[i]);
    lk_names_free(p->found.files, p->found.n);
    free(p->environment);
    free(p->traces);
}

static enum lk_status profile(const struct profile_options *o, const char *const *command)
{
    struct profile p = {.options = o};
    const struct profile_tick tick = {look_left_s, look, &p};
    enum lk_status st = LK_OK;
    int exit_status = 0;
    bool has_run = false;

    LK_TRY(choose_ways(o->with, p.on));
    LK_TRY(make_folder(&p));
    LK_TRY(open_ways(&p));
    watch_begin(&p.watch, o->interval_s);
    p.watch.next_ns += (uint64_t)(o->interval_s * (double)LK_NS_PER_S);
    st = profile_job_run(command, p.environment, p.n_environment, p.watches, p.n_watches,
                         o->watch ? &tick : NULL, &exit_status);
    watch_end(&p.watch);
    if (st != LK_OK && exit_status) { /* the command is not there, as a shell says it */
        profile_say("%s", lk_error_text());
        st = lk_fail_exit(exit_status);
        goto out;
    }
    LK_TRY(st);
    has_run = true;
    finish(&p);
    st = lk_fail_exit(exit_status);
out:
    if (!has_run && p.traces)
        remove_traces(&p);
    profile_fini(&p);
    return st;
}

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct profile_options *o = options;
    const char **command = NULL;
    enum lk_status st = LK_OK;

    (void)page; /* standard output is the job's */
    if (o->snippet) {
        if (n)
            return lk_fail(LK_EUSAGE, "--snippet runs no command");
        profile_snippet_print(o->steps, o->after, TRACES, stdout);
        return LK_OK;
    }
    if (!n)
        return lk_fail(LK_EUSAGE, "needs a command: lockstep profile -- torchrun ... train.py");
    LK_TRY(lk_alloc(&command, (size_t)n + 1, sizeof *command));
    memcpy(command, operands, (size_t)n * sizeof *command);
    LK_TRY(profile(o, command));
out:
    free(command);
    return st;
}

const struct lk_command lk_command_profile = {
    .name = "profile",
    .usage = "-- COMMAND [ARGUMENT...]",
    .help = "run a PyTorch or MPI job as it is, record some of its steps, and make a run "
            "directory of them",
    .options = rows,
    .size = sizeof(struct profile_options),
    .operands_max = 1 << 16,
    .operand = LK_OPERAND_COMMAND,
    .run = run,
};
