/*
 * Record what NCCL's proxy sends over networks, by the rank that it goes to: bytes, and the time in
 * which at least one message was on its way. Both come from NCCL's proxy steps, of which it tells
 * if LOCKSTEP_PROFILE_LINKS is set. A step that waits for its GPU's data or for the receiver's
 * buffer is not on its way; with NCCL's socket transport, which has no credits, a receiver that
 * does not read makes it so.
 *
 * An operation that ends while no message is on its way writes LK_FOREIGN_SENT for its link:
 * what was sent since the link's last record. So a collective has one record a peer, or, where its
 * channels end apart, a few.
 *
 * A handle means a link, of an operation or a step: NCCL's proxy has one thread, so that counting
 * what is on its way is enough. Calls from several threads, late or twice make a link's numbers
 * wrong, and nothing else.
 */
#ifndef LK_PRELOAD_NCCL_LINKS_H
#define LK_PRELOAD_NCCL_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LK_NCCL_LINKS = 1 << 12
}; /* of all communicators that there were; more are counted as lost */

/* Return whether the user asks for links. */
bool lk_nccl_links_on(void);
/* Return a handle with the tag of the link from a communicator, by its handle and its group, to a
 * peer; NULL: there is no room (counted). */
void *lk_nccl_link(const void *comm, uint32_t group, int peer, uint8_t tag);
/* A message is on its way; it is delivered; an operation has ended. */
void lk_nccl_link_sends(const void *link, size_t bytes);
void lk_nccl_link_sent(const void *link);
void lk_nccl_link_ends(const void *link);

#endif
