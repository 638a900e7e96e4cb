/*
 * Faults on purpose, for tests and for runs of known truth: which collectives go wrong, and how.
 * The same text on all ranks:
 *
 *     KIND:KEY=VALUE,...[;KIND:...]
 *
 *     fail   the call returns an error on the rank                    call=12,rank=1
 *     kill   the rank kills itself (SIGKILL) instead of entering      call=12,rank=1
 *     stall  the rank does not enter until the run has a verdict      call=9,rank=2
 *     delay  the rank enters that much later                          call=5,rank=0,time=20ms
 *     slow   the call ends when it would on a ring of such links      rate=25MB/s,latency=1ms
 *
 * Calls are numbered from 0 as in messages and traces: every collective of the communicator counts,
 * the broadcasts of set-up too. call=N is one call, from=N and to=N a range with its ends; without
 * them it is every call. Without rank it is every rank; slow has no rank.
 *
 * fail    The text goes up to the caller, who reports it as any other failure.
 * stall   The rank still answers what it is doing, so the verdict is that it fell behind. Without
 *         others it waits the timeout, then fails.
 * delay   To the trace the rank arrived when its stream came to the call, before the delay: it
 *         looks like a slow link. A late rank is made with a slow device.
 * slow    With K ranks a call ends at the last arrival + S latency + lk_coll_wire_bytes / rate, an
 *         absolute time, with S = 2(K-1) for all-reduce, K-1 for reduce-scatter, all-gather and
 *         broadcast, 2 ceil(log2 K) for barrier; or when the wrapped call is done, if that is
 *         later: such calls are counted, and a warning at the end says how many and by how much.
 *         Ranks tell each other their arrivals on CLOCK_MONOTONIC, so they must be on one host:
 *         others are refused. One rank has no links and loses no time. Not on GPUs, whose streams
 *         run the collectives by themselves: the other faults are host functions there.
 *
 * A fault that names calls which the run did not reach is a warning at the end.
 */
#ifndef LK_RUNTIME_COMM_FAULT_H
#define LK_RUNTIME_COMM_FAULT_H

#include "base/status.h"
#include "runtime/comm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(kind, name, keys allowed, keys needed) */
#define LK_FAULT_LIST(X)                                                                           \
    X(LK_FAULT_FAIL, "fail", LK_FAULT_WHEN | LK_FAULT_RANK, 0)                                     \
    X(LK_FAULT_KILL, "kill", LK_FAULT_WHEN | LK_FAULT_RANK, 0)                                     \
    X(LK_FAULT_STALL, "stall", LK_FAULT_WHEN | LK_FAULT_RANK, 0)                                   \
    X(LK_FAULT_DELAY, "delay", LK_FAULT_WHEN | LK_FAULT_RANK | LK_FAULT_TIME, LK_FAULT_TIME)       \
    X(LK_FAULT_SLOW, "slow", LK_FAULT_WHEN | LK_FAULT_RATE | LK_FAULT_LATENCY, 0)

enum lk_fault_kind {
#define LK_FAULT_ENUM_(kind, name, allowed, needed) kind,
    LK_FAULT_LIST(LK_FAULT_ENUM_)
#undef LK_FAULT_ENUM_
};

enum lk_fault_key {
    LK_FAULT_CALL = 1,
    LK_FAULT_FROM = 2,
    LK_FAULT_TO = 4,
    LK_FAULT_RANK = 8,
    LK_FAULT_TIME = 16,
    LK_FAULT_RATE = 32,
    LK_FAULT_LATENCY = 64,
    LK_FAULT_WHEN = LK_FAULT_CALL | LK_FAULT_FROM | LK_FAULT_TO
};

struct lk_fault {
    enum lk_fault_kind kind;
    int given;         /* keys */
    uint64_t from, to; /* calls, ends included */
    int rank;          /* -1: all */
    double time_s, rate_Bps, latency_s;
    char text[96]; /* as it was given, for messages */
};

/*
 * Reads a specification for a run of world_size ranks; *out is freed by the caller. LK_EUSAGE names
 * the word that is wrong.
 */
enum lk_status lk_fault_parse(const char *spec, int world_size, struct lk_fault **out,
                              size_t *out_n);

/* Wraps a communicator, which is the wrapper's from now on, also on failure. */
enum lk_status lk_comm_fault_wrap(const char *spec, const struct lk_comm_config *config,
                                  struct lk_comm *inner, struct lk_comm **out);

#endif
