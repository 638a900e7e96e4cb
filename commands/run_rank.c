/* One rank of a run; see the header. */
#include "commands/run_rank.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/units.h"
#include "commands/agree.h"
#include "commands/command.h"
#include "commands/run_checkpoint.h"
#include "commands/run_grid.h"
#include "commands/run_kinds.h"
#include "commands/run_signals.h"
#include "commands/share_gpu.h"
#include "kernels/ops.h"
#include "profiler/analysis/run_set.h"
#include "runtime/device/machine.h"
#include "runtime/device/machine_load.h"
#include "runtime/rendezvous/rank_env.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Recording ---- */

/* Variables that may be written into a trace: never the whole environment. */
extern char **environ; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX */
static const char *const allowed_environment[] = {"NCCL_", "CUDA_", "OPENBLAS_", "OMP_"};

enum { CLOCK_ROUND_TRIPS = 64 };

/* Make one id for all ranks: rank 0 shares it over the store. */
static enum lk_status agree_on_id(const struct run_record *r, char **out)
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

static enum lk_status describe_machine(struct lk_run_info *info)
{
    struct lk_machine m;

    lk_machine_find("", &m);
    for (int i = 0; i < LK_MACHINE_FACTS; i++)
        if (m.text[i][0])
            LK_PASS(lk_run_info_config(info, lk_machine_keys[i], m.text[i]));
    return LK_OK;
}

/* Describe which machine's processors the rank shares, or why their load is not recorded. */
static enum lk_status describe_load(struct lk_run_info *info)
{
    char boot[LK_MACHINE_BOOT_TEXT];
    struct lk_host_load now;

    if (lk_machine_load_now("", &now) != LK_OK)
        return lk_run_info_config(info, LK_NO_LOAD_CONFIG_KEY, lk_error_text());
    lk_machine_boot("", boot);
    return lk_run_info_config(info, LK_BOOT_CONFIG_KEY, boot);
}

static enum lk_status describe(const struct run_record *r, const struct lk_train_config *c,
                               struct lk_run_info *info)
{
    char value[PATH_MAX];

    LK_PASS(lk_train_describe(c, info));
    LK_PASS(agree_on_id(r, &info->run_id));
    info->nodes = r->env->nodes;
    LK_PASS(lk_run_info_config(info, "tool_version", LK_VERSION));
    LK_PASS(describe_machine(info));
    LK_PASS(describe_load(info));
    if (r->gpu_records[0])
        LK_PASS(lk_run_info_config(info, LK_CUPTI_CONFIG_KEY, r->gpu_records));
    for (const struct lk_option *row = r->options->command->options; row->name; row++)
        LK_PASS(lk_run_info_config(info, row->name,
                                   lk_option_value(row, r->options, value, sizeof value)));
    LK_PASS(lk_comm_library(c->comm, value, sizeof value));
    if (*value)
        LK_PASS(lk_run_info_config(info, "comm_library", value));
    return describe_environment(info);
}

/* Return how many spans the compute stream will have, which has the most: about three ops and
 * instants a tensor in every micro-batch, one in the optimizer, and some that do not depend on
 * tensors. */
static uint64_t expected_spans(const struct lk_run_info *info)
{
    uint64_t micro_batch = 5 * (uint64_t)info->n_tensors + 32;

    return info->steps *
           ((uint64_t)info->accumulation * micro_batch + 2 * (uint64_t)info->n_tensors + 32);
}

/* Return true if the GPU's state is wanted: with a trace by default, without one on request. */
static bool wants_state(const struct run_options *o)
{
    return o->gpu_state == RUN_YES || (o->gpu_state == RUN_AUTO && o->trace);
}

/* Describe the rank and its GPU, and open its span file. */
static enum lk_status open_trace(struct run_record *r, const struct lk_train_config *c)
{
    struct lk_run_info info = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(describe(r, c, &info));
    if (wants_state(r->options))
        LK_TRY(gpu_state_open(&r->state, r->options->gpu_state == RUN_YES, NULL, &info));
    if (!r->options->trace)
        goto out;
    LK_TRY(lk_asprintf(&path, "%s/rank%d.spans", r->dir, r->env->rank));
    LK_TRY(lk_span_file_create(path, &info, expected_spans(&info), &r->spans));
    LK_TRY(run_signals_take(r->spans));
out:
    free(path);
    lk_run_info_fini(&info);
    return st;
}

/* Open NVTX. Without a tool there are no ranges; one that was named and cannot be used is a
 * warning. Both are errors if ranges were requested. */
