/* Options of run and replay; see the header. */
#include "commands/run_options.h"

#include "base/array.h"
#include "base/units.h"
#include "base/words.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/run_sharding.h"
#include "commands/share_gpu.h"
#include "facts/bounds.h"
#include "facts/job.h"
#include "kernels/ops.h"
#include "reports/whatif_module.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rows ---- */

static const char *const optimizers[] = {LK_OPTIM_LIST(LK_WORD_NAME) NULL};
static const char *const ddp_rules[] = {LK_DDP_RULE_LIST(LK_WORD_NAME) NULL};
static const char *const attentions[] = {LK_ATTENTION_LIST(LK_WORD_NAME) NULL};
#define NAME(value, name, ...) name,
static const char *const overlaps[] = {"auto", LK_OVERLAP_MODE_LIST(NAME) NULL};
static const char *const reductions[] = {"auto", LK_REDUCTION_LIST(NAME) NULL};
static const char *const shardings[] = {"auto", LK_SHARDING_LIST(NAME) NULL};
static const char *const compressions[] = {"auto", LK_COMPRESSION_LIST(NAME) NULL};
static const char *const lr_scalings[] = {LK_LR_SCALING_LIST(NAME) NULL};
#undef NAME
static const char *const plants[] = {LK_PLANT_LIST(LK_WORD_NAME) NULL};
/* A communicator of this program has these algorithms of the all-reduce; the others are NCCL's own,
 * and forecasts'. */
#define OFFERED(X)                                                                                 \
    X(LK_ALGO_AUTO, "auto")                                                                        \
    X(LK_ALGO_RING, "ring")                                                                        \
    X(LK_ALGO_TREE, "tree")                                                                        \
    X(LK_ALGO_HIERARCHICAL, "hierarchical")
#define NAME(type, name) name,
static const char *const algorithms[] = {OFFERED(NAME) NULL};
static const enum lk_algo offered[] = {OFFERED(LK_WORD_VALUE)};
#undef NAME
#define NAME(value, name) name,
const char *const run_devices[] = {LK_DEVICE_LIST(NAME) NULL};
const char *const run_comms[] = {[RUN_COMM_AUTO] = "auto", LK_COMM_LIST(NAME) NULL};
#undef NAME
static const char *const switches[] = {
    [RUN_AUTO] = "auto", [RUN_YES] = "yes", [RUN_NO] = "no", NULL};

void lk_command_backends(FILE *out)
{
    const char *missing = lk_whatif_module().missing;

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
    fprintf(out, "pages: %s%s\n", missing ? "no what-if. " : "what-if by WebAssembly",
            missing ? missing : "");
}

/* clang-format off */

/*
 * Options of run (RUN), of replay (REPLAY) and of both (BOTH; HEAD: the first one of its group that
 * replay has). A value of replay without a default is 0: the job then gives it.
 */
