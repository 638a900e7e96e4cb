/* One rank of a run; see the header. */
#include "commands/run_rank.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "commands/processor.h"
#include "commands/run_finish.h"
#include "commands/run_result.h"
#include "profiler/convert.h"
#include "profiler/span_file.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Variables that may be written into a trace: never the whole environment. */
extern char **environ; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX */
static const char *const allowed_environment[] = {"NCCL_", "CUDA_", "OPENBLAS_", "OMP_"};

enum { CLOCK_ROUND_TRIPS = 64 };

struct rank {
    const struct run_options *options;
    const struct lk_rank_env *env;
    const char *dir; /* NULL: nothing is recorded */
    bool ours;       /* started by our own launcher */
    struct lk_store_server *server;
    struct lk_store *store;
    struct lk_span_file *spans;
    struct lk_recorder *recorder;
    uint64_t shown_ns; /* when progress was last shown */
    int64_t n_steps;
};

/* ---- Recording ---- */

/* The same text on all ranks: rank 0 makes it. */
static enum lk_status agree_on_id(struct rank *r, char **out)
{
    char id[64];
    void *value = NULL;
    size_t size;
    enum lk_status st = LK_OK;

    if (r->env->rank == 0) {
        snprintf(id, sizeof id, "%016" PRIx64 "-%ld", lk_epoch_ns(), (long)getpid());
        LK_TRY(lk_store_set(r->store, "run-id", id, strlen(id)));
    }
    LK_TRY(lk_store_get(r->store, "run-id", &value, &size));
    LK_TRY(lk_strndup(out, value, size));
out:
    free(value);
    return st;
}

static enum lk_status describe_environment(struct lk_run_info *info)
{
    enum lk_status st = LK_OK;
    char *key = NULL;

    for (char **e = environ; *e; e++)
        for (size_t i = 0; i < LK_COUNT(allowed_environment); i++) {
            const char *equals = strchr(*e, '=');

            if (!equals || strncmp(*e, allowed_environment[i], strlen(allowed_environment[i])) != 0)
                continue;
            LK_TRY(lk_strndup(&key, *e, (size_t)(equals - *e)));
            LK_TRY(lk_run_info_config(info, key, equals + 1));
            free(key);
            key = NULL;
        }
out:
    free(key);
    return st;
}

static enum lk_status describe(struct rank *r, const struct lk_train_config *c,
                               struct lk_run_info *info)
{
    enum lk_status st = LK_OK;
    char value[PATH_MAX];

    LK_TRY(lk_train_describe(c, info));
    LK_TRY(agree_on_id(r, &info->run_id));
    info->nodes = r->env->nodes;
    LK_TRY(lk_run_info_config(info, "tool_version", LK_VERSION));
    LK_TRY(lk_run_info_config(info, "processor", processor_name(value, sizeof value)));
    for (const struct lk_option *row = r->options->form->rows; row->name; row++)
        LK_TRY(lk_run_info_config(info, row->name,
                                  lk_option_value(row, r->options, value, sizeof value)));
    LK_TRY(describe_environment(info));
out:
    return st;
}

/* Spans of the compute stream, which has the most: about three ops and instants a tensor in every
 * micro-batch, one in the optimizer, and what does not depend on tensors. */
static uint64_t expected_spans(const struct lk_run_info *info)
{
    uint64_t micro_batch = 5 * (uint64_t)info->n_tensors + 32;

    return info->steps *
           ((uint64_t)info->accumulation * micro_batch + 2 * (uint64_t)info->n_tensors + 32);
}

static enum lk_status start_recording(struct rank *r, const struct lk_train_config *c)
{
    struct lk_run_info info = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(describe(r, c, &info));
    LK_TRY(lk_asprintf(&path, "%s/rank%d.spans", r->dir, r->env->rank));
    LK_TRY(lk_span_file_create(path, &info, expected_spans(&info), &r->spans));
    LK_TRY(lk_recorder_create(&r->recorder));
    LK_TRY(lk_recorder_attach(r->recorder, &lk_span_file_ops, r->spans));
out:
    free(path);
    lk_run_info_fini(&info);
    return st;
}

