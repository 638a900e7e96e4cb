/* One rank of a run; see the header. */
#include "commands/run_rank.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "commands/run_grid.h"
#include "commands/run_record.h"
#include "commands/run_result.h"
#include "commands/share_gpu.h"
#include "profiler/run_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct rank {
    const struct run_options *options;
    const struct lk_rank_env *env;
    const char *dir; /* NULL: nothing is recorded */
    bool ours;       /* started by our own launcher */
    struct lk_store_server *server;
    struct lk_store *store;
    struct run_record record;
    uint64_t shown_ns; /* when progress was last shown */
    int64_t n_steps;
};

/* ---- The run ---- */

/* Show progress on a terminal, in a line that is rewritten four times a second. */
static void show_progress(void *ctx, int64_t step, double loss)
{
    struct rank *r = ctx;
    uint64_t now_ns = lk_now_ns();

    if (step + 1 < r->n_steps && now_ns - r->shown_ns < LK_NS_PER_S / 4)
        return;
    r->shown_ns = now_ns;
    fprintf(stderr, "\r  step %" PRId64 " of %" PRId64, step + 1, r->n_steps);
    if (!isnan(loss))
        fprintf(stderr, ", loss %.4f", loss);
    if (step + 1 == r->n_steps)
        fputs("\r\033[K", stderr);
}

/* Note that a step has ended; the trainer calls it after every step. */
static void progressed(void *ctx, int64_t step, double loss)
{
    struct rank *r = ctx;

    gpu_state_step(&r->record.state, step + 1, r->options->train.warmup_steps, r->n_steps);
    if (r->options->train.device_config.share_gpu)
        share_gpu_deadline(r->options->timeout_s);
    if (r->env->rank == 0 && isatty(STDERR_FILENO))
        show_progress(r, step, loss);
}

static enum lk_status write_result(struct rank *r, const struct lk_train_config *c,
                                   const struct lk_train_result *result)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(gpu_state_stop(&r->record.state));
    LK_TRY(lk_path_join(&path, r->dir, "result.json"));
    LK_TRY(run_result_write(path, result, c->warmup_steps, &r->record.state));
out:
    free(path);
    return st;
}

static enum lk_status train(struct rank *r, struct lk_train_config *c)
{
    struct lk_train_result result = {0};
    enum lk_status st = LK_OK;

    r->n_steps = c->steps + c->warmup_steps;
    c->progress = progressed;
    c->progress_ctx = r;
    c->recorder = r->record.recorder;
    LK_TRY(run_record_clocks(&r->record, r->env, r->store, LK_CLOCK_START));
    st = lk_train(c, &result);
    if (r->env->rank == 0 && r->dir && result.n) /* also when the export after it failed */
        LK_KEEP(write_result(r, c, &result));
    LK_TRY(st);
    LK_TRY(run_record_clocks(&r->record, r->env, r->store, LK_CLOCK_END));
out:
    lk_train_result_fini(&result);
    return st;
}

/* Make the traces and the summary under a foreign launcher, which does not. */
static enum lk_status convert(struct rank *r)
{
    enum lk_status st = LK_OK;
    struct lk_run_set runs = {0};

    if (r->ours || !r->options->trace)
        return LK_OK;
    LK_TRY(lk_store_barrier(r->store, "spans-closed"));
    if (r->env->rank == 0) {
        LK_TRY(lk_run_set_convert(&runs, r->dir, NULL));
        LK_TRY(run_finish_single(r->options, r->env->world_size, &runs, r->dir));
    }
out:
    lk_run_set_fini(&runs);
    return st;
}

static enum lk_status choose_directory(struct rank *r)
{
    enum lk_status st;

    r->dir = getenv(RUN_DIR_ENV);
    r->ours = r->dir != NULL;
    if (r->ours)
        return LK_OK;
    if (!r->options->out)
        return lk_fail(LK_EUSAGE, "under another launcher --out is needed: a directory that all "
                                  "ranks share");
    if (r->options->scaling.n || r->options->local_batches.n || r->options->repetitions > 1)
        return lk_fail(
            LK_EUSAGE,
            "--scaling, --local-batches and --repetitions start ranks themselves: not under "
            "another launcher");
    st = run_options_check_slow_rank(r->options, r->env->world_size);
    r->dir = r->options->out;
    return st == LK_OK ? lk_mkdirs(r->dir) : st;
}

/* Prepare to share a GPU, before NCCL is opened and threads are made. */
static enum lk_status share(const struct run_options *o, const struct lk_rank_env *env)
{
    if (!o->train.device_config.share_gpu)
        return LK_OK;
    if (env->rank == 0 && !getenv(RUN_DIR_ENV)) /* our own launcher has said so */
        lk_log(LK_LOG_MAIN, LK_WARN, SHARE_GPU_WARNING);
    share_gpu_deadline(o->timeout_s);
    return share_gpu_environment(env->rank, env->nodes);
}

enum lk_status run_rank(const struct run_options *o, const struct lk_rank_env *env)
{
    struct rank r = {.options = o, .env = env};
    struct lk_train_config c;
    enum lk_status st = LK_OK;
    bool told = false;

    lk_log_set_rank(env->rank);
    LK_TRY(share(o, env));
    LK_TRY(run_options_train(o, env->rank, env->world_size, env->local_rank, &c));
    LK_TRY(choose_directory(&r));
    LK_TRY(lk_rank_env_connect(env, lk_ns_from_s(o->timeout_s), &r.server, &r.store));
    c.comm_config.store = r.store;
    LK_TRY(run_record_start(&r.record, o, env, r.store, r.dir, &c));
    LK_TRY(train(&r, &c));
out:
    if (st != LK_OK && r.store) {
        st = lk_store_report(r.store, st, lk_error_text());
        told = r.ours;
    }
    st = run_record_stop(&r.record, st);
    share_gpu_deadline(0);
    if (st == LK_OK)
        st = convert(&r);
    lk_store_close(r.store);
    lk_store_server_stop(r.server, lk_ns_from_s(o->timeout_s));
    return told ? LK_EREPORTED : st;
}