static enum lk_status open_nvtx(struct run_record *r)
{
    enum lk_status st;

    if (r->options->nvtx == RUN_NO)
        return LK_OK;
    st = lk_nvtx_open(&r->nvtx);
    if (r->options->nvtx == RUN_AUTO && st == LK_EUNSUPPORTED && !lk_nvtx_tool())
        return LK_OK;
    if (r->options->nvtx == RUN_YES || st != LK_EUNSUPPORTED)
        return lk_fail_context(st, "--nvtx=yes");
    if (r->env->local_rank == 0)
        lk_log(LK_LOG_PROFILE, LK_WARN, "%s; the run goes on without ranges", lk_error_text());
    return LK_OK;
}

/* Open CUPTI before CUDA starts, and before the trace, which tells the outcome. If records were not
 * requested by name, the run goes on without them. */
static enum lk_status open_gpu_records(struct run_record *r, const struct lk_train_config *c)
{
    int64_t n = r->options->gpu_record_steps, end = n ? lk_train_skipped(c) + n : 0;
    const struct lk_cupti_config config = {.recorder = r->recorder,
                                           .end_step = end <= UINT32_MAX ? (uint32_t)end : 0};
    const char *tool = getenv(RUN_CUDA_TOOL_ENV);
    int wanted = r->options->gpu_records;
    enum lk_status st;

    r->gpu_needed = wanted == RUN_YES;
    if (!r->options->trace || strcmp(c->device, "cuda") != 0)
        return LK_OK;
    if (wanted == RUN_NO) {
        snprintf(r->gpu_records, sizeof r->gpu_records, "none: --gpu-records=no");
        return LK_OK;
    }
    /* One program alone can have the records; under a tool they are left to the tool. */
    if (wanted == RUN_AUTO && tool && tool[0]) {
        snprintf(r->gpu_records, sizeof r->gpu_records, "none: left to " RUN_CUDA_TOOL_ENV "=%s",
                 tool);
        return LK_OK;
    }
    st = lk_cupti_open(&config, &r->gpu);
    if (st == LK_OK)
        snprintf(r->gpu_records, sizeof r->gpu_records, "%s", lk_cupti_text(r->gpu));
    else if (wanted == RUN_YES || st != LK_EUNSUPPORTED)
        return lk_fail_context(st, "--gpu-records");
    else
        snprintf(r->gpu_records, sizeof r->gpu_records, "none: %s", lk_error_text());
    if (st != LK_OK && r->env->local_rank == 0)
        lk_log(LK_LOG_PROFILE, LK_WARN, "%s; the trace will have ranges, but no kernels and copies",
               lk_error_text());
    return LK_OK;
}

/* Read the load of the host and record it, as of a step. It is read three times a run: no step is
 * slower for it. */
static void record_load(struct run_record *r, int64_t step)
{
    uint64_t now_ns = lk_now_ns();
    struct lk_host_load load;

    if (!r->load.track || lk_machine_load_now("", &load) != LK_OK)
        return;
    for (int i = 0; i < LK_HOST_TIMES; i++)
        if (!isnan(load.s[i]))
            lk_span_emit(r->load.track, &(struct lk_span){.kind = LK_SPAN_COUNTER,
                                                          .name = r->load.names[i],
                                                          .step = (uint32_t)step,
                                                          .index = -1,
                                                          .start_ns = now_ns,
                                                          .end_ns = now_ns,
                                                          .value = load.s[i]});
}

static enum lk_status start_load(struct run_record *r)
{
    enum { READINGS = 3 };
    const struct lk_track_info info = {.name = LK_HOST_TRACK_NAME,
                                       .kind = LK_TRACK_HOST,
                                       .stream = LK_HOST_TRACK_STREAM,
                                       .n_spans = READINGS * LK_HOST_TIMES};

    if (!r->spans)
        return LK_OK;
    LK_PASS(lk_recorder_track(r->recorder, &info, &r->load.track));
    for (int i = 0; i < LK_HOST_TIMES; i++)
        LK_PASS(lk_recorder_name(r->recorder, lk_host_time_name((enum lk_host_time)i),
                                 &r->load.names[i]));
    record_load(r, 0);
    return LK_OK;
}