#define OPTIONS(RUN, REPLAY, BOTH, HEAD)                                                           \
    BOTH("ranks", ranks, INT, .letter = 'n', .group = "job", .min = 1, .max = 1024,                \
         .help = "ranks to start here (1 when not given; with --hosts all their slots)")           \
    BOTH("hosts", hosts, TEXT, .word = "HOST[:SLOTS],...",                                         \
         .help = "start the ranks on these hosts, by ssh, in this directory and with this file's path") \
    BOTH("ssh", ssh, TEXT, .word = "COMMAND",                                                      \
         .help = "command that runs another on the host named behind it (" RUN_SSH ")")            \
    BOTH("steps", train.steps, INT, .min = 1, .max = 1e9, .fallback = "50",                        \
         .help = "optimizer steps to measure")                                                     \
    BOTH("warmup", train.warmup_steps, INT, .min = 0, .max = 1e9, .fallback = "5",                 \
         .help = "optimizer steps that come first; recorded, but left out of the statistics")      \
    RUN("local-batch", local_batch, INTS, .letter = 'b', .min = 1, .max = 1e6, .fallback = "8",    \
        .help = "samples of a micro-batch on one rank; several numbers: of each rank (docs/ddp.md)") \
    REPLAY("local-batch", local_batch, INTS, .letter = 'b', .min = 1, .max = 1e6,                  \
           .help = "samples of a micro-batch on one rank (the job's usual); several numbers: of each rank") \
    RUN("accumulation", train.reducer.accumulation, INT, .letter = 'a', .min = 1, .max = LK_ACCUMULATION_MAX,    \
        .fallback = "1", .help = "micro-batches of an optimizer step")                             \
    REPLAY("accumulation", train.reducer.accumulation, INT, .letter = 'a', .min = 1, .max = LK_ACCUMULATION_MAX, \
           .help = "micro-batches of an optimizer step (the job's)")                               \
    BOTH("sync-every", sync_every, FLAG, .fallback = "no",                                         \
         .help = "all-reduce after every micro-batch instead of the last (DDP without no_sync)")   \
    RUN("broadcast-buffers", train.broadcast_buffers, FLAG, .fallback = "yes",                     \
        .help = "ranks take rank 0's running statistics of batch norms before a forward (DDP's broadcast_buffers)") \
    RUN("seed", seed, INT, .min = 0, .max = 9e15, .fallback = "1",                                 \
        .help = "seed of weights, shuffling and synthetic data")                                   \
    BOTH("scaling", scaling, INTS, .group = "run grid", .min = 1, .max = 1024,                     \
         .help = "measure at each of these numbers of ranks")                                      \
    BOTH("strong", strong, FLAG, .fallback = "no",                                                 \
         .help = "keep the global batch of the smallest number of ranks, not the local batch")     \
    BOTH("local-batches", local_batches, INTS, .min = 1, .max = 1e6,                               \
         .help = "measure each of these local batches, at the smallest number of ranks")           \
    BOTH("accumulations", accumulations, INTS, .min = 1, .max = LK_ACCUMULATION_MAX,               \
         .help = "measure each of these accumulations, at every number of ranks")                  \
    BOTH("bucket-caps", bucket_caps, SIZES, .min = 1, .max = 1e15, .least = LK_BUCKET_CAP_TENSOR,  \
         .help = "measure each of these bucket caps, at every number of ranks and accumulation")   \
    BOTH("repetitions", repetitions, INT, .letter = 'r', .min = 1, .max = 1000,                    \
         .help = "runs of every configuration, interleaved (1; 3 where several are measured)")     \
    RUN("model", train.model.name, TEXT, .group = "model", .fallback = "gpt-nano",                 \
        .help = "gpt, mlp, replay or a preset such as gpt-nano, gpt2-124m, resnet18 or vgg16")     \
    RUN("layers", train.model.layers, INT, .min = 1, .max = 1000, .help = "layers, instead of the preset's")   \
    RUN("heads", train.model.heads, INT, .min = 1, .max = 1000,                                                \
        .help = "attention heads, instead of the preset's")                                        \
    RUN("channels", train.model.channels, INT, .min = 1, .max = 1e6,                                           \
        .help = "width, instead of the preset's")                                                  \
    RUN("context", train.model.context, INT, .min = 1, .max = 1e6,                                             \
        .help = "tokens of a sample, instead of the preset's")                                     \
    RUN("vocab", train.model.vocab, INT, .min = 2, .max = 1e7,                                     \
        .help = "vocabulary, or classes of images, instead of the preset's")                       \
    RUN("image", train.model.image, INT, .min = 1, .max = 4096,                                    \
        .help = "height and width of an image, instead of the preset's; a resnet of up to 64 gets CIFAR's stem") \
    RUN("sync-batch-norm", train.model.sync_batch_norm, FLAG, .fallback = "no",                    \
        .help = "batch norms take the statistics of all ranks, as SyncBatchNorm")                  \
    RUN("colours", train.model.colours, INT, .min = 1, .max = 16,                                  \
        .help = "planes of an image, instead of the preset's 3")                                   \
    RUN("job", train.model.job, FILE, .role = LK_ROLE_INPUT, .help = "job.json of the model replay")                      \
    RUN("data", train.data, FILE, .role = LK_ROLE_INPUT, .group = "data",                                                 \
        .help = "train on this file (synthetic tokens or images when not given)")                  \
    RUN("data-format", train.data_format, CHOICE, .choices = lk_data_formats, .fallback = "auto",  \
        .help = "format of --data; auto: bytes for texts, CIFAR-10 or MNIST for images")           \
    RUN("samples", train.samples, INT, .min = 1, .max = 1e12, .fallback = "65536",                 \
        .help = "samples of the synthetic data")                                                   \
    RUN("prefetch", train.prefetch, INT, .min = 0, .max = 1000, .fallback = "2",                         \
        .help = "batches prepared ahead; 0: each step prepares its own")                           \
    RUN("workers", train.workers, INT, .min = 1, .max = 1000, .fallback = "1",                     \
        .help = "threads that prepare them; the data are the same with any number")                \
    RUN("shuffle", train.sampler.shuffle, FLAG, .fallback = "yes", .help = "shuffle every epoch")          \
    RUN("uneven", train.sampler.uneven, CHOICE, .choices = lk_unevens, .fallback = "auto",         \
        .help = "samples of an epoch that fill no batch of all ranks: an error (auto: not of synthetic data, where they are dropped); pad: repeat the first; drop: " \
                "leave out; join: ranks that ran out shadow the others' collectives (docs/ddp.md)") \
    RUN("drop-last", drop_last, FLAG, .fallback = "no", .help = "the same as --uneven=drop")       \
    RUN("join-divide", train.divide, CHOICE, .choices = lk_divides, .fallback = "initial",         \
        .help = "gradients while ranks have run out: by the initial or active ranks, or by samples") \
    RUN("rank-samples", rank_samples, INTS, .min = 1, .max = 1e12,                                 \
        .help = "--uneven=join: the most that each rank reads in an epoch, for ranks that run out early") \
    HEAD("data", "input-delay", train.input_delay_s, TIME, .min = 0, .max = 3600, .fallback = "0s", \
         .help = "minimum time to prepare a batch")                                       \
    RUN("optimizer", train.optim.kind, CHOICE, .group = "optimizer", .choices = optimizers,        \
        .fallback = "adamw", .help = "update rule")                                                \
    RUN("learning-rate", train.optim.learning_rate, REAL, .min = 0, .max = 100,                    \
        .fallback = "0.001", .help = "learning rate after the warm-up, at the reference batch")    \
    RUN("lr-warmup", lr_warmup, TEXT, .word = "STEPS|EPOCHSepoch", .fallback = "0",                \
        .help = "the learning rate grows linearly over this: steps, or epochs, as 0.5epoch")       \
    RUN("reference-batch", train.optim.reference_batch, INT, .min = 0, .max = 1e9,                 \
        .fallback = "0", .help = "global batch that --learning-rate is for; 0: any")               \
    RUN("lr-scaling", train.optim.scaling, CHOICE, .choices = lr_scalings, .fallback = "linear",   \
        .help = "the rate's factor: the global batch over --reference-batch (linear), its root, or none") \
    RUN("momentum", train.optim.momentum, REAL, .min = 0, .max = 1, .fallback = "0.9",             \
        .help = "momentum of sgd and lars")                                                        \
    RUN("beta1", train.optim.beta1, REAL, .min = 0, .max = 1, .fallback = "0.9",                   \
        .help = "decay of adamw's and lamb's first moment")                                        \
    RUN("beta2", train.optim.beta2, REAL, .min = 0, .max = 1, .fallback = "0.95",                  \
        .help = "decay of adamw's and lamb's second moment")                                       \
    RUN("epsilon", train.optim.eps, REAL, .min = 0, .max = 1, .fallback = "1e-8",                  \
        .help = "constant that adamw and lamb add to their denominator")                           \
    RUN("trust", train.optim.trust, REAL, .min = 0, .max = 10, .fallback = "0.001",                \
        .help = "lars: its trust coefficient, the share of a matrix's norm that a rate of 1 moves") \
    RUN("weight-decay", train.optim.weight_decay, REAL, .min = 0, .max = 10, .fallback = "0.1",    \
        .help = "weight decay of matrices; biases and norms have none")                            \
    RUN("clip-norm", train.clip_norm, REAL, .min = 0, .max = 1e9, .fallback = "0",                 \
        .help = "scale gradients down to this norm of all of them, where it is above; 0: never")   \
    RUN("ddp-rule", train.reducer.ddp_rule, CHOICE, .group = "DDP", .choices = ddp_rules,          \
        .fallback = "torch-2.x", .help = "DDP version whose rule buckets the first step")          \
    RUN("bucket-cap", train.reducer.cap_bytes, SIZE, .min = 1, .max = 1e15, .fallback = "25MiB",   \
        .least = LK_BUCKET_CAP_TENSOR,                                                             \
        .help = "gradient bytes that close a bucket, or tensor: each is a bucket")                 \
    REPLAY("bucket-cap", train.reducer.cap_bytes, SIZE, .group = "DDP", .min = 1, .max = 1e15,     \
           .least = LK_BUCKET_CAP_TENSOR,                                                          \
           .help = "gradient bytes that close a bucket, or tensor: each is a bucket (the job's)")  \
    RUN("first-bucket", first_bucket, SIZE, .min = 1, .max = 1e15,                                 \
        .help = "gradient bytes that close the first bucket (1MiB; torch-2.x with another cap: the cap)") \
    REPLAY("first-bucket", first_bucket, SIZE, .min = 1, .max = 1e15,                              \
           .help = "gradient bytes that close the first bucket (the job's; by its rule with --bucket-cap)") \
    BOTH("overlap", overlap, CHOICE, .choices = overlaps, .fallback = "auto",                       \
         .help = "of buckets with the backward: full; partial: one at a time, the backward waits for " \
                 "the one before; none: behind the backward; auto: full, in replay the job's")      \
    BOTH("compression", compression, CHOICE, .choices = compressions, .fallback = "auto",          \
         .help = "communication hook: fp16 and bf16 all-reduce gradients of two bytes, powersgd low-rank " \
                 "factors; auto: none, in replay the job's")                                       \
    RUN("powersgd-rank", train.hook.powersgd_rank, INT, .min = 1,                                  \
        .max = LK_POWERSGD_RANK_MAX, .fallback = "1", .help = "rank of powersgd's factors")        \
    REPLAY("powersgd-rank", train.hook.powersgd_rank, INT, .min = 1, .max = LK_POWERSGD_RANK_MAX,  \
           .help = "rank of powersgd's factors (the job's, or 1)")                                 \
    BOTH("powersgd-start", train.hook.powersgd_start, INT, .min = 2, .max = 1e9,                   \
         .fallback = "10", .help = "first step that powersgd compresses; warm-up steps count")     \
    BOTH("powersgd-min-rate", train.hook.powersgd_min_rate, REAL, .min = 1e-6, .max = 1e6,         \
         .fallback = "2",                                                                          \
         .help = "powersgd compresses a matrix to fewer than its elements over this, or not at all") \
    BOTH("sharding", sharding, CHOICE, .choices = shardings, .fallback = "auto",                   \
         .help = "what ranks divide among them, or average (docs/ddp.md): ddp, zero1, zero2, zero3, " \
                 "shard-grad-op, hsdp, local-sgd, diloco; async: gradients are late; auto: ddp, in replay the job's") \
    RUN("data-parallel", train.model.replicas, INT, .min = 2, .max = 64,                           \
        .help = "devices, threads, of one process, as torch.nn.DataParallel: compare it with -nK") \
    BOTH("shard-group", train.reducer.shard_group, INT, .min = 1, .max = 1024,                     \
         .help = "hsdp: neighbouring ranks that share one copy of the model")                      \
    BOTH("reduce", reduce, CHOICE, .choices = reductions, .fallback = "auto",                      \
         .help = "micro-batches whose gradients are reduced: every, last, scatter (hsdp: all-reduced " \
                 "in the last, scattered in every); auto: as the sharding's library does, in replay " \
                 "as the job did")                                                                 \
    BOTH("staleness", train.reducer.staleness, INT, .min = 1, .max = LK_STALENESS_MAX,             \
         .help = "async: steps by which gradients are applied late (1; in replay the job's)")      \
    RUN("period", train.averaging.period, INT, .min = 1, .max = 1e9, .fallback = "1",              \
        .help = "local-sgd, diloco: steps from averaging to averaging")                            \
    REPLAY("period", train.averaging.period, INT, .min = 1, .max = 1e9,                            \
           .help = "local-sgd, diloco: steps from averaging to averaging (the job's, or 1)")       \
    RUN("averaging-warmup", train.averaging.warmup, INT, .min = 0, .max = 1e9, .fallback = "0",    \
        .help = "local-sgd, diloco: first steps, which all-reduce gradients as ddp does")          \
    RUN("outer-learning-rate", train.averaging.outer_rate, REAL, .min = 0, .max = 100,             \
        .fallback = "0.7", .help = "diloco: learning rate of the outer optimizer")                 \
    RUN("outer-momentum", train.averaging.outer_momentum, REAL, .min = 0, .max = 1,                \
        .fallback = "0.9", .help = "diloco: Nesterov momentum of the outer optimizer")             \
    BOTH("algorithm", algorithm, CHOICE, .choices = algorithms, .fallback = "auto",                 \
         .help = "of the all-reduce; hierarchical: rings inside hosts and between them; auto: by size, in replay the job's")                                                    \
    RUN("noise-every", train.reducer.noise_every, INT, .min = 0, .max = 1e9, .fallback = "0",                    \
        .help = "steps between measurements of the gradient noise scale; 0: never")                \
    RUN("check-every", train.check_every, INT, .min = 0, .max = 1e9, .fallback = "100",            \
        .help = "steps between comparisons of all ranks' parameters (docs/run.md); 0: never")      \
    RUN("device", device, CHOICE, .group = "machine", .choices = run_devices, .fallback = "cpu",   \
        .help = "device that computes: CPU or GPU (docs/gpu.md); timed: waits for the modelled time instead")              \
    RUN("dtype", dtype, CHOICE, .choices = run_dtypes, .fallback = "float32",                          \
        .help = "type of weights, activations and gradients; sums and the optimizer's weights are float32") \
    RUN("loss-scale", loss_scale, TEXT, .word = "WORD", .words = &lk_loss_scale_words, \
        .fallback = "auto",                                                                        \
        .help = "factor of the loss, taken out of gradients again: a number, dynamic (GradScaler's rule, from 65536 or START) or none; auto: dynamic with --dtype=float16") \
    RUN("growth-interval", train.scaler.growth_interval, INT, .min = 1, .max = 1e9, .fallback = "2000", \
        .help = "a dynamic loss scale doubles after so many steps without overflow")               \
    RUN("attention", train.device_config.attention, CHOICE, .choices = attentions,                 \
        .fallback = "auto",                                                                        \
        .help = "whose attention on a GPU; auto: cuDNN's where it has one (bfloat16), else own")   \
    RUN("fuse", fuse, TEXT, .word = "WORD,...", .words = &lk_fuse_words, .fallback = "auto",       \
        .help = "what a GPU does in fewer launches (docs/gpu.md); auto: all that is faster; none; or these alone") \
    RUN("deterministic", train.device_config.deterministic, FLAG, .fallback = "no",                \
        .help = "equal runs give equal bits on a GPU: cuDNN's attention in one order (more memory), nothing chosen by time") \
    HEAD("machine", "comm", comm, CHOICE, .choices = run_comms, .fallback = "auto",                \
         .help = "collectives; auto: self for one rank, else nccl on GPUs and tcp elsewhere; mpi: under mpirun or srun (docs/launchers.md)")      \
    RUN("nccl-min-ctas", train.comm_config.nccl.min_ctas, INT, .min = 1, .max = 64,                                  \
        .help = "fewest thread blocks of a collective, each on an SM of its own (NCCL's choice)")  \
    RUN("nccl-max-ctas", train.comm_config.nccl.max_ctas, INT, .min = 1, .max = 64,                                  \
        .help = "most thread blocks of a collective (NCCL's choice; 2 with --share-gpu)")          \
    RUN("nccl-cga", train.comm_config.nccl.cga_cluster, INT, .min = 1, .max = 8,                                             \
        .help = "thread blocks of a cluster (NCCL's choice)")                                      \
    RUN("nccl-register", train.comm_config.nccl.register_buffers, FLAG, .fallback = "no",          \
        .help = "keep gradients in memory that NCCL allocates and registers")                      \
    RUN("share-gpu", train.device_config.share_gpu, FLAG, .fallback = "no",                        \
        .help = "let ranks share a GPU, for tests; the times then mean nothing")                   \
    RUN("graph", graph, CHOICE, .choices = switches, .fallback = "auto",                           \
        .help = "launch a step as one CUDA graph; auto: where possible (--no-trace)") \
    BOTH("pin", pin, FLAG, .fallback = "yes",                                                      \
         .help = "bind each rank to a CPU if there are enough (not with --device=cuda, not with --hosts)")       \
    BOTH("timeout", timeout_s, TIME, .min = 0.1, .max = 1e6, .fallback = "60s",                    \
         .help = "longest wait for another rank; a step may take twice that")                      \
    BOTH(SECRET_FILE_OPTION)                                                                       \
    RUN("timed-flops", train.device_config.timed_flops, REAL, .min = 1, .max = 1e18,               \
        .fallback = "1e12", .help = "flop/s of the timed device")                                  \
    RUN("timed-bandwidth", train.device_config.timed_Bps, RATE, .min = 1, .max = 1e16,             \
        .fallback = "100GB/s", .help = "memory rate of the timed device")                          \
    BOTH("out", out, FILE, .role = LK_ROLE_FOLDER, .letter = 'o', .group = "output",                                       \
         .help = "run directory, new or empty (runs/MODEL-TIME when not given)")                   \
    BOTH(FORCE_OPTION)                                                                             \
    BOTH(PAGE_FORMAT_OPTION)                                                                       \
    BOTH(PAGE_TABLE_OPTION)                                                                        \
    BOTH(PAGE_VERBOSE_OPTION)                                                                      \
    BOTH(PAGE_QUIET_OPTION)                                                                        \
    BOTH("trace", trace, FLAG, .fallback = "yes",                                                  \
         .help = "record spans, write traces and job.json")                                        \
    BOTH("merged-trace", merged_trace, FLAG, .fallback = "no",                                     \
         .help = "also write one trace of all ranks, on one clock")                                \
    BOTH("nvtx", nvtx, CHOICE, .choices = switches, .fallback = "auto",                            \
         .help = "NVTX ranges; auto: when run by a tool such as nsys profile")                     \
    RUN("gpu-records", gpu_records, CHOICE, .choices = switches, .fallback = "auto",               \
        .help = "record kernels and copies by CUPTI; auto: where it can be used")                  \
    RUN("gpu-record-steps", gpu_record_steps, INT, .min = 0, .max = 1e9, .fallback = "20",         \
        .help = "record that many steps after the warm-up; 0: all")                                \
    RUN("gpu-state", gpu_state, CHOICE, .choices = switches, .fallback = "auto",                   \
        .help = "record clock, power and throttling of GPUs by NVML; auto: on a GPU, with the trace") \
    RUN("export", train.export_path, FILE, .role = LK_ROLE_OUTPUT, .help = "write the weights here at the end")            \
    RUN("import", train.import_path, FILE, .role = LK_ROLE_INPUT, .help = "start from these weights")                     \
    BOTH(LOG_OPTION)                                                                               \
    RUN("checkpoint-every", train.checkpoint.every, INT, .group = "checkpoints", .min = 0,         \
        .max = 1e9, .fallback = "0",                                                               \
        .help = "steps between checkpoints, from which a run goes on (docs/run.md); 0: none")      \
    RUN("checkpoint-dir", train.checkpoint.dir, FILE,                                              \
        .help = "folder of the checkpoints (checkpoints in the run directory)")                    \
    RUN("keep", train.checkpoint.keep, INT, .min = 1, .max = 1e6, .fallback = "2",                 \
        .help = "checkpoints to keep")                                                             \
    RUN("resume", train.checkpoint.resume, FILE, .role = LK_ROLE_INPUT,                            \
        .help = "go on from this checkpoint, or from the newest of this folder")                   \
    RUN("restart", restart, INT, .min = 0, .max = 1e6, .fallback = "0",                            \
        .help = "starts after failures of ranks, each from the last checkpoint")                   \
    RUN("verify", train.verify, FLAG, .group = "testing", .fallback = "no",                        \
        .help = "compare every step with one rank in double precision on the global batch")        \
    RUN("verify-steps", train.verify_steps, INT, .min = 0, .max = 1e9, .fallback = "0",                  \
        .help = "verify only this many steps; 0: all")                                             \
    RUN("plant", train.reducer.plant, CHOICE, .choices = plants, .fallback = "none",               \
        .help = "introduce one error on purpose, for --verify to find")                            \
    HEAD("testing", "fault", train.comm_config.fault, TEXT,                                        \
         .help = "fail, delay or slow chosen collectives (docs/run.md)")                           \
    RUN("slow-rank", slow_rank, TEXT,                                                              \
        .help = "RANK:FACTOR, a rank that computes that much slower (timed device)")               \
    REPLAY("slow-rank", slow_rank, TEXT,                                                           \
           .help = "RANK:FACTOR, a rank that computes that much slower")                           \
    REPLAY("gpu", gpu, TEXT, .role = LK_ROLE_CLUSTER,                                              \
           .help = "cluster or preset whose GPU all ranks have, or kinds in their order, "          \
                   "4xown+2xdgx-1-v100: each computes as long as predict says")                     \
    REPLAY("cluster", cluster, TEXT, .role = LK_ROLE_CLUSTER,                                      \
           .help = "with --gpu: the cluster or preset whose GPU the job's times are of")

