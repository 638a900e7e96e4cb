#include "commands/run_options.h"

#include "base/array.h"
#include "base/units.h"
#include "reports/print.h"
#include "runtime/comm_fault.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const optimizers[] = {
#define ROW(optimizer, name) [optimizer] = name,
    LK_OPTIM_LIST(ROW)
#undef ROW
        NULL};
static const char *const ddp_rules[] = {
#define ROW(rule, name, help) [rule] = name,
    LK_DDP_RULE_LIST(ROW)
#undef ROW
        NULL};
static const char *const algorithms[] = {
#define ROW(algo, name) [algo] = name,
    LK_ALGO_LIST(ROW)
#undef ROW
        NULL};
static const char *const plants[] = {
#define ROW(plant, name, text) [plant] = name,
    LK_PLANT_LIST(ROW)
#undef ROW
        NULL};
enum { DEVICE_CPU, DEVICE_TIMED };
static const char *const devices[] = {[DEVICE_CPU] = "cpu", [DEVICE_TIMED] = "timed", NULL};
enum { COMM_AUTO, COMM_SELF, COMM_TCP };
static const char *const comms[] = {
    [COMM_AUTO] = "auto", [COMM_SELF] = "self", [COMM_TCP] = "tcp", NULL};

#define FIELD(f) .offset = offsetof(struct run_options, f)