enum lk_status run_record_start(struct run_record *r, const struct run_options *o,
                                const struct lk_rank_env *env, struct lk_store *store,
                                const char *dir, const struct lk_train_config *c)
{
    *r = (struct run_record){.options = o, .env = env, .store = store, .dir = dir};
    LK_PASS(open_nvtx(r));
    if (!r->nvtx && !o->trace && o->gpu_state != RUN_YES)
        return LK_OK;
    if (r->nvtx || o->trace)
        LK_PASS(lk_recorder_create(&r->recorder));
    LK_PASS(open_gpu_records(r, c));
    if (o->trace || o->gpu_state == RUN_YES)
        LK_PASS(open_trace(r, c));
    if (r->gpu)
        LK_PASS(lk_recorder_attach(r->recorder, &lk_cupti_ops, r->gpu));
    if (r->nvtx)
        LK_PASS(lk_recorder_attach(r->recorder, &lk_nvtx_ops, r->nvtx));
    if (r->spans)
        LK_PASS(lk_recorder_attach(r->recorder, &lk_span_file_ops, r->spans));
    LK_PASS(start_load(r));
    return gpu_state_start(&r->state, r->recorder);
}

/* Record round trips to rank 0's clock in the trace; do nothing without a trace. */
static enum lk_status record_clocks(struct run_record *r, enum lk_clock_moment moment)
{
    struct lk_clock_sample samples[CLOCK_ROUND_TRIPS];

    if (!r->spans || r->env->rank == 0)
        return LK_OK;
    LK_PASS(lk_store_clock(r->store, CLOCK_ROUND_TRIPS, samples));
    return lk_span_file_clock(r->spans, moment, samples, CLOCK_ROUND_TRIPS);
}

/* Stop CUPTI. Recorded spans are kept in the trace, even when it fails. */
static enum lk_status stop_gpu_records(struct run_record *r, enum lk_status st)
{
    const uint64_t longest_ns = 20 * LK_NS_PER_S;
    enum lk_status gpu;

    if (!r->gpu)
        return st;
    if (st != LK_OK) {
        lk_quietly_(lk_cupti_close(r->gpu, lk_deadline_in(longest_ns), NULL));
        return st;
    }
    gpu = lk_cupti_close(r->gpu, lk_deadline_in(longest_ns), NULL);
    if (gpu != LK_OK && !r->gpu_needed)
        lk_log(LK_LOG_PROFILE, LK_WARN, "%s", lk_error_text());
    return r->gpu_needed ? gpu : LK_OK;
}

enum lk_status run_record_stop(struct run_record *r, enum lk_status st)
{
    st = stop_gpu_records(r, st);
    LK_KEEP(gpu_state_stop(&r->state));
    if (st != LK_OK && r->spans)
        lk_span_file_fail(r->spans, lk_error_text());
    lk_recorder_destroy(r->recorder);
    lk_nvtx_close(r->nvtx);
    run_signals_leave();
    LK_KEEP(lk_span_file_close(r->spans));
    *r = (struct run_record){0};
    return st;
}

/* ---- The run ---- */

struct rank {
    const struct run_options *options;
    const struct lk_rank_env *env;
    struct lk_page *page;
    const char *dir;
    bool ours; /* started by our own launcher */
    struct lk_store_server *server;
    struct lk_store *store;
    struct run_record record;
    int64_t n_steps, skipped;     /* of the run, and those that are not in its statistics */
    struct lk_tensor_text *texts; /* for checkpoints */
    char *checkpoints;            /* their folder, where no option names it; NULL: one does */
};

/* Note that a step has ended; the trainer calls it after every step. A trace that cannot grow ends
 * the run. */
static enum lk_status progressed(void *ctx, int64_t step, double loss)
{
    struct rank *r = ctx;

    (void)loss;
    if (step + 1 == r->skipped || step + 1 == r->n_steps)
        record_load(&r->record, step);
    gpu_state_step(&r->record.state, step + 1, r->skipped, r->n_steps);
    if (r->options->train.device_config.share_gpu)
        share_gpu_deadline(r->options->timeout_s);
    if (r->env->rank == 0)
        lk_progress("step", (double)(step + 1), (double)r->n_steps);
    return lk_span_file_status(r->record.spans);
}

static enum lk_status write_result(struct rank *r, const struct lk_train_result *result)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(gpu_state_stop(&r->record.state));
    LK_TRY(lk_path_join(&path, r->dir, "result.json"));
    LK_TRY(run_result_write(path, result, &r->record.state));
out:
    free(path);
    return st;
}

static enum lk_status train(struct rank *r, struct lk_train_config *c)
{
    struct lk_train_result result = {0};
    enum lk_status st = LK_OK;

