/*
 * Rendezvous: a small TCP key-value store, and the channel on which a run fails together.
 *
 * One process serves (the launcher, or rank 0 under torchrun-style variables); every rank keeps one
 * connection. Keys are set once; readers wait for them. When a rank's connection ends without a
 * goodbye, a rank reports a failure, or the launcher sees a rank die, the server pushes one verdict
 * to all ranks: which rank failed, and where. Collectives poll this connection beside their own
 * sockets, so every rank stops with the same message within the timeout. Reports that arrive after
 * a rank's connection has ended are taken for a consequence of that.
 *
 * A verdict has one text, the same on all ranks, and a status: LK_ETIMEOUT for a stall, LK_EPEER
 * for everything else. It is final: the first one wins, and every later call on the store returns
 * it.
 *
 * Any thread may call the functions of a connection except lk_store_close, several at a time: the
 * thread that reads hands replies and the verdict to those that wait for them.
 *
 * The culprit of a stall is found as follows: on the first report of a timeout the server asks
 * every rank for the last collective it entered; ranks inside a collective answer from their poll
 * loop. The verdict names the ranks that do not answer within the grace time, else those that are
 * furthest behind.
 */
#ifndef LK_RUNTIME_STORE_H
#define LK_RUNTIME_STORE_H

#include "base/clock.h"
#include "base/clockfit.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_ticket;
struct lk_store_server;
/*
 * Serve on host:port in a thread; port 0 takes a free one. LK_EIO names a port in use. Who does not
 * prove to have the ticket (NULL: an empty one) is refused; without a secret, so is every process
 * of this host that another user started.
 */
enum lk_status lk_store_serve(const char *host, int port, int world_size,
                              const struct lk_ticket *ticket, struct lk_store_server **out);
int lk_store_server_port(const struct lk_store_server *s);
/* Report a rank's death, for the launcher; how: e.g. "was killed by signal 9". Pushes the
 * verdict. */
void lk_store_server_rank_died(struct lk_store_server *s, int rank, const char *how);
/* End the run for another reason, for the launcher; text: e.g. "stopped by signal 2
 * (Interrupt)". */
void lk_store_server_fail(struct lk_store_server *s, const char *text);
/* Copy the run's verdict into buf. Return false while there is none. */
bool lk_store_server_verdict(struct lk_store_server *s, char *buf, size_t size);
/*
 * Copy the text that a rank set by lk_store_set_text. LK_EPEER: no rank set it, or not all of it.
 * This does not wait: the launcher asks after the ranks have ended, and a set is acknowledged. The
 * caller frees *out.
 */
enum lk_status lk_store_server_text(struct lk_store_server *s, const char *key, char **out,
                                    size_t *out_size);
/* Stop and free; NULL is legal. Wait up to linger_ns for ranks that have not said goodbye, because
 * the serving rank may be the first to finish. */
void lk_store_server_stop(struct lk_store_server *s, uint64_t linger_ns);

struct lk_store;
/* Connect, retrying until the timeout (the server may not be up yet). timeout_ns also bounds every
 * later wait. LK_EUSAGE: the server refuses this rank, or does not prove to have the ticket (NULL:
 * an empty one). */
enum lk_status lk_store_connect(const char *host, int port, int rank, int world_size,
                                uint64_t timeout_ns, const struct lk_ticket *ticket,
                                struct lk_store **out);
/* As lk_store_connect, to whichever of n ports serves this job. */
enum lk_status lk_store_find(const char *host, const int *ports, int n, int rank, int world_size,
                             uint64_t timeout_ns, const struct lk_ticket *ticket,
                             struct lk_store **out);
/* Say goodbye and close; NULL is legal. */
void lk_store_close(struct lk_store *s);

enum lk_status lk_store_set(struct lk_store *s, const char *key, const void *value, size_t size);
/* Set a text of any size, in parts with keys of their own (store_wire.h). Each part has the
 * timeout. */
enum lk_status lk_store_set_text(struct lk_store *s, const char *key, const char *text,
                                 size_t size);
/* Wait for the key. The caller frees *out. LK_ETIMEOUT names the key. */
enum lk_status lk_store_get(struct lk_store *s, const char *key, void **out, size_t *out_size);
/* Wait until all ranks have entered the barrier. LK_ETIMEOUT names those that never arrived; that
 * is the run's verdict. */
enum lk_status lk_store_barrier(struct lk_store *s, const char *name);

/* As lk_store_barrier, and *out_equal says whether all ranks brought the same sum. */
enum lk_status lk_store_agree(struct lk_store *s, const char *name, const uint64_t sum[2],
                              bool *out_equal);

/* Return the connection's descriptor for poll loops, readable when there is a message. */
int lk_store_fd(const struct lk_store *s);
/* Handle messages that have arrived, without waiting: answer a progress question, and return the
 * verdict once there is one. */
enum lk_status lk_store_check(struct lk_store *s);
/* Record entry to or exit from collective `seq`, for the server's question which rank is behind. */
void lk_store_progress(struct lk_store *s, uint64_t seq, bool entered);
/* Report that this rank failed (text says how), or for LK_ETIMEOUT that it gave up waiting. Wait
 * for the verdict and return it; where text has the verdict and says more, as the collective in
 * which the rank heard it, the error is text. */
enum lk_status lk_store_report(struct lk_store *s, enum lk_status why, const char *text);
/* Report that the connection to rank `peer` broke. Wait for the verdict and return it. */
enum lk_status lk_store_report_peer(struct lk_store *s, int peer, const char *text);
/* End the run with this text, which blames nobody or says itself who is to blame. Wait for the
 * verdict and return it. */
enum lk_status lk_store_report_all(struct lk_store *s, const char *text);

/* Prove to another rank to belong to the run, in LK_PROOF_BYTES bytes (lk_ticket_prove, with a
 * random number that all ranks of this run share added to the data). */
void lk_store_prove(const struct lk_store *s, const char *label, const void *data, size_t n,
                    unsigned char *out);
/* Return a number for something that all ranks make in the same order: 0, 1, 2, ... */
uint64_t lk_store_next_id(struct lk_store *s);

/* Measure n round trips to the server's clock, for base/clockfit.h. */
enum lk_status lk_store_clock(struct lk_store *s, size_t n, struct lk_clock_sample *out);

#endif