/* clang-format off */
const struct lk_option run_option_rows[] = {
    {.name = "ranks", .letter = 'n', .type = LK_OPT_INT, FIELD(ranks), .min = 1, .max = 1024,
     .group = "job", .help = "ranks to start here (1 when not given)"},
    {.name = "steps", .type = LK_OPT_INT, FIELD(steps), .min = 1, .max = 1e9, .fallback = "50",
     .help = "optimizer steps that count"},
    {.name = "warmup", .type = LK_OPT_INT, FIELD(warmup), .min = 0, .max = 1e9, .fallback = "5",
     .help = "optimizer steps before them, recorded and left out of statistics"},
    {.name = "local-batch", .letter = 'b', .type = LK_OPT_INT, FIELD(local_batch), .min = 1,
     .max = 1e6, .fallback = "8", .help = "samples a rank and micro-batch"},
    {.name = "accumulation", .letter = 'a', .type = LK_OPT_INT, FIELD(accumulation), .min = 1,
     .max = 1e5, .fallback = "1", .help = "micro-batches an optimizer step"},
    {.name = "sync-every", .type = LK_OPT_FLAG, FIELD(sync_every), .fallback = "no",
     .help = "all-reduce after every micro-batch instead of the last (DDP without no_sync)"},
    {.name = "seed", .type = LK_OPT_INT, FIELD(seed), .min = 0, .max = 9e15, .fallback = "1",
     .help = "of weights, shuffling and synthetic data"},

    {.name = "scaling", .type = LK_OPT_INTS, FIELD(scaling), .min = 1, .max = 1024,
     .group = "sweep", .help = "measure at each of these numbers of ranks"},
    {.name = "strong", .type = LK_OPT_FLAG, FIELD(strong), .fallback = "no",
     .help = "keep the global batch of the smallest number of ranks, not the local batch"},
    {.name = "local-batches", .type = LK_OPT_INTS, FIELD(local_batches), .min = 1, .max = 1e6,
     .help = "measure each of these local batches, at the smallest number of ranks"},
    {.name = "repetitions", .letter = 'r', .type = LK_OPT_INT, FIELD(repetitions), .min = 1,
     .max = 1000, .help = "runs of every point, interleaved (3 in a sweep, else 1)"},

    {.name = "model", .type = LK_OPT_TEXT, FIELD(model), .group = "model", .fallback = "gpt-nano",
     .help = "gpt, mlp, replay or a preset such as gpt-nano or gpt2-124m"},
    {.name = "layers", .type = LK_OPT_INT, FIELD(layers), .min = 1, .max = 1000,
     .help = "layers, instead of the preset's"},
    {.name = "heads", .type = LK_OPT_INT, FIELD(heads), .min = 1, .max = 1000,
     .help = "attention heads, instead of the preset's"},
    {.name = "channels", .type = LK_OPT_INT, FIELD(channels), .min = 1, .max = 1e6,
     .help = "width, instead of the preset's"},
    {.name = "context", .type = LK_OPT_INT, FIELD(context), .min = 1, .max = 1e6,
     .help = "tokens a sample, instead of the preset's"},
    {.name = "vocab", .type = LK_OPT_INT, FIELD(vocab), .min = 2, .max = 1e7,
     .help = "vocabulary, instead of the preset's"},
    {.name = "job", .type = LK_OPT_FILE, FIELD(job), .help = "job.json of the model replay"},

    {.name = "data", .type = LK_OPT_FILE, FIELD(data), .group = "data",
     .help = "train on the bytes of this file (synthetic tokens when not given)"},
    {.name = "samples", .type = LK_OPT_INT, FIELD(samples), .min = 1, .max = 1e12,
     .fallback = "65536", .help = "samples of the synthetic data"},
    {.name = "prefetch", .type = LK_OPT_INT, FIELD(prefetch), .min = 0, .max = 1000,
     .fallback = "2", .help = "batches prepared ahead; 0: by the step itself"},
    {.name = "shuffle", .type = LK_OPT_FLAG, FIELD(shuffle), .fallback = "yes",
     .help = "shuffle every epoch"},
    {.name = "drop-last", .type = LK_OPT_FLAG, FIELD(drop_last), .fallback = "no",
     .help = "leave out samples that do not divide by the ranks, instead of repeating some"},
    {.name = "input-delay", .type = LK_OPT_TIME, FIELD(input_delay_s), .min = 0, .max = 3600,
     .fallback = "0s", .help = "a batch takes at least this long to prepare"},

    {.name = "optimizer", .type = LK_OPT_CHOICE, FIELD(optimizer), .group = "optimizer",
     .choices = optimizers, .fallback = "adamw", .help = "update rule"},
    {.name = "learning-rate", .type = LK_OPT_REAL, FIELD(learning_rate), .min = 0, .max = 100,
     .fallback = "0.001", .help = "after the warm-up, at the reference batch"},
    {.name = "lr-warmup", .type = LK_OPT_INT, FIELD(lr_warmup), .min = 0, .max = 1e9,
     .fallback = "0", .help = "steps over which the learning rate grows linearly"},
    {.name = "reference-batch", .type = LK_OPT_INT, FIELD(reference_batch), .min = 0, .max = 1e9,
     .fallback = "0", .help = "linear scaling: rate times global batch over this; 0: off"},
    {.name = "momentum", .type = LK_OPT_REAL, FIELD(momentum), .min = 0, .max = 1,
     .fallback = "0.9", .help = "of sgd"},
    {.name = "beta1", .type = LK_OPT_REAL, FIELD(beta1), .min = 0, .max = 1, .fallback = "0.9",
     .help = "of adamw"},
    {.name = "beta2", .type = LK_OPT_REAL, FIELD(beta2), .min = 0, .max = 1, .fallback = "0.95",
     .help = "of adamw"},
    {.name = "epsilon", .type = LK_OPT_REAL, FIELD(epsilon), .min = 0, .max = 1,
     .fallback = "1e-8", .help = "of adamw"},
    {.name = "weight-decay", .type = LK_OPT_REAL, FIELD(weight_decay), .min = 0, .max = 10,
     .fallback = "0.1", .help = "of matrices, not of biases and norms"},

    {.name = "ddp-rule", .type = LK_OPT_CHOICE, FIELD(ddp_rule), .group = "DDP",
     .choices = ddp_rules, .fallback = "torch-2.x", .help = "whose bucketing in the first step"},
    {.name = "bucket-cap", .type = LK_OPT_SIZE, FIELD(bucket_cap), .min = 1, .max = 1e15,
     .fallback = "25MiB", .help = "gradient bytes that close a bucket"},
    {.name = "first-bucket", .type = LK_OPT_SIZE, FIELD(first_bucket), .min = 1, .max = 1e15,
     .help = "the same of the first bucket (1MiB; torch-2.x with another cap: the cap)"},
    {.name = "algorithm", .type = LK_OPT_CHOICE, FIELD(algorithm), .choices = algorithms,
     .fallback = "auto", .help = "of the all-reduce"},
    {.name = "noise-every", .type = LK_OPT_INT, FIELD(noise_every), .min = 0, .max = 1e9,
     .fallback = "0", .help = "steps between measurements of the gradient noise scale; 0: never"},

    {.name = "device", .type = LK_OPT_CHOICE, FIELD(device), .group = "machine",
     .choices = devices, .fallback = "cpu", .help = "what computes; timed waits instead"},
    {.name = "comm", .type = LK_OPT_CHOICE, FIELD(comm), .choices = comms, .fallback = "auto",
     .help = "collectives; auto: self for one rank, else tcp"},
    {.name = "pin", .type = LK_OPT_FLAG, FIELD(pin), .fallback = "yes",
     .help = "bind each rank to a CPU, where there are enough"},
    {.name = "timeout", .type = LK_OPT_TIME, FIELD(timeout_s), .min = 0.1, .max = 1e6,
     .fallback = "60s", .help = "longest wait for another rank; a step may take twice that"},
    {.name = "timed-flops", .type = LK_OPT_REAL, FIELD(timed_flops), .min = 1, .max = 1e18,
     .fallback = "1e12", .help = "flop/s of the timed device"},
    {.name = "timed-bandwidth", .type = LK_OPT_RATE, FIELD(timed_Bps), .min = 1, .max = 1e16,
     .fallback = "100GB/s", .help = "memory rate of the timed device"},

    {.name = "out", .letter = 'o', .type = LK_OPT_FILE, FIELD(out), .group = "output",
     .help = "run directory, new or empty (runs/MODEL-TIME when not given)"},
    {.name = "format", .type = LK_OPT_CHOICE, FIELD(format), .choices = lk_format_names,
     .fallback = "text", .help = "of the summary on standard output"},
    {.name = "trace", .type = LK_OPT_FLAG, FIELD(trace), .fallback = "yes",
     .help = "record spans, write traces and job.json"},
    {.name = "export", .type = LK_OPT_FILE, FIELD(export_path),
     .help = "write the weights here at the end"},
    {.name = "import", .type = LK_OPT_FILE, FIELD(import_path),
     .help = "start from these weights"},
    {.name = "log", .type = LK_OPT_TEXT, FIELD(log),
     .help = "log level: info, or comm=debug,train=info, ..."},

    {.name = "verify", .type = LK_OPT_FLAG, FIELD(verify), .group = "testing", .fallback = "no",
     .help = "compare every step with one rank in double precision on the global batch"},
    {.name = "verify-steps", .type = LK_OPT_INT, FIELD(verify_steps), .min = 0, .max = 1e9,
     .fallback = "0", .help = "verify only this many steps; 0: all"},
    {.name = "plant", .type = LK_OPT_CHOICE, FIELD(plant), .choices = plants, .fallback = "none",
     .help = "do one thing wrong on purpose, for --verify to find"},
    {.name = "fault", .type = LK_OPT_TEXT, FIELD(fault),
     .help = "fail, delay or slow chosen collectives (docs/run.md)"},
    {.name = "slow-rank", .type = LK_OPT_TEXT, FIELD(slow_rank),
     .help = "RANK:FACTOR, a rank that computes that much slower (timed device)"},
    {0}};
