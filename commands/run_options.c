#include "commands/run_options.h"

#include "base/array.h"
#include "base/job.h"
#include "base/units.h"
#include "commands/share_gpu.h"
#include "runtime/comm/comm_fault.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parse "RANK:FACTOR". */
static enum lk_status parse_slow_rank(const char *text, int64_t *out_rank, double *out_factor)
{
    return lk_fail_context(lk_parse_factor_at(text, 1023, out_rank, out_factor), "--slow-rank=%s",
                           text);
}

/* Return a rank's factor: 1 for all but the slow one. */
static enum lk_status slowdown(const char *text, int rank, double *out)
{
    enum lk_status st = LK_OK;
    int64_t slow = -1;
    double factor = 1;

    if (text)
        st = parse_slow_rank(text, &slow, &factor);
    if (st == LK_OK)
        *out = slow == rank ? factor : 1;
    return st;
}

static bool is_grid(const struct run_options *o)
{
    return o->scaling.n > 0 || o->local_batches.n > 0;
}

/*
 * Refuse options that conflict: the run would make no sense, or would ignore an option. d has the
 * defaults: a value that differs from them was given.
 */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): a table, read row by row */
static enum lk_status check(const struct run_options *o, const struct run_options *d)
{
    bool replay = !strcmp(o->model, "replay");
    bool timed = o->device == RUN_DEVICE_TIMED;
    bool cuda = !strcmp(run_devices[o->device], "cuda");
    bool of_nccl = o->nccl_min_ctas || o->nccl_max_ctas || o->nccl_cga || o->nccl_register;
    bool sgd = o->optimizer == LK_OPTIM_SGD;
    bool adamw = o->optimizer == LK_OPTIM_ADAMW;
    enum lk_status st;
    double factor;
    const struct {
        bool wrong;
        const char *why;
    } rows[] = {
        {o->ranks && o->scaling.n, "--ranks and --scaling exclude each other"},
        {o->strong && !o->scaling.n, "--strong needs --scaling"},
        {o->strong && o->local_batches.n, "--strong and --local-batches exclude each other"},
        {o->comm == RUN_COMM_SELF && (o->ranks > 1 || o->scaling.n),
         "--comm=self is for one rank; --ranks or --scaling asks for more"},
        {o->comm == RUN_COMM_NCCL && !cuda, "--comm=nccl needs --device=cuda"},
        {o->comm == RUN_COMM_TCP && cuda,
         "--comm=tcp: it needs buffers in host memory, which --device=cuda has not; it takes nccl"},
        {of_nccl && (!cuda || o->comm == RUN_COMM_SELF), "--nccl-... options need --comm=nccl"},
        {of_nccl && o->ranks == 1 && o->comm == RUN_COMM_AUTO,
         "--nccl-... options need --comm=nccl or more ranks"},
        {o->nccl_max_ctas && o->nccl_min_ctas > o->nccl_max_ctas,
         "--nccl-min-ctas is above --nccl-max-ctas"},
        {o->algorithm != d->algorithm && cuda,
         "--algorithm: NCCL chooses; NCCL_ALGO=allreduce:ring in the environment forces one"},
        {o->share_gpu && !cuda, "--share-gpu needs --device=cuda"},
        {replay && !o->job, "--model=replay needs --job"},
        {!replay && o->job, "--job is for --model=replay"},
        {replay && !timed, "--model=replay needs --device=timed"},
        {replay && o->verify, "--verify: a replayed job computes nothing to verify"},
        {timed && o->verify, "--verify: the timed device computes nothing to verify"},
        {timed && (o->export_path || o->import_path),
         "--export and --import: the timed device computes no weights"},
        {o->dtype != d->dtype && !cuda, "--dtype=bfloat16 needs --device=cuda"},
        {o->slow_rank && !timed, "--slow-rank needs --device=timed"},
        {o->timed_flops != d->timed_flops && !timed, "--timed-flops needs --device=timed"},
        {o->timed_Bps != d->timed_Bps && !timed, "--timed-bandwidth needs --device=timed"},
        {o->noise_every != d->noise_every && timed,
         "--noise-every: the timed device computes no gradients to measure"},
        {o->momentum != d->momentum && adamw, "--momentum is for --optimizer=sgd"},
        {o->beta1 != d->beta1 && sgd, "--beta1 is for --optimizer=adamw"},
        {o->beta2 != d->beta2 && sgd, "--beta2 is for --optimizer=adamw"},
        {o->epsilon != d->epsilon && sgd, "--epsilon is for --optimizer=adamw"},
        {o->samples != d->samples && o->data, "--samples is for synthetic data, not for --data"},
        {o->plant != d->plant && !o->verify, "--plant needs --verify, which is to find it"},
        {o->gpu_records == RUN_YES && !cuda, "--gpu-records=yes needs --device=cuda"},
        {o->gpu_state == RUN_YES && !cuda, "--gpu-state=yes needs --device=cuda"},
        {o->gpu_records == RUN_YES && !o->trace, "--gpu-records=yes needs --trace"},
        {o->verify_steps && !o->verify, "--verify-steps needs --verify"},
        {is_grid(o) && o->export_path,
         "--export is for a single run, not for --scaling or --local-batches"},
        {o->repetitions > 1 && o->export_path, "--export is for a single run, not repetitions"},
        {o->learning_rate <= 0, "--learning-rate must be above 0"},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].wrong)
            return lk_fail(LK_EUSAGE, "%s", rows[i].why);
    st = slowdown(o->slow_rank, 0, &factor);
    return st == LK_OK ? run_options_check_fault(o, INT_MAX) : st;
}

