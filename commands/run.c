/*
 * lockstep run: real DDP training, instrumented; and lockstep replay, which runs a job's real
 * communication and waits for as long as its compute takes. Started by hand it launches the ranks,
 * one run after the other, and sums up; started as a rank (by itself, torchrun, mpirun or srun) it
 * is one.
 *
 * The run directory:
 *     run.json                             index: the runs below, their ranks and batches
 *     job.json                             one step on one GPU, built from all of them
 *     k2-b8-a1-r0/rank0.trace.json.gz ...  2 ranks, local batch 8, accumulation 1, repetition 0
 *     k2-b8-a1-r0/merged.trace.json.gz     all ranks on one clock (--merged-trace)
 *     k2-b8-a1-r0/result.json              losses and step times
 *     k2-b8-a1-r0-start1/...               the same after ranks failed (--restart)
 *     checkpoints/step-000000040.safetensors ...  (--checkpoint-every)
 */
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/units.h"
#include "commands/agree.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/output.h"
#include "commands/paths.h"
#include "commands/run_checkpoint.h"
#include "commands/run_grid.h"
#include "commands/run_kinds.h"
#include "commands/run_options.h"
#include "commands/run_rank.h"
#include "commands/run_sharding.h"
#include "commands/share_gpu.h"
#include "profiler/analysis/run_set.h"
#include "runtime/rendezvous/launch.h"
#include "runtime/rendezvous/rank_env.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Time from a rank's failure to SIGTERM for the others, which the verdict should have stopped. */
#define GRACE_NS (2 * LK_NS_PER_S)

struct launcher {
    const struct run_options *options;
    struct lk_hosts hosts; /* empty: this one */
    char *out;             /* run directory */
    char *checkpoints;     /* their folder; NULL: none are written */
    char *resume;          /* the one to go on from, found here; NULL: none, or as given */
    uint64_t began_ns;     /* of the start, or the failure before it */
    bool stopped;          /* a signal ended the run */
    struct run_starts starts;
    struct lk_run_set runs; /* of the parts that are done, with their traces */
};

/* ---- The run directory ---- */

static enum lk_status default_directory(const char *model, char **out)
{
    time_t now = time(NULL);
    struct tm tm;
    char stamp[32];

    if (!localtime_r(&now, &tm) || !strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm))
        return lk_fail(LK_EINTERNAL, "the date cannot be written");
    return lk_asprintf(out, "runs/%s-%s", model, stamp);
}

/* Make the run directory, then check the export, which may go there. */
static enum lk_status make_outputs(const struct run_options *o, const char *out)
{
    bool there = lk_file_exists(out);
    enum lk_status st;

    LK_TRY(claim_folder(out, o->force));
    LK_TRY(lk_mkdirs(out));
    if (o->train.export_path)
        st = lk_fail_context(check_writable(o->train.export_path), "--export");
    if (st != LK_OK && !there && rmdir(out))
        lk_log(LK_LOG_MAIN, LK_WARN, "%s: cannot be removed: %s", out, strerror(errno));
out:
    return st;
}

/* ---- One run of the grid ---- */

/* Make the options of a point's ranks, which start none themselves. */
static struct run_options rank_options(const struct run_options *given, const struct run_point *p)
{
    struct run_options o = *given;

    o.ranks = p->config.world_size;
    if (!*p->config.batches)
        o.local_batch = (struct lk_ints){.n = 1, .v = {p->config.local_batch}};
    o.train.reducer.accumulation = p->config.accumulation;
    o.train.reducer.cap_bytes = p->config.cap_bytes;
    o.scaling.n = 0;
    o.local_batches.n = 0;
    o.accumulations.n = 0;
    o.bucket_caps.n = 0;
    o.strong = false;
    o.repetitions = 0;
    o.hosts = NULL;
    o.ssh = NULL;
    o.out = NULL;
    o.force = false;
    o.restart = 0;
    return o;
}

