/*
 * The trace artefact: what one rank did, as Chrome/Kineto trace JSON, gzipped. Perfetto,
 * chrome://tracing and HTA open it as it is. One writer (profiler/ turns span files into traces;
 * sim/ writes simulated ones), one reader.
 *
 * Tracks are (pid = rank, tid = number of the track, from 1; HTA takes stream 0 for no stream).
 * "ts" and "dur" are microseconds with exactly three decimals, relative to baseTimeNanoseconds,
 * which is the same on all ranks. Kinds of spans and what they become (base/span.h):
 *
 *   STEP                         "ProfilerStep#N", cat user_annotation
 *   INPUT, SYNC                  ranges on the host's tracks
 *   KERNEL, COPY, MEMSET,        cat kernel, gpu_memcpy and gpu_memset with args.device, stream,
 *   COLLECTIVE                   correlation ("Memcpy", "Memset", "nccl:NAME")
 *   FORWARD, BACKWARD, OPTIMIZER ranges on a compute track; where no track of that stream has
 *                                KERNEL (a coarse simulation), they are its kernels
 *   OVERHEAD                     cat overhead, a range on the host's tracks
 *   GRADIENT                     ph i, named after the tensor
 *   COUNTER                      ph C
 *
 * Tracks of one kind and stream number show one stream: a GPU's records are on a track of their
 * own. Where a comm stream has KERNEL spans, COLLECTIVE is cat gpu_user_annotation, as it is in
 * PyTorch's traces, and the kernels are the work.
 *
 * A collective has Kineto's args "Collective name", "In msg nelems", "Out msg nelems", "Group
 * size", "dtype", "Seq" and is called "nccl:NAME" (without a name: nccl:all_reduce) whatever
 * carried it, because that is how HTA and others know communication; distributedInfo.backend and
 * args.lk_backend say what did.
 *
 * What is ours alone: the top-level object "lockstep" (struct lk_run_info, clock, tracks, names)
 * and keys that start with "lk_" (in args; of counters in the event, since viewers plot their
 * args). Synthetic, that is not measured: a launch (cat cuda_runtime, args.lk_synthetic) for each
 * kernel, copy and collective, without which HTA assigns them to no step. It lies at the span's
 * start, moved into the span's step.
 *
 * Writing and reading a trace gives the same spans, to the ns.
 */
#ifndef LK_BASE_TRACE_H
#define LK_BASE_TRACE_H

#include "base/bucket.h"
#include "base/clockfit.h"
#include "base/json.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One gradient tensor, in registration order. */
struct lk_run_tensor {
    char *name;
    uint64_t elems;
    enum lk_dtype dtype; /* on the wire */
};

struct lk_run_pair {
    char *key, *value;
};

/* What a run was: the effective configuration, for a reader years later. All strings owned. */
struct lk_run_info {
    char *run_id; /* the same on all ranks of a run */
    int rank, world_size, local_rank, nodes;
    char *host;        /* host name */
    char *device;      /* "cpu", "timed", or the GPU's name */
    char *comm;        /* "self", "tcp", ... */
    char *model;       /* e.g. "gpt-nano" */
    char *sample_unit; /* e.g. "sequence of 64 tokens" */
    int local_batch;   /* samples a micro-batch and rank */
    int accumulation;  /* micro-batches an optimizer step */
    bool no_sync;      /* all-reduce only after the last micro-batch */
    bool simulated;    /* written by sim/ */
    enum lk_ddp_rule ddp_rule;
    uint64_t first_bytes, cap_bytes; /* bucket limits */
    uint64_t warmup_steps;           /* steps 0..warmup-1 are marked and left out of statistics */
    uint64_t steps;                  /* asked for */
    double flops_per_sample;         /* forward and backward; NaN: unknown */
    struct lk_run_tensor *tensors;
    size_t n_tensors;
    struct lk_run_pair *config; /* every option, tool version, seed, allowed environment */
    size_t n_config;
};
void lk_run_info_fini(struct lk_run_info *i);
enum lk_status lk_run_info_copy(struct lk_run_info *to, const struct lk_run_info *from);
enum lk_status lk_run_info_config(struct lk_run_info *i, const char *key, const char *value);
/* The value of a key of config, or NULL. */
const char *lk_run_info_value(const struct lk_run_info *i, const char *key);
/* Ranks took turns on a GPU (--share-gpu): no time of the run means anything. */
bool lk_run_info_shared_gpu(const struct lk_run_info *i);
/* As a JSON object. NULL texts become "". Reading checks ranges: see base/bounds.h. */
void lk_run_info_write(struct lk_json_out *o, const char *key, const struct lk_run_info *i);
enum lk_status lk_run_info_read(struct lk_json *obj, struct lk_run_info *out);

/* "host", "compute", "comm", "loader". */
const char *lk_track_kind_name(enum lk_track_kind kind);
enum lk_status lk_track_kind_from_name(const char *name, enum lk_track_kind *out); /* LK_EPARSE */

struct lk_trace_track {
    char *name;
    enum lk_track_kind kind;
    int stream;
};

struct lk_trace_span {
    struct lk_span span;
    uint32_t track;
};

struct lk_trace {
    struct lk_run_info info;
    uint64_t base_epoch_ns; /* wall clock at local time base_local_ns */
    uint64_t base_local_ns;
    struct lk_clock_fit clock; /* local to rank 0's time; written, not yet applied to the spans */
    bool truncated;            /* the rank was killed or stopped early */
    uint64_t dropped;          /* spans lost to a full ring */
    char *failure;             /* why it stopped, or NULL */
    struct lk_trace_track *tracks;
    size_t n_tracks;
    char **names; /* names[id - 1] */
    size_t n_names;
    struct lk_trace_span *spans; /* by start_ns, ties by order of emission */
    size_t n_spans;
};
void lk_trace_fini(struct lk_trace *t); /* zeroes it; safe on a zeroed trace */

/* The name a span shows: its own, else its kind's. */
const char *lk_trace_span_name(const struct lk_trace *t, const struct lk_span *s);

/* Writes one rank's trace (gzip when the path ends in .gz). Atomic. Times before base_local_ns are
 * fine. LK_EINTERNAL for a span of an unknown kind, track or name, or that ends before it starts.
 */
enum lk_status lk_trace_write(const char *path, const struct lk_trace *t);
/*
 * Writes several ranks into one file on rank 0's clock, that is the first trace's base with every
 * rank's clock fit applied. Same schema, distributedInfo of the first. pre: n > 0.
 */
enum lk_status lk_trace_write_merged(const char *path, const struct lk_trace *traces, size_t n);
/*
 * Reads a trace written by lk_trace_write. Events that are not ours are left out. LK_EPARSE names
 * file, line and key; a merged file is refused. Streams: memory is the spans kept.
 */
enum lk_status lk_trace_read(const char *path, struct lk_trace *out);
/*
 * Reads a single or a merged trace; *out freed by lk_traces_free. Of a merged file the spans, bases
 * and clocks are on rank 0's clock; each keeps the uncertainty of its fit.
 */
enum lk_status lk_trace_read_merged(const char *path, struct lk_trace **out, size_t *out_n);
/*
 * Reads DIR/rank%d.trace.json.gz, sorted by rank; *out freed by lk_traces_free. LK_EIO when there
 * is none, LK_EPARSE when they are of different runs.
 */
enum lk_status lk_traces_read(const char *dir, struct lk_trace **out, size_t *out_n);
void lk_traces_free(struct lk_trace *traces, size_t n); /* NULL is legal */

#endif
