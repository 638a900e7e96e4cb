/*
 * The NVTX sink: emit spans as NVTX ranges for the tool that runs this program (Nsight Systems,
 * Nsight Compute, CUPTI). It records nothing: the tool takes the times.
 *
 *     LK_TRY(lk_nvtx_open(&nvtx));
 *     LK_TRY(lk_recorder_attach(recorder, &lk_nvtx_ops, nvtx));
 *
 * Ranges are pushed and popped, in the domain "lockstep", by the thread that issues the work
 * (lk_sink_ops.enter). GPU work launched meanwhile belongs to them, so that tools can project them
 * onto the GPU's time.
 *
 *   range                   payload            pushed by
 *   step                    step               the host thread
 *   input                   micro-batch        the host thread, while it waits
 *   prepare batch           micro-batch        the loader's thread
 *   forward, backward       micro-batch        the thread that drives the compute stream
 *   bucket I                bytes              the host thread: all its work for a bucket once its
 *                                              turn has come, the collective's range included
 *   optimizer               step               ...
 *   NAME of an op           step               ...
 *   all_reduce bucket I     bytes              the thread that drives the comm stream
 *   broadcast, ...          bytes              ...
 *
 * The host thread drives a stream on cuda, the stream's own thread on cpu and timed. The names are
 * registered when the sink is opened, when a name is added or when a track opens: pushing is a call
 * with a filled struct, and neither locks nor allocates here; the tool may do either.
 *
 * NVTX 3 is headers only. Without a tool its first call looks at NVTX_INJECTION64_PATH and turns
 * every other one into a test of a null pointer (nvtx3/nvtxDetail/nvtxInit.h); this sink is not
 * attached then.
 */
#ifndef LK_PROFILER_RECORD_NVTX_H
#define LK_PROFILER_RECORD_NVTX_H

#include "base/status.h"
#include "facts/span.h"

struct lk_nvtx;

/* Buckets with a name of their own; later ones are called "bucket 256 or later". */
enum { LK_NVTX_BUCKETS = 256 };

/* Return the library that a tool named in NVTX_INJECTION64_PATH, or NULL. A tool that has injected
 * itself in another way names none: lk_nvtx_open says whether there is one. */
const char *lk_nvtx_tool(void);

/*
 * Make the domain, its categories and names, and name the calling thread "host". LK_EUNSUPPORTED:
 * this build has no NVTX, there is no tool, or the library it named cannot be used.
 */
enum lk_status lk_nvtx_open(struct lk_nvtx **out);
/* The sink's table: attach it with the struct lk_nvtx as sink. */
extern const struct lk_sink_ops lk_nvtx_ops;
/* Close the sink. NULL is legal. pre: nothing is emitted any more. */
void lk_nvtx_close(struct lk_nvtx *n);

#endif