/* clang-format on */

/* "RANK:FACTOR". */
static enum lk_status parse_slow_rank(const char *text, int64_t *out_rank, double *out_factor)
{
    enum lk_status st = LK_OK;
    const char *colon = strchr(text, ':');
    char *head = NULL;
    int64_t rank;
    double factor;

    if (!colon)
        return lk_fail(LK_EUSAGE, "--slow-rank=%s: expected RANK:FACTOR", text);
    LK_TRY(lk_strndup(&head, text, (size_t)(colon - text)));
    LK_TRY(lk_parse_int64(head, 0, 1023, &rank));
    LK_TRY(lk_parse_double(colon + 1, &factor));
    if (factor <= 0 || factor > 1000) {
        st = lk_fail(LK_EUSAGE, "the factor must be above 0, and at most 1000");
        goto out;
    }
    *out_rank = rank;
    *out_factor = factor;
out:
    free(head);
    return lk_fail_context(st, "--slow-rank=%s", text);
}

/* A rank's factor: 1 for all but the slow one. */
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

static bool sweeps(const struct run_options *o)
{
    return o->scaling.n > 0 || o->local_batches.n > 0;
}

/*
 * Rows of conflict: when both are so, the run makes no sense, or it would ignore what was asked
 * for. d has the defaults: what differs from them was given.
 */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): a table, read row by row */
