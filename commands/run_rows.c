/* The option tables of run and replay. */
#include "commands/run_options.h"

#include "base/bounds.h"
#include "base/words.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "kernels/ops.h"
#include "runtime/comm/comm_fault.h"

#include <stddef.h>
#include <stdio.h>

static const char *const optimizers[] = {LK_OPTIM_LIST(LK_WORD_NAME) NULL};
static const char *const ddp_rules[] = {LK_DDP_RULE_LIST(LK_WORD_NAME) NULL};
static const char *const algorithms[] = {LK_ALGO_LIST(LK_WORD_NAME) NULL};
static const char *const plants[] = {LK_PLANT_LIST(LK_WORD_NAME) NULL};
const char *const run_devices[] = {
#define ROW(device, name) name,
    LK_DEVICE_LIST(ROW)
#undef ROW
        NULL};
static const char *const dtypes[] = {"float32", "bfloat16", NULL};
const char *const run_comms[] = {[RUN_COMM_AUTO] = "auto",
#define ROW(comm, name) name,
                                 LK_COMM_LIST(ROW)
#undef ROW
                                     NULL};
const char *const run_switches[] = {[RUN_AUTO] = "auto", [RUN_YES] = "yes", [RUN_NO] = "no", NULL};

void lk_command_backends(FILE *out)
{
    fputs("devices:", out);
    for (size_t i = 0; run_devices[i]; i++)
        if (lk_device_built(run_devices[i]))
            fprintf(out, " %s", run_devices[i]);
    fputs("\ncollectives:", out);
    for (size_t i = 0; run_comms[i]; i++)
        if (lk_comm_built(run_comms[i]))
            fprintf(out, " %s", run_comms[i]);
    fprintf(out, " fault\nmath: %s; vector instructions: %s\n", lk_kernels_blas(),
            lk_kernels_vectors());
}

#define FIELD(f) .offset = offsetof(struct run_options, f)

/* clang-format off */

/* Rows of both commands. */
#define ROW_RANKS \
    .name = "ranks", .letter = 'n', .type = LK_OPT_INT, FIELD(ranks), .min = 1, .max = 1024, \
    .help = "ranks to start here (1 when not given)"
#define ROW_STEPS \
    .name = "steps", .type = LK_OPT_INT, FIELD(steps), .min = 1, .max = 1e9, .fallback = "50", \
    .help = "optimizer steps that count"
#define ROW_WARMUP \
    .name = "warmup", .type = LK_OPT_INT, FIELD(warmup), .min = 0, .max = 1e9, .fallback = "5", \
    .help = "optimizer steps before them, recorded and left out of statistics"
#define ROW_SYNC_EVERY \
    .name = "sync-every", .type = LK_OPT_FLAG, FIELD(sync_every), .fallback = "no", \
    .help = "all-reduce after every micro-batch instead of the last (DDP without no_sync)"
#define ROW_SCALING \
    .name = "scaling", .type = LK_OPT_INTS, FIELD(scaling), .min = 1, .max = 1024, \
    .help = "measure at each of these numbers of ranks"
#define ROW_STRONG \
    .name = "strong", .type = LK_OPT_FLAG, FIELD(strong), .fallback = "no", \
    .help = "keep the global batch of the smallest number of ranks, not the local batch"
#define ROW_LOCAL_BATCHES \
    .name = "local-batches", .type = LK_OPT_INTS, FIELD(local_batches), .min = 1, .max = 1e6, \
    .help = "measure each of these local batches, at the smallest number of ranks"
#define ROW_REPETITIONS \
    .name = "repetitions", .letter = 'r', .type = LK_OPT_INT, FIELD(repetitions), .min = 1, \
    .max = 1000, .help = "runs of every configuration, interleaved (1; 3 with --scaling or --local-batches)"
#define ROW_INPUT_DELAY \
    .name = "input-delay", .type = LK_OPT_TIME, FIELD(input_delay_s), .min = 0, .max = 3600, \
    .fallback = "0s", .help = "least time that a batch takes to prepare"