static const struct run_form forms[] = {
    [RUN_FORM_RUN] = {"run", run_option_rows}, [RUN_FORM_REPLAY] = {"replay", replay_option_rows}};

/* Set the defaults; options that replay has not are as run has them. */
static enum lk_status parse_defaults(enum run_form_kind form, struct run_options *out)
{
    enum lk_status st = LK_OK;
    int n_operands;

    *out = (struct run_options){.form = NULL};
    LK_TRY(lk_option_parse(run_option_rows, out, 0, NULL, NULL, 0, &n_operands));
    if (form != RUN_FORM_RUN)
        LK_TRY(lk_option_parse(forms[form].rows, out, 0, NULL, NULL, 0, &n_operands));
    out->form = &forms[form];
out:
    return st;
}

enum lk_status run_options_parse(int argc, char **argv, struct run_options *out)
{
    struct run_options defaults;
    enum lk_status st = LK_OK;
    int n_operands;

    LK_TRY(parse_defaults(RUN_FORM_RUN, &defaults));
    *out = defaults;
    LK_TRY(lk_option_parse(run_option_rows, out, argc, argv, NULL, 0, &n_operands));
    LK_TRY(check(out, &defaults));
out:
    return st;
}

/* Take from the job what the command line does not give. */
static enum lk_status take_from_job(struct run_options *o)
{
    enum lk_status st = LK_OK;
    struct lk_job job = {0};

    LK_TRY(lk_job_read(o->job, &job));
    o->ddp_rule = (int)job.ddp_rule;
    o->prefetch = job.prefetch_depth;
    o->sync_every = o->sync_every || !job.no_sync;
    if (!o->local_batch)
        o->local_batch = lk_job_usual_batch(&job);
    if (!o->accumulation)
        o->accumulation = job.accumulation;
    if (!o->first_bucket && (!o->bucket_cap || o->bucket_cap == job.cap_bytes))
        o->first_bucket = job.first_bytes;
    if (!o->bucket_cap)
        o->bucket_cap = job.cap_bytes;
out:
    lk_job_fini(&job);
    return st;
}