/* progress: what the run's ranks show of it, for their environment. */
static enum lk_status launch(struct launcher *l, const struct run_point *p, const char *dir,
                             const char *progress)
{
    struct run_options o = rank_options(l->options, p);
    char mark[FOLDER_MARK_BYTES];
    bool apart = l->hosts.n > 0, marked = false;
    char *env[] = {NULL, NULL, NULL, NULL, NULL};
    char **argv = NULL;
    enum lk_status st = LK_OK;

    o.train.checkpoint.dir = l->checkpoints;
    if (l->resume)
        o.train.checkpoint.resume = l->resume;
    LK_TRY(lk_command_argv(o.command, &o,
                           o.command == &lk_command_replay ? o.train.model.job : NULL, &argv));
    LK_TRY(lk_asprintf(&env[0], "%s=%s", RUN_DIR_ENV, dir));
    LK_TRY(lk_strdup(&env[1], progress));
    LK_TRY(lk_asprintf(&env[2], RUN_BEGAN_ENV "=%" PRIu64, l->began_ns));
    if (apart) {
        LK_TRY(folder_mark(dir, mark));
        marked = true;
        LK_TRY(lk_asprintf(&env[3], "%s=%s", RUN_MARK_ENV, mark));
    }
    LK_TRY(lk_launch(&(struct lk_launch_config){
        .ranks = p->config.world_size,
        .argv = argv,
        .env = (const char *const *)env,
        .grace_ns = GRACE_NS,
        .stopped = &l->stopped,
        .timeout_ns = UINT64_MAX,
        .pin = o.pin && o.device != RUN_DEVICE_CUDA && !o.train.model.replicas,
        .hosts = apart ? &l->hosts : NULL,
        .ssh = l->options->ssh ? l->options->ssh : RUN_SSH}));
out:
    if (marked)
        LK_KEEP(folder_unmark(dir));
    for (size_t i = 0; i < LK_COUNT(env); i++)
        free(env[i]);
    lk_argv_free(argv);
    return st;
}

/*
 * Make the traces from whatever was recorded, also after a failure of the ranks. A run that is done
 * is kept for the job.
 */
static enum lk_status convert(struct launcher *l, bool done, const char *dir)
{
    struct lk_convert_summary sum = {0};
    enum lk_status st;

    if (!l->options->trace)
        return LK_OK;
    st = done ? lk_run_set_convert(&l->runs, dir, l->options->merged_trace, &sum)
              : lk_convert_run(dir, l->options->merged_trace, &sum);
    lk_log(LK_LOG_MAIN, LK_INFO, "%s: %llu spans of %zu ranks, %zu truncated, %llu dropped", dir,
           (unsigned long long)sum.n_spans, sum.n_ranks, sum.n_truncated,
           (unsigned long long)sum.dropped);
    if (st == LK_OK && sum.dropped)
        lk_log(LK_LOG_MAIN, LK_WARN,
               "%s: the oldest %llu spans were overwritten: too many steps "
               "for one trace",
               dir, (unsigned long long)sum.dropped);
    return st;
}

/* Write which run of the grid a part is. */
static const char *progress_of(const struct run_grid *s, const struct run_part *part, char *buf)
{
    const struct run_point *p = &s->points[part->point];
    size_t i = (size_t)(part - s->parts);

    return lk_progress_child(i, s->n_parts, buf, "run %zu of %zu, %d rank%s, local batch %d", i + 1,
                             s->n_parts, p->config.world_size, p->config.world_size == 1 ? "" : "s",
                             p->config.local_batch);
}

static enum lk_status run_start(struct launcher *l, const struct run_grid *s, struct run_part *part)
{
    char progress[LK_PROGRESS_TEXT];
    enum lk_status st = LK_OK;
    char *dir = NULL;
    char *path = NULL;

    LK_TRY(lk_path_join(&dir, l->out, part->dir));
    LK_TRY(lk_mkdirs(dir));
    st = launch(l, &s->points[part->point], dir, progress_of(s, part, progress));
    LK_KEEP(convert(l, st == LK_OK, dir));
    if (st != LK_OK)
        goto out;
    LK_TRY(lk_path_join(&path, dir, "result.json"));
    LK_TRY(run_result_read(path, &part->result));
    part->done = true;
out:
    free(path);
    free(dir);
    return st;
}

/* Prepare start number n of a run whose ranks failed: it has a folder of its own, and goes on from
 * the last whole checkpoint, or as the first start did. */
static enum lk_status start_again(struct launcher *l, struct run_part *part, const char *name,
                                  int n)
{
    char text[1024], *path = NULL, *dir = NULL;

    snprintf(text, sizeof text, "%s", lk_error_text());
    LK_PASS(lk_asprintf(&dir, "%s-start%d", name, n));
    free(part->dir);
    part->dir = dir;
    if (l->checkpoints && lk_is_folder(l->checkpoints))
        LK_PASS(run_checkpoint_newest(l->checkpoints, l->options, &path));
    if (path) {
        free(l->resume);
        l->resume = path;
    }
    lk_log(LK_LOG_MAIN, LK_WARN, "%s; start %d of %lld, from %s", text, n,
           (long long)l->options->restart, l->resume ? l->resume : "the beginning");
    return LK_OK;
}