#define ROW_ALGORITHM \
    .name = "algorithm", .type = LK_OPT_CHOICE, FIELD(algorithm), .choices = algorithms, \
    .fallback = "auto", .help = "algorithm of the all-reduce"
#define ROW_COMM \
    .name = "comm", .type = LK_OPT_CHOICE, FIELD(comm), .choices = run_comms, .fallback = "auto", \
    .help = "collectives; auto: self for one rank, else nccl on GPUs and tcp elsewhere"
#define ROW_PIN \
    .name = "pin", .type = LK_OPT_FLAG, FIELD(pin), .fallback = "yes", \
    .help = "bind each rank to a CPU, where there are enough (not with --device=cuda)"
#define ROW_TIMEOUT \
    .name = "timeout", .type = LK_OPT_TIME, FIELD(timeout_s), .min = 0.1, .max = 1e6, \
    .fallback = "60s", .help = "longest wait for another rank; a step may take twice that"
#define ROW_OUT \
    .name = "out", .letter = 'o', .type = LK_OPT_FILE, FIELD(out), \
    .help = "run directory, new or empty (runs/MODEL-TIME when not given)"
#define ROW_TRACE \
    .name = "trace", .type = LK_OPT_FLAG, FIELD(trace), .fallback = "yes", \
    .help = "record spans, write traces and job.json"
#define ROW_NVTX \
    .name = "nvtx", .type = LK_OPT_CHOICE, FIELD(nvtx), .choices = run_switches, \
    .fallback = "auto", .help = "NVTX ranges; auto: when run by a tool such as nsys profile"
#define ROW_GPU_RECORDS \
    .name = "gpu-records", .type = LK_OPT_CHOICE, FIELD(gpu_records), .choices = run_switches, \
    .fallback = "auto", .help = "record kernels and copies by CUPTI; auto: where it can be used"
#define ROW_GPU_STATE \
    .name = "gpu-state", .type = LK_OPT_CHOICE, FIELD(gpu_state), .choices = run_switches, \
    .fallback = "auto", \
    .help = "record clock, power and throttling of GPUs by NVML; auto: on a GPU, with the trace"
#define ROW_FAULT \
    .name = "fault", .type = LK_OPT_TEXT, FIELD(fault), \
    .help = "fail, delay or slow chosen collectives (docs/run.md)"
#define ROW_LOCAL_BATCH \
    .name = "local-batch", .letter = 'b', .type = LK_OPT_INT, FIELD(local_batch), .min = 1, \
    .max = 1e6
#define ROW_ACCUMULATION \
    .name = "accumulation", .letter = 'a', .type = LK_OPT_INT, FIELD(accumulation), .min = 1, \
    .max = LK_ACCUMULATION_MAX
#define ROW_BUCKET_CAP \
    .name = "bucket-cap", .type = LK_OPT_SIZE, FIELD(bucket_cap), .min = 1, .max = 1e15
#define ROW_FIRST_BUCKET \
    .name = "first-bucket", .type = LK_OPT_SIZE, FIELD(first_bucket), .min = 1, .max = 1e15
#define ROW_SLOW_RANK \
    .name = "slow-rank", .type = LK_OPT_TEXT, FIELD(slow_rank)