    r->n_steps = c->steps + c->warmup_steps;
    r->skipped = lk_train_skipped(c);
    c->progress = progressed;
    c->progress_ctx = r;
    c->recorder = r->record.recorder;
    LK_TRY(record_clocks(&r->record, LK_CLOCK_START));
    if (r->env->rank == 0)
        lk_progress_begin(0, 1, "%s", r->ours ? "" : "training");
    st = lk_train(c, &result);
    lk_progress_end();
    if (r->env->rank == 0 && r->dir && result.n) /* also when the export after it failed */
        LK_KEEP(write_result(r, &result));
    LK_TRY(st);
    LK_TRY(record_clocks(&r->record, LK_CLOCK_END));
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
        LK_TRY(lk_run_set_convert(&runs, r->dir, r->options->merged_trace, NULL));
        LK_TRY(run_finish_single(r->options, r->env->world_size, &runs, r->dir, r->page));
    }
out:
    lk_run_set_fini(&runs);
    return st;
}

static enum lk_status choose_directory(struct rank *r)
{
    r->dir = getenv(RUN_DIR_ENV);
    r->ours = r->dir != NULL;
    if (r->ours)
        return LK_OK;
    if (!r->options->out)
        return lk_fail(LK_EUSAGE, "under another launcher --out is needed: a directory that all "
                                  "ranks share");
    if (r->options->force)
        return lk_fail(LK_EUSAGE, "--force: not under another launcher, whose ranks share --out");
    if (run_options_measure_several(r->options) || r->options->repetitions > 1)
        return lk_fail(LK_EUSAGE, "--scaling, --local-batches, --accumulations, --bucket-caps and "
                                  "--repetitions start ranks themselves: not under another "
                                  "launcher");
    if (r->options->hosts)
        return lk_fail(LK_EUSAGE, "--hosts starts ranks itself: not under another launcher");
    if (r->options->restart)
        return lk_fail(LK_EUSAGE, "--restart: not under another launcher, which starts the ranks");
    r->dir = r->options->out;
    return run_options_check_slow_rank(r->options, r->env->world_size);
}

/* Complete the configuration of checkpoints: folder, texts, and when this start began. */
static enum lk_status prepare_checkpoints(struct rank *r, struct lk_train_config *c)
{
    struct lk_checkpoint_config *k = &c->checkpoint;
    const char *began = getenv(RUN_BEGAN_ENV);

    if (!k->every)
        return LK_OK;
    if (!k->dir) {
        LK_PASS(lk_path_join(&r->checkpoints, r->dir, "checkpoints"));
        k->dir = r->checkpoints;
    }
    if (began)
        k->began_ns = strtoull(began, NULL, 10);
    LK_PASS(run_checkpoint_texts(r->options, &r->texts, &k->n_texts));
    k->texts = r->texts;
    return LK_OK;
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

enum lk_status run_rank(const struct run_options *o, const struct lk_rank_env *env,
                        struct lk_page *page)
{
    struct rank r = {.options = o, .env = env, .page = page};
    const char *mark = getenv(RUN_MARK_ENV);
    struct lk_train_course before;
    struct lk_train_config c;
    enum lk_status st = LK_OK;
    bool told = false;
    double kind;

    lk_log_set_rank(env->rank);
    LK_TRY(share(o, env));
    LK_TRY(run_options_train(o, env->rank, env->world_size, env->local_rank, &c));
    if (!strcmp(c.device, "cpu"))
        LK_TRY(lk_kernels_init()); /* while there is one thread */
    LK_TRY(run_kind_slowdown(o, env->rank, env->world_size, &kind));
    c.device_config.slowdown *= kind;
    LK_TRY(choose_directory(&r));
    LK_TRY(prepare_checkpoints(&r, &c));
    LK_TRY(
        lk_rank_env_connect(env, o->secret_file, lk_ns_from_s(o->timeout_s), &r.server, &r.store));
    LK_TRY(agree_on_options(o->command, o,
                            o->command == &lk_command_replay ? o->train.model.job : NULL,
                            !r.ours || mark, env, r.store));
    if (mark)
        LK_TRY(folder_see(r.dir, mark, env->rank, "the launcher's"));
    if (!r.ours)
        LK_TRY(agree_on_folder(r.dir, env, r.store));
    if (!r.ours && env->rank == 0) /* our own launcher has checked it */
        LK_TRY(run_checkpoint_check(o, &before));
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
    free(r.checkpoints);
    free(r.texts);
    lk_store_close(r.store);
    lk_store_server_stop(r.server, lk_ns_from_s(o->timeout_s));
    return told ? LK_EREPORTED : st;
}