enum lk_status run_options_parse_replay(int argc, char **argv, struct run_options *out)
{
    struct run_options defaults;
    enum lk_status st = LK_OK;
    const char *operand = NULL;
    int n = 0;

    LK_TRY(parse_defaults(RUN_FORM_REPLAY, &defaults));
    *out = defaults;
    LK_TRY(lk_option_parse(replay_option_rows, out, argc, argv, &operand, 1, &n));
    if (!n)
        return lk_fail(LK_EUSAGE, "which job? Usage: lockstep replay JOB -n K");
    out->model = "replay";
    out->device = RUN_DEVICE_TIMED;
    out->job = operand;
    LK_TRY(check(out, &defaults));
    LK_TRY(take_from_job(out));
out:
    return st;
}

enum lk_status run_options_check_slow_rank(const struct run_options *o, int ranks)
{
    enum lk_status st = LK_OK;
    int64_t slow = -1;
    double factor;

    if (o->slow_rank)
        st = parse_slow_rank(o->slow_rank, &slow, &factor);
    if (st == LK_OK && slow >= ranks)
        st = lk_fail(LK_EUSAGE, "--slow-rank=%s: the ranks are 0 to %d", o->slow_rank, ranks - 1);
    return st;
}

enum lk_status run_options_check_fault(const struct run_options *o, int ranks)
{
    struct lk_fault *faults = NULL;
    enum lk_status st;
    size_t n;

    if (!o->fault)
        return LK_OK;
    st = lk_fault_parse(o->fault, ranks, &faults, &n);
    if (st != LK_OK)
        return st;
    for (size_t i = 0; i < n; i++)
        if (faults[i].kind == LK_FAULT_SLOW && !strcmp(run_devices[o->device], "cuda"))
            st = lk_fail(LK_EUSAGE,
                         "--fault=%s: slow links are for collectives of the host, not "
                         "for --device=cuda",
                         faults[i].text);
    free(faults);
    return st;
}

uint64_t run_options_first_bucket(const struct run_options *o)
{
    if (o->first_bucket)
        return o->first_bucket;
    return lk_ddp_rule_first_bytes((enum lk_ddp_rule)o->ddp_rule, o->bucket_cap,
                                   o->bucket_cap != LK_BUCKET_CAP_BYTES);
}

enum lk_status run_options_argv(const struct run_options *o, char ***out)
{
    enum lk_status st = LK_OK;
    struct run_options defaults;
    char **argv = NULL;
    size_t n = 0, rows = 0;

    LK_TRY(parse_defaults((enum run_form_kind)(o->form - forms), &defaults));
    while (o->form->rows[rows].name)
        rows++;
    LK_TRY(lk_alloc(&argv, rows + 4, sizeof *argv));
    LK_TRY(lk_strdup(&argv[n++], "lockstep"));
    LK_TRY(lk_strdup(&argv[n++], o->form->command));
    if (o->form == &forms[RUN_FORM_REPLAY])
        LK_TRY(lk_strdup(&argv[n++], o->job));
    for (const struct lk_option *row = o->form->rows; row->name; row++) {
        char value[PATH_MAX];
        char fallback[PATH_MAX];

        lk_option_value(row, o, value, sizeof value);
        lk_option_value(row, &defaults, fallback, sizeof fallback);
        if (!strcmp(value, fallback))
            continue;
        if (row->type == LK_OPT_FLAG)
            LK_TRY(lk_asprintf(&argv[n], "--%s%s",
                               *(const bool *)((const char *)o + row->offset) ? "" : "no-",
                               row->name));
        else
            LK_TRY(lk_asprintf(&argv[n], "--%s=%s", row->name, value));
        n++;
    }
    *out = argv;
    argv = NULL;
out:
    run_argv_free(argv);
    return st;
}

void run_argv_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