const struct lk_option run_option_rows[] = {
    {ROW_RANKS, .group = "job"},
    {ROW_STEPS},
    {ROW_WARMUP},
    {ROW_LOCAL_BATCH, .fallback = "8", .help = "samples a rank and micro-batch"},
    {ROW_ACCUMULATION, .fallback = "1", .help = "micro-batches an optimizer step"},
    {ROW_SYNC_EVERY},
    {.name = "seed", .type = LK_OPT_INT, FIELD(seed), .min = 0, .max = 9e15, .fallback = "1",
     .help = "seed of weights, shuffling and synthetic data"},
    {ROW_SCALING, .group = "run grid"},
    {ROW_STRONG},
    {ROW_LOCAL_BATCHES},
    {ROW_REPETITIONS},
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
     .fallback = "2", .help = "batches prepared ahead; 0: each step prepares its own"},
    {.name = "shuffle", .type = LK_OPT_FLAG, FIELD(shuffle), .fallback = "yes",
     .help = "shuffle every epoch"},
    {.name = "drop-last", .type = LK_OPT_FLAG, FIELD(drop_last), .fallback = "no",
     .help = "leave out samples that do not divide by the ranks, instead of repeating some"},
    {ROW_INPUT_DELAY},
    {.name = "optimizer", .type = LK_OPT_CHOICE, FIELD(optimizer), .group = "optimizer",
     .choices = optimizers, .fallback = "adamw", .help = "update rule"},
    {.name = "learning-rate", .type = LK_OPT_REAL, FIELD(learning_rate), .min = 0, .max = 100,
     .fallback = "0.001", .help = "learning rate after the warm-up, at the reference batch"},
    {.name = "lr-warmup", .type = LK_OPT_INT, FIELD(lr_warmup), .min = 0, .max = 1e9,
     .fallback = "0", .help = "steps over which the learning rate grows linearly"},
    {.name = "reference-batch", .type = LK_OPT_INT, FIELD(reference_batch), .min = 0, .max = 1e9,
     .fallback = "0", .help = "linear scaling: rate times global batch over this; 0: off"},
    {.name = "momentum", .type = LK_OPT_REAL, FIELD(momentum), .min = 0, .max = 1,
     .fallback = "0.9", .help = "momentum of sgd"},
    {.name = "beta1", .type = LK_OPT_REAL, FIELD(beta1), .min = 0, .max = 1, .fallback = "0.9",
     .help = "decay of adamw's first moment"},
    {.name = "beta2", .type = LK_OPT_REAL, FIELD(beta2), .min = 0, .max = 1, .fallback = "0.95",
     .help = "decay of adamw's second moment"},
    {.name = "epsilon", .type = LK_OPT_REAL, FIELD(epsilon), .min = 0, .max = 1,
     .fallback = "1e-8", .help = "constant that adamw adds to its denominator"},
    {.name = "weight-decay", .type = LK_OPT_REAL, FIELD(weight_decay), .min = 0, .max = 10,
     .fallback = "0.1", .help = "weight decay of matrices; biases and norms have none"},
    {.name = "ddp-rule", .type = LK_OPT_CHOICE, FIELD(ddp_rule), .group = "DDP",
     .choices = ddp_rules, .fallback = "torch-2.x", .help = "DDP version whose rule buckets the first step"},
    {ROW_BUCKET_CAP, .fallback = "25MiB", .help = "gradient bytes that close a bucket"},
    {ROW_FIRST_BUCKET, .help = "gradient bytes that close the first bucket (1MiB; torch-2.x with another cap: the cap)"},
    {ROW_ALGORITHM},
    {.name = "noise-every", .type = LK_OPT_INT, FIELD(noise_every), .min = 0, .max = 1e9,
     .fallback = "0", .help = "steps between measurements of the gradient noise scale; 0: never"},
    {.name = "device", .type = LK_OPT_CHOICE, FIELD(device), .group = "machine",
     .choices = run_devices, .fallback = "cpu",
     .help = "what computes: processors, GPUs (docs/gpu.md); timed waits instead"},
    {.name = "dtype", .type = LK_OPT_CHOICE, FIELD(dtype), .choices = dtypes, .fallback = "float32",
     .help = "type of weights, activations and gradients; bfloat16 needs --device=cuda, sums in float32"},
    {ROW_COMM},
    {.name = "nccl-min-ctas", .type = LK_OPT_INT, FIELD(nccl_min_ctas), .min = 1, .max = 64,
     .help = "fewest thread blocks of a collective, each on an SM of its own (NCCL's choice)"},
    {.name = "nccl-max-ctas", .type = LK_OPT_INT, FIELD(nccl_max_ctas), .min = 1, .max = 64,
     .help = "most thread blocks of a collective (NCCL's choice; 2 with --share-gpu)"},
    {.name = "nccl-cga", .type = LK_OPT_INT, FIELD(nccl_cga), .min = 1, .max = 8,
     .help = "thread blocks of a cluster (NCCL's choice)"},
    {.name = "nccl-register", .type = LK_OPT_FLAG, FIELD(nccl_register), .fallback = "no",
     .help = "keep gradients in memory that NCCL allocates and registers"},
    {.name = "share-gpu", .type = LK_OPT_FLAG, FIELD(share_gpu), .fallback = "no",
     .help = "let ranks share a GPU, for tests: the times then mean nothing"},
    {.name = "graph", .type = LK_OPT_CHOICE, FIELD(graph), .choices = run_switches,
     .fallback = "auto",
     .help = "forward, backward and all-reduce as one CUDA graph; auto: where it can be (--no-trace)"},
    {ROW_PIN},
    {ROW_TIMEOUT},
    {.name = "timed-flops", .type = LK_OPT_REAL, FIELD(timed_flops), .min = 1, .max = 1e18,
     .fallback = "1e12", .help = "flop/s of the timed device"},
    {.name = "timed-bandwidth", .type = LK_OPT_RATE, FIELD(timed_Bps), .min = 1, .max = 1e16,
     .fallback = "100GB/s", .help = "memory rate of the timed device"},
    {ROW_OUT, .group = "output"},
    {ROW_FORMAT(struct run_options)},
    {ROW_TRACE},
    {ROW_NVTX},
    {ROW_GPU_RECORDS},
    {ROW_GPU_STATE},
    {.name = "export", .type = LK_OPT_FILE, FIELD(export_path),
     .help = "write the weights here at the end"},
    {.name = "import", .type = LK_OPT_FILE, FIELD(import_path),
     .help = "start from these weights"},
    {ROW_LOG(struct run_options)},
    {.name = "verify", .type = LK_OPT_FLAG, FIELD(verify), .group = "testing", .fallback = "no",
     .help = "compare every step with one rank in double precision on the global batch"},
    {.name = "verify-steps", .type = LK_OPT_INT, FIELD(verify_steps), .min = 0, .max = 1e9,
     .fallback = "0", .help = "verify only this many steps; 0: all"},
    {.name = "plant", .type = LK_OPT_CHOICE, FIELD(plant), .choices = plants, .fallback = "none",
     .help = "do one thing wrong on purpose, for --verify to find"},
    {ROW_FAULT},
    {ROW_SLOW_RANK, .help = "RANK:FACTOR, a rank that computes that much slower (timed device)"},
    {0}};