/* Run a part to its end; --restart starts it again. */
static enum lk_status run_one(struct launcher *l, const struct run_grid *s, struct run_part *part)
{
    uint64_t began_ns = l->began_ns = lk_now_ns();
    enum lk_status st = LK_OK;
    char *name = NULL;

    LK_TRY(lk_strdup(&name, part->dir));
    st = run_start(l, s, part);
    while (st != LK_OK && !l->stopped && l->starts.failures < l->options->restart) {
        l->began_ns = lk_now_ns();
        l->starts.failures++;
        LK_TRY(start_again(l, part, name, l->starts.failures));
        st = run_start(l, s, part);
    }
    l->starts.wall_s += lk_s_from_ns(lk_now_ns() - began_ns);
out:
    free(name);
    return st;
}

/* ---- The whole ---- */

static enum lk_status run_parts(struct launcher *l, struct run_grid *s)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    for (size_t i = 0; i < s->n_parts && st == LK_OK; i++)
        st = run_one(l, s, &s->parts[i]);
    LK_KEEP(lk_path_join(&path, l->out, "run.json"));
    if (path)
        LK_KEEP(run_grid_write_index(s, path));
    free(path);
    return st;
}

/* Print options that are given or have a default, and the sizes that the model's name stands for.
 */
static void print_configuration(const struct run_options *given, const struct lk_run_info *info,
                                size_t repetitions)
{
    struct run_options o = *given;
    double parameters = 0;

    o.ranks = o.scaling.n ? 0 : o.ranks ? o.ranks : 1;
    o.repetitions = (int64_t)repetitions;
    o.first_bucket = run_options_first_bucket(given);
    for (const struct lk_option *row = given->command->options; row->name; row++) {
        char value[PATH_MAX];

        lk_option_value(row, &o, value, sizeof value);
        if (*value && (row->fallback || strcmp(value, "0") != 0))
            fprintf(stderr, "  %-16s %s\n", row->name, value);
    }
    for (size_t i = 0; i < info->n_tensors; i++)
        parameters += (double)info->tensors[i].elems;
    for (size_t i = 0; i < info->n_config; i++) {
        char text[256]; /* has the job's name, of a replay */

        snprintf(text, sizeof text, "%s", info->config[i].value);
        fprintf(stderr, "  %-16s %s\n", info->config[i].key, lk_printable(text));
    }
    fprintf(stderr, "  %-16s %.0f in %zu tensors\n", "parameters", parameters, info->n_tensors);
}

static enum lk_status check_shares(const struct run_options *given, const struct run_point *p,
                                   size_t samples)
{
    struct run_options o = rank_options(given, p);
    struct lk_train_config c;

    LK_PASS(run_options_train(&o, 0, p->config.world_size, 0, &c));
    return lk_train_check_shares(&c, samples);
}

/*
 * Check what each rank would find out, too, but with the exit code of a failed run. *out describes
 * the run. slots: of all hosts; 0: the ranks are here.
 */
static enum lk_status check_early(const struct run_options *o, const struct run_grid *grid,
                                  int slots, struct lk_run_info *out)
{
    struct lk_train_config c;
    size_t samples = (size_t)o->train.samples;
    char library[512];
    int most = 0;
    double kind;

    for (size_t i = 0; i < grid->n_points; i++) {
        LK_PASS(run_options_check_fault(o, grid->points[i].config.world_size));
        LK_PASS(run_options_check_share_ranks(o, grid->points[i].config.world_size));
        LK_PASS(run_sharding_check_ranks(o->train.reducer.shard_group,
                                         grid->points[i].config.world_size));
        most = grid->points[i].config.world_size > most ? grid->points[i].config.world_size : most;
        LK_PASS(run_kind_slowdown(o, 0, grid->points[i].config.world_size, &kind));
    }
    if (o->comm == RUN_COMM_MPI)
        return lk_fail(LK_EUSAGE,
                       "--comm=mpi needs ranks that MPI's launcher started: "
                       "mpirun -n 2 lockstep run --comm=mpi --out DIR (docs/launchers.md)");
    if (slots && most > slots)
        return lk_fail(LK_EUSAGE, "--hosts has %d slots, too few for %d ranks", slots, most);
    LK_PASS(run_options_check_slow_rank(o, most));
    LK_PASS(run_options_train(o, 0, 1, 0, &c));
    c.device_config.brief = true;
    if (o->train.data || o->train.import_path)
        LK_PASS(lk_train_check(&c, &samples));
    for (size_t i = 0; i < grid->n_points && !o->train.checkpoint.resume; i++)
        LK_PASS(check_shares(o, &grid->points[i], samples));
    LK_PASS(lk_train_describe(&c, out));
    LK_PASS(run_options_train(o, 0, most, 0, &c));
    return lk_comm_library(c.comm, library, sizeof library);
}

