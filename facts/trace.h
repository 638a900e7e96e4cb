/*
 * A trace artefact holds one rank's spans as Chrome/Kineto trace JSON, gzipped. Perfetto,
 * chrome://tracing and HTA open it. These functions write and read it, for profiler/, which turns
 * span files into traces, and for sim/, which writes simulated ones.
 *
 * Tracks are (pid = rank, tid = number of the track, from 1; HTA takes stream 0 for no stream).
 * "ts" and "dur" are microseconds with exactly three decimals, relative to baseTimeNanoseconds,
 * which is the same on all ranks. Kinds of spans and what they become (facts/span.h):
 *
 *   STEP                         "ProfilerStep#N", cat user_annotation
 *   INPUT, SYNC                  ranges on the host's tracks
 *   KERNEL, COPY, MEMSET,        cat kernel, gpu_memcpy and gpu_memset with args.device, stream,
 *   COLLECTIVE                   correlation ("Memcpy", "Memset", "nccl:NAME")
 *   FORWARD, BACKWARD, OPTIMIZER ranges on a compute or update track; where no track of that
 *                                stream has KERNEL (a coarse simulation), they are its kernels
 *   OVERHEAD                     cat overhead, a range on the host's tracks
 *   GRADIENT                     ph i, named after the tensor
 *   COUNTER                      ph C
 *
 * Tracks with the same kind and stream number belong to one stream: a GPU's records are on a track
 * of their own. Where a comm stream has KERNEL spans, COLLECTIVE is cat gpu_user_annotation, as it
 * is in PyTorch's traces, and the kernels are the work.
 *
 * A collective has Kineto's args "Collective name", "In msg nelems", "Out msg nelems", "Group
 * size", "dtype", "Seq" and is called "nccl:NAME" (without a name: nccl:all_reduce) whatever
 * backend ran it, because HTA and other tools recognise communication by this name;
 * distributedInfo.backend and args.lk_backend name the backend.
 *
 * Our own extensions are the top-level object "lockstep" (struct lk_run_info, clock, tracks, names)
 * and keys that start with "lk_" (in args; for counters in the event, since viewers plot their
 * args). One kind of event is synthetic, not measured: a launch (cat cuda_runtime,
 * args.lk_synthetic) for each kernel, copy and collective, without which HTA assigns them to no
 * step. It lies at the span's start, moved into the span's step.
 *
 * Writing and reading a trace gives the same spans, to the ns.
 */
#ifndef LK_FACTS_TRACE_H
#define LK_FACTS_TRACE_H

#include "base/clockfit.h"
#include "base/member.h"
#include "base/status.h"
#include "facts/bucket.h"
#include "facts/config.h"
#include "facts/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One gradient tensor, in registration order. */
struct lk_run_tensor {
    char *name;
    uint64_t elems;
    enum lk_dtype dtype; /* of the gradient */
    uint64_t rows;       /* first dimension of the parameter's matrix; 0: a vector, or not known */
};

/* The run's effective configuration, for a reader years later. All strings owned. */
struct lk_run_info {
    char *run_id; /* the same on all ranks of a run */
    int rank, world_size, local_rank, nodes;
    char *host;        /* host name */
    char *device;      /* "cpu", "timed", or the GPU's name */
    char *comm;        /* "self", "tcp", ... */
    char *model;       /* e.g. "gpt-nano" */
    char *sample_unit; /* e.g. "sequence of 64 tokens" */
    int local_batch;   /* samples a micro-batch and rank; of ranks whose batches differ, the most */
    char local_batches[LK_RANK_BATCHES_TEXT]; /* of those, as lk_config has them */
    int accumulation;                         /* micro-batches an optimizer step */
    bool no_sync;                             /* all-reduce only after the last micro-batch */
    enum lk_overlap_mode overlap;             /* that was asked for, of collectives with compute */
    enum lk_sharding sharding;                /* what ranks divide */
    int shard_group;        /* ranks that share one copy (LK_SHARERS_GROUP); 0: all */
    bool scatter;           /* without no_sync: groups all-reduce after the last micro-batch only */
    enum lk_algo algorithm; /* of the all-reduce, that was asked for */
    enum lk_compression compression; /* communication hook of gradients */
    int powersgd_rank;               /* POWERSGD: of the factors */
    int period;                      /* of schemes that average parameters: steps */
    int staleness;                   /* of LK_PACE_BOUNDED: steps that gradients are late */
    bool simulated;                  /* written by sim/ */
    enum lk_ddp_rule ddp_rule;
    uint64_t first_bytes, cap_bytes; /* bucket limits */
    uint64_t warmup_steps;           /* the first steps: marked and left out of statistics */
    uint64_t steps;                  /* steps asked for */
    double flops_per_sample;         /* flop, forward and backward; NaN: unknown */
    struct lk_run_tensor *tensors;
    size_t n_tensors;
    struct lk_pair *config; /* every option, tool version, seed, and the environment variables that
                               runs record */
    size_t n_config;
};
void lk_run_info_fini(struct lk_run_info *i); /* zeroes it; safe on a zeroed one */
/* Copy all of it, strings too; *to is overwritten, not freed first. */
enum lk_status lk_run_info_copy(struct lk_run_info *to, const struct lk_run_info *from);
/* Set a key of config: replace its value, or append the pair. Both texts are copied. */
enum lk_status lk_run_info_config(struct lk_run_info *i, const char *key, const char *value);
/* Return the value of a key of config, or NULL. */
const char *lk_run_info_value(const struct lk_run_info *i, const char *key);
/* Return the micro-batches of a step whose gradients are reduced. */
enum lk_reduction lk_run_info_reduction(const struct lk_run_info *i);
/* Return true if two runs have the same local batches. */
bool lk_run_info_same_batches(const struct lk_run_info *a, const struct lk_run_info *b);
/* Return the batches: the local batch, or those that differ. */
const char *lk_run_info_batches(const struct lk_run_info *i, char buf[16]);
/* Return the samples of a step of all ranks. */
double lk_run_info_samples(const struct lk_run_info *i);
/* Return true for ranks that compute on processors of their host, or only pretend to. */
bool lk_run_info_on_host(const struct lk_run_info *i);
extern const struct lk_record lk_run_info_record; /* of struct lk_run_info */