/* Options without a default are 0: the job then gives the value. */
const struct lk_option replay_option_rows[] = {
    {ROW_RANKS, .group = "job"},
    {ROW_STEPS},
    {ROW_WARMUP},
    {ROW_LOCAL_BATCH, .help = "samples a rank and micro-batch (the job's usual)"},
    {ROW_ACCUMULATION, .help = "micro-batches an optimizer step (the job's)"},
    {ROW_SYNC_EVERY},

    {ROW_SCALING, .group = "run grid"},
    {ROW_STRONG},
    {ROW_LOCAL_BATCHES},
    {ROW_REPETITIONS},

    {ROW_INPUT_DELAY, .group = "data"},

    {ROW_BUCKET_CAP, .group = "DDP", .help = "gradient bytes that close a bucket (the job's)"},
    {ROW_FIRST_BUCKET, .help = "gradient bytes that close the first bucket (the job's; by its rule with --bucket-cap)"},
    {ROW_ALGORITHM},

    {ROW_COMM, .group = "machine"},
    {ROW_PIN},
    {ROW_TIMEOUT},

    {ROW_OUT, .group = "output"},
    {ROW_FORMAT(struct run_options)},
    {ROW_TRACE},
    {ROW_NVTX},
    {ROW_LOG(struct run_options)},

    {ROW_FAULT, .group = "testing"},
    {ROW_SLOW_RANK, .help = "RANK:FACTOR, a rank that computes that much slower"},
    {0}};
/* clang-format on */