static enum lk_status check(const struct run_options *o, const struct run_options *d)
{
    bool replay = !strcmp(o->model, "replay");
    bool timed = o->device == DEVICE_TIMED;
    bool sgd = o->optimizer == LK_OPTIM_SGD;
    bool adamw = o->optimizer == LK_OPTIM_ADAMW;
    enum lk_status st;
    double factor;
    const struct {
        bool wrong;
        const char *why;
    } rows[] = {
        {o->ranks && o->scaling.n,                               "--ranks and --scaling exclude each other"             },
        {o->strong && !o->scaling.n,                             "--strong needs --scaling"                             },
        {o->strong && o->local_batches.n,                        "--strong and --local-batches exclude each other"      },
        {o->comm == COMM_SELF && (o->ranks > 1 || o->scaling.n),
         "--comm=self is for one rank; --ranks or --scaling asks for more"                                              },
        {replay && !o->job,                                      "--model=replay needs --job"                           },
        {!replay && o->job,                                      "--job is for --model=replay"                          },
        {replay && !timed,                                       "--model=replay needs --device=timed"                  },
        {replay && o->verify,                                    "--verify: a replayed job computes nothing to verify"  },
        {timed && o->verify,                                     "--verify: the timed device computes nothing to verify"},
        {timed && (o->export_path || o->import_path),
         "--export and --import: the timed device computes no weights"                                                  },
        {o->slow_rank && !timed,                                 "--slow-rank needs --device=timed"                     },
        {o->timed_flops != d->timed_flops && !timed,             "--timed-flops needs --device=timed"                   },
        {o->timed_Bps != d->timed_Bps && !timed,                 "--timed-bandwidth needs --device=timed"               },
        {o->noise_every != d->noise_every && timed,
         "--noise-every: the timed device computes no gradients to measure"                                             },
        {o->momentum != d->momentum && adamw,                    "--momentum is for --optimizer=sgd"                    },
        {o->beta1 != d->beta1 && sgd,                            "--beta1 is for --optimizer=adamw"                     },
        {o->beta2 != d->beta2 && sgd,                            "--beta2 is for --optimizer=adamw"                     },
        {o->epsilon != d->epsilon && sgd,                        "--epsilon is for --optimizer=adamw"                   },
        {o->samples != d->samples && o->data,                    "--samples is for synthetic data, not for --data"      },
        {o->plant != d->plant && !o->verify,                     "--plant needs --verify, which is to find it"          },
        {o->verify_steps && !o->verify,                          "--verify-steps needs --verify"                        },
        {sweeps(o) && o->export_path,                            "--export is for a single run, not a sweep"            },
        {o->repetitions > 1 && o->export_path,                   "--export is for a single run, not repetitions"        },
        {o->learning_rate <= 0,                                  "--learning-rate must be above 0"                      },
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].wrong)
            return lk_fail(LK_EUSAGE, "%s", rows[i].why);
    st = slowdown(o->slow_rank, 0, &factor);
    return st == LK_OK ? run_options_check_fault(o, INT_MAX) : st;
}

static enum lk_status parse_defaults(struct run_options *out)
{
    int n_operands;

    return lk_option_parse(run_option_rows, out, 0, NULL, NULL, 0, &n_operands);
}

enum lk_status run_options_parse(int argc, char **argv, struct run_options *out)
{
    struct run_options defaults;
    enum lk_status st = LK_OK;
    int n_operands;

    LK_TRY(parse_defaults(&defaults));
    LK_TRY(lk_option_parse(run_option_rows, out, argc, argv, NULL, 0, &n_operands));
    LK_TRY(check(out, &defaults));
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
    free(faults);
    return LK_OK;
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
    size_t n = 0;

    LK_TRY(parse_defaults(&defaults));
    LK_TRY(lk_alloc(&argv, LK_COUNT(run_option_rows) + 2, sizeof *argv));
    LK_TRY(lk_strdup(&argv[n++], "lockstep"));
    LK_TRY(lk_strdup(&argv[n++], "run"));
    for (const struct lk_option *row = run_option_rows; row->name; row++) {
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

enum lk_status run_options_train(const struct run_options *o, int rank, int world_size,
                                 int local_rank, struct lk_train_config *out)
{
    struct lk_train_config c = {
        .device = devices[o->device],
        .comm = o->comm == COMM_AUTO ? (world_size == 1 ? "self" : "tcp") : comms[o->comm],
        .device_config = {.local_rank = local_rank,
                          .timed_flops = o->timed_flops,
                          .timed_Bps = o->timed_Bps                                            },
        .comm_config = {.rank = rank,             .world_size = world_size, .fault = o->fault},
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