/* Check, without a tool that would trace CUDA in this process: it looks at the GPU and resets it,
 * and trains nothing. The ranks have the tool. */
static enum lk_status check_untraced(const struct run_options *o, const struct run_grid *grid,
                                     int slots, struct lk_run_info *out)
{
    const char *tool = getenv(RUN_CUDA_TOOL_ENV);
    enum lk_status st = LK_OK;
    char *kept = NULL;

    if (tool)
        LK_TRY(lk_strdup(&kept, tool));
    (void)unsetenv(RUN_CUDA_TOOL_ENV);
    LK_TRY(check_early(o, grid, slots, out));
out:
    if (kept && setenv(RUN_CUDA_TOOL_ENV, kept, 1) != 0 && st == LK_OK)
        st = lk_fail(LK_ENOMEM, "cannot set " RUN_CUDA_TOOL_ENV);
    free(kept);
    return st;
}

static enum lk_status run_launcher(const struct run_options *given, struct lk_page *page)
{
    struct run_options all = *given;
    const struct run_options *o = &all;
    struct launcher l = {.options = o};
    struct run_grid grid = {0};
    struct lk_run_info info = {0};
    enum lk_status st = LK_OK;

    if (o->hosts)
        LK_TRY(lk_fail_context(lk_hosts_parse(o->hosts, &l.hosts), "--hosts"));
    if (o->hosts && !o->ranks && !o->scaling.n)
        all.ranks = l.hosts.slots;
    if (!all.ranks && !o->scaling.n)
        all.ranks = run_options_listed_ranks(o);
    LK_TRY(run_grid_plan(o, &grid));
    LK_TRY(check_untraced(o, &grid, l.hosts.slots, &info));
    LK_TRY(run_checkpoint_check(o, &l.starts.before));
    if (o->out)
        LK_TRY(lk_strdup(&l.out, o->out));
    else
        LK_TRY(default_directory(o->train.model.name, &l.out));
    LK_TRY(make_outputs(o, l.out));
    if (o->train.checkpoint.every && o->train.checkpoint.dir)
        LK_TRY(lk_strdup(&l.checkpoints, o->train.checkpoint.dir));
    else if (o->train.checkpoint.every)
        LK_TRY(lk_path_join(&l.checkpoints, l.out, "checkpoints"));
    if (o->page.verbose)
        print_configuration(o, &info, grid.n_parts / grid.n_points);
    if (o->train.device_config.share_gpu)
        lk_log(LK_LOG_MAIN, LK_WARN, SHARE_GPU_WARNING);
    LK_TRY(run_parts(&l, &grid));
    LK_TRY(run_finish(&grid, o, &l.runs, l.out, page));
    if (l.checkpoints)
        LK_TRY(run_checkpoint_note(&l.starts, &grid.parts[0].result.course,
                                   grid.points[0].config.world_size, page));
out:
    free(l.resume);
    free(l.checkpoints);
    lk_run_info_fini(&info);
    run_grid_fini(&grid);
    lk_run_set_fini(&l.runs);
    lk_hosts_fini(&l.hosts);
    free(l.out);
    return st;
}

static enum lk_status start(const struct lk_command *c, const char *job, struct run_options *o,
                            struct lk_page *page)
{
    struct lk_rank_env env;
    char *resume = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(run_options_complete(c, job, o));
    LK_TRY(lk_rank_env_read(&env));
    LK_TRY(run_checkpoint_resolve(o, &resume));
    if (o->secret_file && !env.present)
        LK_TRY(lk_fail(LK_EUSAGE, NEEDLESS_SECRET));
    st = env.present ? run_rank(o, &env, page) : run_launcher(o, page);
out:
    free(resume);
    return st;
}

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    (void)operands;
    (void)n;
    return start(&lk_command_run, NULL, options, page);
}

static enum lk_status replay(void *options, const char **operands, int n, struct lk_page *page)
{
    (void)n;
    return start(&lk_command_replay, operands[0], options, page);
}

const struct lk_command lk_command_run = {
    .name = "run",
    .usage = "",
    .help = "run a real DDP job, instrumented",
    .options = run_rows,
    .size = sizeof(struct run_options),
    .run = run,
};

const struct lk_command lk_command_replay = {
    .name = "replay",
    .usage = "JOB",
    .help = "run a job's real communication and wait out its compute (no GPU needed)",
    .options = replay_rows,
    .defaults = run_rows,
    .size = sizeof(struct run_options),
    .operands_max = 1,
    .no_operand = "which job? Usage: lockstep replay JOB -n K",
    .run = replay,
};
