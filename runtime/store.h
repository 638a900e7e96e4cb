/*
 * Rendezvous: a small TCP key-value store, and the channel on which a run fails together.
 *
 * One process serves (the launcher, or rank 0 under torchrun-style variables); every rank keeps one
 * connection. Keys are set once and waited for. When a rank's connection ends without a goodbye, a
 * rank reports a failure, or the launcher saw a rank die, the server pushes one verdict to all:
 * who failed and where. Collectives poll this connection beside their own sockets, so every rank
 * stops with the same message within the timeout. What ranks report once another's connection has
 * ended is taken for a consequence of that.
 *
 * A verdict has one text, the same on all ranks, and a status: LK_ETIMEOUT for a stall, LK_EPEER
 * for everything else. It is final: the first one wins, and every later call on the store returns
 * it.
 *
 * Any thread may call the functions of a connection but close, several at a time: whoever reads
 * hands replies and the verdict to those that wait for them.
 *
 * Who is the culprit of a stall: on the first report of a timeout the server asks every rank for
 * the last collective it entered; ranks inside a collective answer from their poll loop. Those that
 * do not answer within the grace time, else those that are furthest behind, are named.
 */
#ifndef LK_RUNTIME_STORE_H
#define LK_RUNTIME_STORE_H

#include "base/clock.h"
#include "base/clockfit.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_store_server;
/* Serves on host:port in a thread; port 0 takes a free one. LK_EIO names a port in use. */
enum lk_status lk_store_serve(const char *host, int port, int world_size,
                              struct lk_store_server **out);
int lk_store_server_port(const struct lk_store_server *s);
/* From the launcher: this rank is gone, e.g. "was killed by signal 9". Pushes the verdict. */
void lk_store_server_rank_died(struct lk_store_server *s, int rank, const char *how);
/* From the launcher: the run is over for another reason, e.g. "stopped by signal 2 (Interrupt)". */
void lk_store_server_fail(struct lk_store_server *s, const char *text);
/* Copies the verdict of the run into buf; false while there is none. */
bool lk_store_server_verdict(struct lk_store_server *s, char *buf, size_t size);
/*
 * Stops and frees; NULL is legal. Waits up to linger_ns for ranks that did not say goodbye yet: the
 * rank that serves may be the first to finish.
 */
void lk_store_server_stop(struct lk_store_server *s, uint64_t linger_ns);

struct lk_store;
/*
 * Connects, retrying until the timeout (the server may not be up yet). timeout_ns bounds every
 * later wait, too.
 */
enum lk_status lk_store_connect(const char *host, int port, int rank, int world_size,
                                uint64_t timeout_ns, struct lk_store **out);
/* Says goodbye and closes; NULL is legal. */
void lk_store_close(struct lk_store *s);

enum lk_status lk_store_set(struct lk_store *s, const char *key, const void *value, size_t size);
/* Waits for the key. *out is freed by the caller. LK_ETIMEOUT names the key. */
enum lk_status lk_store_get(struct lk_store *s, const char *key, void **out, size_t *out_size);
/*
 * Waits until all ranks are here. LK_ETIMEOUT names those that never arrived; that is the verdict
 * of the run.
 */
enum lk_status lk_store_barrier(struct lk_store *s, const char *name);

/* For poll loops: the connection's descriptor, readable when there is a message... */
int lk_store_fd(const struct lk_store *s);
/* ...and its handling: answers a progress question; the verdict once there is one. */
enum lk_status lk_store_check(struct lk_store *s);
/* What this rank is doing, for the desync report; on entry to and exit from a collective. */
void lk_store_progress(struct lk_store *s, uint64_t seq, bool entered);
/*
 * Reports that this rank failed (text says how), or for LK_ETIMEOUT that it gave up waiting; waits
 * for the verdict and returns it.
 */
enum lk_status lk_store_report(struct lk_store *s, enum lk_status why, const char *text);
/* Reports that the connection to rank `peer` broke; waits for the verdict and returns it. */
enum lk_status lk_store_report_peer(struct lk_store *s, int peer, const char *text);

/* A number that is the same on all ranks of the run and no other: refuses strangers. */
uint64_t lk_store_token(const struct lk_store *s);
/* Numbers things that all ranks make in the same order: 0, 1, 2, ... */
uint64_t lk_store_next_id(struct lk_store *s);

/* n round trips to the server's clock, for base/clockfit.h. */
enum lk_status lk_store_clock(struct lk_store *s, size_t n, struct lk_clock_sample *out);

#endif