extern const struct lk_words lk_track_kind_words;

/* A line of the trace on which spans lie: a host thread, a stream, or a GPU's records of one. */
struct lk_trace_track {
    char *name; /* owned */
    enum lk_track_kind kind;
    int stream; /* number of the stream; tracks of equal kind and number are one stream */
};

struct lk_trace_span {
    struct lk_span span;
    uint32_t track; /* index into the trace's tracks */
};

/* One rank's trace; owns all strings and lists. */
struct lk_trace {
    struct lk_run_info info;
    uint64_t base_epoch_ns;    /* wall clock at local time base_local_ns */
    uint64_t base_local_ns;    /* this rank's clock (base/clock.h), as are the spans' times */
    struct lk_clock_fit clock; /* local to rank 0's time; written, not yet applied to the spans */
    bool truncated;            /* the rank was killed or stopped early */
    uint64_t dropped;          /* spans that the recorder lost because its ring buffer was full */
    char *failure;             /* why the rank stopped, or NULL */
    struct lk_trace_track *tracks;
    size_t n_tracks;
    char **names; /* a span's name is names[span.name - 1]; span.name 0: none */
    size_t n_names;
    struct lk_trace_span *spans; /* by start_ns, ties by order of emission */
    size_t n_spans;
};
void lk_trace_fini(struct lk_trace *t); /* zeroes it; safe on a zeroed trace */

/* Sort n spans by start; those that start together keep their order. It may free the array and put
 * a new one in *spans. */
enum lk_status lk_trace_sort_spans(struct lk_trace_span **spans, size_t n);

/* Return the name a span shows: its own, else its kind's. */
const char *lk_trace_span_name(const struct lk_trace *t, const struct lk_span *s);

/* Return true for a kernel of NCCL or RCCL, and for one whose name contains one of the patterns,
 * apart by commas; NULL: there are none. */
bool lk_is_communication(const char *name, const char *patterns);
/* Return true for a kernel of NCCL's, told by its name. */
bool lk_trace_is_nccl(const struct lk_trace *t, const struct lk_span *s);

/* Write one rank's trace (gzip when the path ends in .gz), the whole file or nothing. Times before
 * base_local_ns are legal. LK_EINTERNAL for a span of unknown kind, track or name, or of negative
 * duration. */
enum lk_status lk_trace_write(const char *path, const struct lk_trace *t);
/*
 * Write n ranks' traces into one file on rank 0's clock, that is the first trace's base with every
 * rank's clock fit applied. The file has the same schema, and the first trace's distributedInfo.
 * pre: n > 0.
 */
enum lk_status lk_trace_write_merged(const char *path, const struct lk_trace *traces, size_t n);
/*
 * Read a trace written by lk_trace_write; events that are not ours are left out. LK_EPARSE names
 * file, line and key; a merged file is refused. The reader streams: it keeps only the spans in
 * memory.
 */
enum lk_status lk_trace_read(const char *path, struct lk_trace *out);
/*
 * Read a single or a merged trace; free *out by lk_traces_free. Of a merged file the spans, bases
 * and clocks are on rank 0's clock; each keeps the uncertainty of its fit. Only tests use it, to
 * check what lk_trace_write_merged wrote.
 */
enum lk_status lk_trace_read_merged(const char *path, struct lk_trace **out, size_t *out_n);
/*
 * Read all DIR/rank%d.trace.json.gz, sorted by rank; free *out by lk_traces_free. LK_EIO when there
 * is none. That they are of one run is checked where they become one (profiler/analysis/run_set.h).
 */
enum lk_status lk_traces_read(const char *dir, struct lk_trace **out, size_t *out_n);
void lk_traces_free(struct lk_trace *traces, size_t n); /* NULL is legal */
void lk_traces_sort(struct lk_trace *traces, size_t n); /* by rank */

#endif
