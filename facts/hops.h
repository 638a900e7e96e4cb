/*
 * TCP tells these numbers of the links that a rank sends on (TCP_INFO, Linux 4.10). The
 * communicator reads a connection before each collective of a ring, and records the differences to
 * the one before as counters of its stream, with the step, the rank at the other end as index, and
 * the collective's number as seq (runtime/comm/comm_tcp.h): what a ring leaves on its way is in the
 * counters of the next one. Connections within a host are not recorded:
 * no network carries them.
 *
 * Of NCCL's jobs the preload library records bytes and busy time of what its proxy sends
 * (preload/nccl_links.h); importers make the same counters of them.
 *
 * Bytes over busy time is the rate of the link while the sender had something to send, so a rank
 * that waits does not lower it.
 */
#ifndef LK_FACTS_HOPS_H
#define LK_FACTS_HOPS_H

#include "base/words.h"

/*
 * X(value, name of its counter). Busy: data were on their way or to be sent. Parts of it: the
 * receiver had no room, or the sender's buffer was too small to fill the link.
 */
#define LK_HOP_VALUE_LIST(X)                                                                       \
    X(LK_HOP_BYTES, "hop: acknowledged, bytes")                                                    \
    X(LK_HOP_BUSY, "hop: busy, s")                                                                 \
    X(LK_HOP_RECEIVER, "hop: busy with a full receiver, s")                                        \
    X(LK_HOP_BUFFER, "hop: busy with a full send buffer, s")

enum lk_hop_value { LK_HOP_VALUE_LIST(LK_WORD_VALUE) LK_HOP_VALUES };
LK_WORDS_DECLARE(lk_hop_value, enum lk_hop_value);

struct lk_hop {
    int to; /* rank */
    double v[LK_HOP_VALUES];
};

/* Key of a run's configuration: why its communicator, which has hops, records none. */
#define LK_NO_HOPS_CONFIG_KEY "hops"

#endif