#define IN(...)               ROW(struct run_options, __VA_ARGS__),
#define IN_HEAD(group_, ...)  ROW(struct run_options, __VA_ARGS__, .group = (group_)),
#define IN_PLAIN(group_, ...) ROW(struct run_options, __VA_ARGS__),
#define OUT(...)
const struct lk_option run_rows[] = {OPTIONS(IN, OUT, IN, IN_PLAIN) {0}};
const struct lk_option replay_rows[] = {OPTIONS(OUT, IN, IN, IN_HEAD) {0}};
/* clang-format on */

/* ---- Checks ---- */

/* Return true if a fusion was asked for by name that only a GPU has. */
static bool demands_fusion(const struct lk_fuse *f)
{
    for (size_t i = 0; i < LK_FUSE_COUNT; i++)
        if (i != LK_FUSE_OPTIMIZER && f->wish[i] == LK_FUSE_YES)
            return true;
    return false;
}

static struct run_sharding sharding_of(const struct run_options *o)
{
    return (struct run_sharding){o->sharding, o->reduce, o->train.reducer.shard_group,
                                 o->sync_every};
}

/*
 * Refuse options that conflict: the run would make no sense, or would ignore an option. d has the
 * defaults: a value that differs from them was given.
 */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): a table, read row by row */