static enum lk_status exchange_clocks(struct rank *r, enum lk_clock_moment moment)
{
    struct lk_clock_sample samples[CLOCK_ROUND_TRIPS];
    enum lk_status st = LK_OK;

    if (!r->spans || r->env->rank == 0)
        return LK_OK;
    LK_TRY(lk_store_clock(r->store, CLOCK_ROUND_TRIPS, samples));
    LK_TRY(lk_span_file_clock(r->spans, moment, samples, CLOCK_ROUND_TRIPS));
out:
    return st;
}

/* ---- The run ---- */

/* On a terminal, a line that renews itself four times a second. */
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

static enum lk_status write_result(const struct rank *r, const struct lk_train_config *c,
                                   const struct lk_train_result *result)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_path_join(&path, r->dir, "result.json"));
    LK_TRY(run_result_write(path, result, c->warmup_steps));
out:
    free(path);
    return st;
}

static enum lk_status train(struct rank *r, struct lk_train_config *c)
{
    struct lk_train_result result = {0};
    enum lk_status st = LK_OK;

    r->n_steps = c->steps + c->warmup_steps;
    if (r->env->rank == 0 && isatty(STDERR_FILENO)) {
        c->progress = show_progress;
        c->progress_ctx = r;
    }
    c->recorder = r->recorder;
    LK_TRY(exchange_clocks(r, LK_CLOCK_START));
    st = lk_train(c, &result);
    if (r->env->rank == 0 && r->dir && result.n) /* also when the export after it failed */
        LK_KEEP(write_result(r, c, &result));
    LK_TRY(st);
    LK_TRY(exchange_clocks(r, LK_CLOCK_END));
out:
    lk_train_result_fini(&result);
    return st;
}

static enum lk_status open_store(struct rank *r)
{
    const struct lk_rank_env *e = r->env;
    enum lk_status st = LK_OK;

    if (e->serve && e->rank == 0)
        LK_TRY(lk_store_serve(e->master_addr, e->master_port, e->world_size, &r->server));
    LK_TRY(lk_store_connect(e->master_addr, e->master_port, e->rank, e->world_size,
                            lk_ns_from_s(r->options->timeout_s), &r->store));
out:
    return st;
}

/* Under a foreign launcher there is nobody else to make the traces and the summary. */
static enum lk_status convert(struct rank *r)
{
    enum lk_status st = LK_OK;

    if (r->ours || !r->options->trace)
        return LK_OK;
    LK_TRY(lk_store_barrier(r->store, "spans-closed"));
    if (r->env->rank == 0) {
        LK_TRY(lk_convert_run(r->dir, NULL));
        LK_TRY(run_finish_single(r->options, r->env->world_size, r->dir));
    }
out:
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
        return lk_fail(LK_EUSAGE, "a sweep starts its own ranks: not under another launcher");
    st = run_options_check_slow_rank(r->options, r->env->world_size);
    r->dir = r->options->out;
    return st == LK_OK ? lk_mkdirs(r->dir) : st;
}

enum lk_status run_rank(const struct run_options *o, const struct lk_rank_env *env)
{
    struct rank r = {.options = o, .env = env};
    struct lk_train_config c;
    enum lk_status st = LK_OK;
    bool told = false;

    lk_log_set_rank(env->rank);
    LK_TRY(run_options_train(o, env->rank, env->world_size, env->local_rank, &c));
    LK_TRY(choose_directory(&r));
    LK_TRY(open_store(&r));
    c.comm_config.store = r.store;
    if (o->trace)
        LK_TRY(start_recording(&r, &c));
    LK_TRY(train(&r, &c));
out:
    if (st != LK_OK && r.store) {
        st = lk_store_report(r.store, st, lk_error_text());
        told = r.ours;
    }
    if (st != LK_OK && r.spans)
        lk_span_file_fail(r.spans, lk_error_text());
    lk_recorder_destroy(r.recorder);
    LK_KEEP(lk_span_file_close(r.spans));
    if (st == LK_OK)
        st = convert(&r);
    lk_store_close(r.store);
    lk_store_server_stop(r.server, lk_ns_from_s(o->timeout_s));
    return told ? LK_EREPORTED : st;
}