static void fill_optimizer(const struct run_options *o, struct lk_optim_config *c)
{
    c->kind = (enum lk_optim_kind)o->optimizer;
    c->learning_rate = o->learning_rate;
    c->momentum = o->momentum;
    c->beta1 = o->beta1;
    c->beta2 = o->beta2;
    c->eps = o->epsilon;
    c->weight_decay = o->weight_decay;
    c->warmup_steps = o->lr_warmup;
    c->reference_batch = o->reference_batch;
}

static void fill_reducer(const struct run_options *o, struct lk_reducer_config *c)
{
    c->ddp_rule = (enum lk_ddp_rule)o->ddp_rule;
    c->first_bytes = run_options_first_bucket(o);
    c->cap_bytes = o->bucket_cap;
    c->algo = (enum lk_algo)o->algorithm;
    c->accumulation = (int)o->accumulation;
    c->no_sync = !o->sync_every;
    c->noise_every = (int)o->noise_every;
    c->plant = (enum lk_plant)o->plant;
}

static void fill_model(const struct run_options *o, struct lk_model_config *c)
{
    c->name = o->model;
    c->layers = (int)o->layers;
    c->heads = (int)o->heads;
    c->channels = (int)o->channels;
    c->context = (int)o->context;
    c->vocab = (int)o->vocab;
    c->seed = (uint64_t)o->seed;
    c->job = o->job;
}

static const char *comm_name(const struct run_options *o, int world_size)
{
    if (o->comm != RUN_COMM_AUTO)
        return run_comms[o->comm];
    if (world_size == 1)
        return "self";
    return strcmp(run_devices[o->device], "cuda") != 0 ? "tcp" : "nccl";
}

static struct lk_nccl_options nccl_options(const struct run_options *o)
{
    struct lk_nccl_options n = {.min_ctas = (int)o->nccl_min_ctas,
                                .max_ctas = (int)o->nccl_max_ctas,
                                .cga_cluster = (int)o->nccl_cga,
                                .register_buffers = o->nccl_register};

    if (o->share_gpu)
        share_gpu_limit(&n);
    return n;
}

enum lk_status run_options_train(const struct run_options *o, int rank, int world_size,
                                 int local_rank, struct lk_train_config *out)
{
    static const enum lk_train_graph graphs[] = {
        [RUN_AUTO] = LK_GRAPH_AUTO, [RUN_YES] = LK_GRAPH_YES, [RUN_NO] = LK_GRAPH_NO};
    struct lk_train_config c = {
        .device = run_devices[o->device],
        .comm = comm_name(o, world_size),
        .device_config = {.real = o->dtype ? LK_BF16 : LK_F32,
                          .local_rank = local_rank,
                          .share_gpu = o->share_gpu,
                          .hang_ns = lk_ns_from_s(o->timeout_s),
                          .timed_flops = o->timed_flops,
                          .timed_Bps = o->timed_Bps},
        .comm_config = {.rank = rank,
                        .world_size = world_size,
                        .fault = o->fault,
                        .nccl = nccl_options(o)},
        .local_batch = (int)o->local_batch,
        .steps = o->steps,
        .warmup_steps = o->warmup,
        .data = o->data,
        .samples = o->samples,
        .prefetch = (int)o->prefetch,
        .input_delay_s = o->input_delay_s,
        .shuffle = o->shuffle,
        .drop_last = o->drop_last,
        .seed = (uint64_t)o->seed,
        .graph = graphs[o->graph],
        .verify = o->verify,
        .verify_steps = (int)o->verify_steps,
        .export_path = o->export_path,
        .import_path = o->import_path,
        .timeout_ns = lk_ns_from_s(o->timeout_s),
    };
    enum lk_status st = slowdown(o->slow_rank, rank, &c.device_config.slowdown);

    if (st != LK_OK)
        return st;
    fill_model(o, &c.model);
    fill_optimizer(o, &c.optim);
    fill_reducer(o, &c.reducer);
    *out = c;
    return LK_OK;
}