static enum lk_status check(const struct run_options *o, const struct run_options *d)
{
    bool replay = !strcmp(o->train.model.name, "replay");
    bool timed = o->device == RUN_DEVICE_TIMED;
    bool cuda = !strcmp(run_devices[o->device], "cuda");
    bool of_nccl = o->train.comm_config.nccl.min_ctas || o->train.comm_config.nccl.max_ctas ||
                   o->train.comm_config.nccl.cga_cluster ||
                   o->train.comm_config.nccl.register_buffers;
    const struct run_sharding sharding = sharding_of(o);
    enum lk_status st;
    double factor;
    const struct {
        bool wrong;
        const char *why;
    } rows[] = {
        {o->ranks && o->scaling.n, "--ranks and --scaling exclude each other"},
        {o->strong && !o->scaling.n, "--strong needs --scaling"},
        {o->strong && o->local_batches.n, "--strong and --local-batches exclude each other"},
        {o->strong && o->accumulations.n, "--strong and --accumulations exclude each other"},
        {o->ssh && !o->hosts, "--ssh needs --hosts"},
        {o->comm == RUN_COMM_SELF && (o->ranks > 1 || o->scaling.n),
         "--comm=self is for one rank; --ranks or --scaling asks for more"},
        {o->comm == RUN_COMM_NCCL && !cuda, "--comm=nccl needs --device=cuda"},
        {(o->comm == RUN_COMM_TCP || o->comm == RUN_COMM_MPI) && cuda,
         "--comm=tcp and --comm=mpi need buffers in host memory, which --device=cuda has not; it "
         "takes nccl"},
        {of_nccl && (!cuda || o->comm == RUN_COMM_SELF), "--nccl-... options need --comm=nccl"},
        {of_nccl && o->ranks == 1 && o->comm == RUN_COMM_AUTO,
         "--nccl-... options need --comm=nccl or more ranks"},
        {o->train.comm_config.nccl.max_ctas &&
             o->train.comm_config.nccl.min_ctas > o->train.comm_config.nccl.max_ctas,
         "--nccl-min-ctas is above --nccl-max-ctas"},
        {o->algorithm != d->algorithm && cuda,
         "--algorithm: NCCL chooses; NCCL_ALGO=allreduce:ring in the environment forces one"},
        {o->train.device_config.share_gpu && !cuda, "--share-gpu needs --device=cuda"},
        {replay && !o->train.model.job, "--model=replay needs --job"},
        {!replay && o->train.model.job, "--job is for --model=replay"},
        {replay && !timed, "--model=replay needs --device=timed"},
        {replay && o->train.verify, "--verify: a replayed job computes nothing to verify"},
        {timed && o->train.verify, "--verify: the timed device computes nothing to verify"},
        {timed && (o->train.checkpoint.every || o->train.checkpoint.resume),
         "--checkpoint-every and --resume: the timed device computes no weights"},
        {o->train.checkpoint.resume && o->train.import_path,
         "--resume and --import exclude each other: a checkpoint has weights"},
        {(o->scaling.n || o->local_batches.n || o->repetitions > 1) &&
             (o->train.checkpoint.every || o->train.checkpoint.resume),
         "--checkpoint-every and --resume are for a single run"},
        {!o->train.checkpoint.every &&
             (o->train.checkpoint.dir || o->train.checkpoint.keep != d->train.checkpoint.keep),
         "--checkpoint-dir and --keep need --checkpoint-every"},
        {timed && (o->train.export_path || o->train.import_path),
         "--export and --import: the timed device computes no weights"},
        {o->train.device_config.attention != d->train.device_config.attention && !cuda,
         "--attention needs --device=cuda"},
        {demands_fusion(&o->train.fuse) && !cuda,
         "--fuse with another name than optimizer needs --device=cuda"},
        {lk_sharding_traits(run_sharding_scheme(&sharding))->pace == LK_PACE_BOUNDED && cuda,
         "--sharding=async is not built for --device=cuda"},
        {o->train.device_config.deterministic && !cuda, "--deterministic needs --device=cuda"},
        {o->slow_rank && !timed, "--slow-rank needs --device=timed"},
        {o->train.device_config.timed_flops != d->train.device_config.timed_flops && !timed,
         "--timed-flops needs --device=timed"},
        {o->train.device_config.timed_Bps != d->train.device_config.timed_Bps && !timed,
         "--timed-bandwidth needs --device=timed"},
        {o->train.reducer.noise_every != d->train.reducer.noise_every && timed,
         "--noise-every: the timed device computes no gradients to measure"},
        {o->train.samples != d->train.samples && o->train.data,
         "--samples is for synthetic data, not for --data"},
        {o->train.model.sync_batch_norm && strncmp(o->train.model.name, "resnet", 6) != 0,
         "--sync-batch-norm needs a resnet: the other models have no batch norms"},
        {o->train.data_format != d->train.data_format && !o->train.data,
         "--data-format is of --data, not of synthetic data"},
        {o->train.workers > o->train.prefetch && o->train.workers > 1,
         "--workers: more threads than --prefetch has batches"},
        {o->train.reducer.plant != d->train.reducer.plant && !o->train.verify,
         "--plant needs --verify, which is to find it"},
        {o->gpu_records == RUN_YES && !cuda, "--gpu-records=yes needs --device=cuda"},
        {o->gpu_state == RUN_YES && !cuda, "--gpu-state=yes needs --device=cuda"},
        {o->gpu_records == RUN_YES && !o->trace, "--gpu-records=yes needs --trace"},
        {o->merged_trace && !o->trace, "--merged-trace needs --trace"},
        {o->train.verify_steps && !o->train.verify, "--verify-steps needs --verify"},
        {(run_options_measure_several(o) || o->repetitions > 1) && o->train.export_path,
         "--export is for a single run, not for a run grid or repetitions"},
        {o->train.optim.learning_rate <= 0, "--learning-rate must be above 0"},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].wrong)
            return lk_fail(LK_EUSAGE, "%s", rows[i].why);
    LK_PASS(run_sharding_check(&sharding, &o->train, replay, o->comm == RUN_COMM_MPI));
    LK_PASS(run_options_check_scheme(o, d));
    LK_PASS(run_options_check_precision(o, d));
    LK_PASS(run_options_check_shares(o, d));
    st = run_options_slowdown(o, 0, &factor);
    return st == LK_OK ? run_options_check_fault(o, INT_MAX) : st;
}

