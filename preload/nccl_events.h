/*
 * From NCCL's profiler events to records: the core under the tables of the interface's versions
 * (preload/nccl_versions.c).
 *
 * A collective, or a send or receive, gives
 *
 *   LK_FOREIGN_COLLECTIVE_CALL  from the call (from version 5 on; else, and in a CUDA graph, from
 * when NCCL hands its work over) until it is on its stream LK_FOREIGN_COLLECTIVE_GPU   with the
 * same link: from the first channel's start to the last one's end, by the GPU's clock; see
 * LK_FOREIGN_SEEN in facts/foreign_file.h
 *
 * The second one is written each time that all channels which have started have ended: how many
 * there are NCCL does not say reliably. Of several records of a link the longest is the whole one.
 * It is missing where NCCL runs no kernel (copy engines), or tells of none: when the process, or
 * from 2.31 on the communicator, ended before; and of the collectives of one symmetric kernel, of
 * all but the first. Their time is then unknown.
 *
 * What the proxy sends over networks is recorded by the link: preload/nccl_links.h.
 *
 * Callbacks come from any thread, late, twice, after stop and after finalize. So handles are
 * numbers (preload/handles.h) of places in fixed tables, and an event lives until its place is
 * needed again. Nothing here locks, allocates, calls CUDA, or keeps an address of NCCL's. What is
 * lost is counted by lk_foreign_lose.
 */
#ifndef LK_PRELOAD_NCCL_EVENTS_H
#define LK_PRELOAD_NCCL_EVENTS_H

#include "preload/nccl_abi.h"

/* Communicators at one time, calls and collectives that are remembered. A collective's GPU time is
 * lost if its kernel starts after as many later collectives were enqueued; a call's time, if it was
 * captured in a graph or grouped as long before. */
enum { LK_NCCL_COMMS = 1024, LK_NCCL_CALLS = 1 << 12, LK_NCCL_WORKS = 1 << 14 };

/* Begin a communicator, and ask NCCL for these types of events, and for the proxy's where links are
 * asked for (preload/nccl_links.h). Without a file, or a place
 * (counted), the context is NULL, and nothing is recorded. NCCL has one mask for all communicators,
 * which other threads read. */
int lk_nccl_init(void **context, int *mask, int types, uint64_t id, const char *name, int n_ranks,
                 int rank);

/* Take an event; return its handle, or NULL: it is of no use, or had no place (counted). The type
 * is passed beside the descriptor, since versions differ in its width. */
void *lk_nccl_start(void *context, uint64_t type, const struct nccl_descriptor *d);

/* The functions that are the same in the tables of all versions. */
int lk_nccl_stop_event(void *handle);
int lk_nccl_record_event_state(void *handle, int state, const union nccl_state *args);
int lk_nccl_finalize(void *context);

#endif