/* Take from the job what the command line does not give. */
static enum lk_status take_from_job(struct run_options *o)
{
    struct run_sharding sharding;
    enum lk_status st = LK_OK;
    struct lk_job job = {0};

    LK_TRY(lk_job_read(o->train.model.job, &job));
    o->train.reducer.ddp_rule = job.ddp_rule;
    o->train.prefetch = job.prefetch_depth;
    sharding = sharding_of(o);
    run_sharding_take(&sharding, &job);
    o->sharding = sharding.scheme;
    o->reduce = sharding.reduce;
    o->train.reducer.shard_group = sharding.group;
    run_options_take_hook(&job, o);
    for (int i = 0; !o->algorithm && i < (int)LK_COUNT(offered); i++)
        o->algorithm = offered[i] == job.algo ? i : o->algorithm;
    if (!o->overlap)
        o->overlap = 1 + (int)job.overlap;
    if (!o->local_batch.n)
        o->local_batch = (struct lk_ints){.n = 1, .v = {lk_job_usual_batch(&job)}};
    if (!o->train.reducer.accumulation)
        o->train.reducer.accumulation = job.accumulation;
    if (!o->first_bucket &&
        (!o->train.reducer.cap_bytes || o->train.reducer.cap_bytes == job.cap_bytes))
        o->first_bucket = job.first_bytes;
    if (!o->train.reducer.cap_bytes)
        o->train.reducer.cap_bytes = job.cap_bytes;
out:
    lk_job_fini(&job);
    return st;
}

enum lk_status run_options_complete(const struct lk_command *c, const char *job,
                                    struct run_options *o)
{
    struct run_options defaults;
    int none;

    LK_PASS(lk_command_parse(c, 0, NULL, &defaults, NULL, &none));
    o->command = c;
    if (job) {
        o->train.model.name = "replay";
        o->device = RUN_DEVICE_TIMED;
        o->train.model.job = job;
    }
    if (o->fuse)
        LK_PASS(lk_fail_context(lk_fuse_parse(o->fuse, &o->train.fuse), "--fuse"));
    if (o->lr_warmup)
        LK_PASS(
            lk_fail_context(lk_optim_parse_warmup(o->lr_warmup, &o->train.optim), "--lr-warmup"));
    LK_PASS(run_options_parse_precision(o));
    LK_PASS(check(o, &defaults));
    if (o->comm != RUN_COMM_AUTO)
        LK_PASS(lk_fail_context(
            lk_comm_check_algo(run_comms[o->comm], LK_ALL_REDUCE, offered[o->algorithm]),
            "--algorithm"));
    if (job)
        LK_PASS(take_from_job(o));
    o->train.sampler.uneven = o->drop_last ? LK_UNEVEN_DROP : o->train.sampler.uneven;
    return LK_OK;
}

bool run_options_measure_several(const struct run_options *o)
{
    return o->scaling.n || o->local_batches.n || o->accumulations.n || o->bucket_caps.n;
}

uint64_t run_options_first_bucket(const struct run_options *o)
{
    if (o->first_bucket)
        return o->first_bucket;
    return lk_ddp_rule_first_bytes(o->train.reducer.ddp_rule, o->train.reducer.cap_bytes,
                                   o->train.reducer.cap_bytes != LK_BUCKET_CAP_BYTES);
}

/* ---- A rank's configuration ---- */

static const char *comm_name(const struct run_options *o, int world_size)
{
    if (o->comm != RUN_COMM_AUTO)
        return run_comms[o->comm];
    if (world_size == 1)
        return "self";
    return strcmp(run_devices[o->device], "cuda") != 0 ? "tcp" : "nccl";
}

enum lk_status run_options_train(const struct run_options *o, int rank, int world_size,
                                 int local_rank, struct lk_train_config *out)
{
    static const enum lk_train_graph graphs[] = {
        [RUN_AUTO] = LK_GRAPH_AUTO, [RUN_YES] = LK_GRAPH_YES, [RUN_NO] = LK_GRAPH_NO};
    const struct run_sharding sharding = sharding_of(o);
    struct lk_train_config c = o->train;

    LK_PASS(run_options_slowdown(o, rank, &c.device_config.slowdown));
    c.device = run_devices[o->device];
    c.device_config.real = run_options_dtype(o);
    c.device_config.local_rank = local_rank;
    c.device_config.hang_ns = c.timeout_ns = lk_ns_from_s(o->timeout_s);
    c.comm = comm_name(o, world_size);
    c.comm_config.rank = rank;
    c.comm_config.world_size = world_size;
    if (c.device_config.share_gpu)
        share_gpu_limit(&c.comm_config.nccl);
    c.model.seed = c.seed = (uint64_t)o->seed;
    c.reducer.first_bytes = run_options_first_bucket(o);
    run_options_fill_shares(o, rank, &c);
    run_sharding_fill(&sharding, &c.reducer);
    run_options_fill_hook(o, &c);
    c.reducer.algo = offered[o->algorithm];
    c.reducer.overlap = o->overlap ? (enum lk_overlap_mode)(o->overlap - 1) : LK_OVERLAP_MODE_FULL;
    c.graph = graphs[o->graph];
    *out = c;
    return LK_OK;
}
