/*
 * Injected faults, for tests and for runs with a known result. A specification says which
 * collectives fail and how; all ranks get the same text:
 *
 *     KIND:KEY=VALUE,...[;KIND:...]
 *
 *     fail   the collective returns an error on the rank              call=12,rank=1
 *     kill   the rank kills itself (SIGKILL) instead of entering      call=12,rank=1
 *     stall  the rank does not enter until the run has a verdict      call=9,rank=2
 *     delay  the rank enters that much later                          call=5,rank=0,time=20ms
 *     slow   the collective ends as on a ring of links of this rate   rate=25MB/s,latency=1ms
 *     flip   one bit of the collective's result is wrong on the rank  call=12,rank=1
 *
 * Collectives are numbered from 0 as in messages and traces; all of the communicator count, the
 * broadcasts of set-up too. call=N selects one, from=N and to=N an inclusive range; without them
 * every collective is affected. Without rank every rank is affected; slow takes no rank.
 *
 * fail    The error is returned to the caller, who reports it as any other failure.
 * stall   The rank still answers the store's progress question, so the verdict is that it fell
 *         behind. Without other ranks it waits for the timeout, then fails.
 * delay   The span's arrival is when the stream reached the collective, before the delay: in the
 *         trace it looks like a slow link. To make a late rank, use a slow device.
 * flip    The first float32 that is not 0 gets half as much again, or less by a third: the highest
 *         bit of its mantissa. Not available on GPUs. Collectives of other types are left alone.
 * slow    With K ranks a collective ends at the last arrival + S latency + lk_coll_wire_bytes /
 *         rate, an absolute time, with S = 2(K-1) for all-reduce, K-1 for reduce-scatter,
 *         all-gather and broadcast, 2 ceil(log2 K) for barrier. A wrapped collective that takes
 *         longer ends when it is done; a warning at the end counts those and gives the excess.
 *         Ranks exchange arrival times on CLOCK_MONOTONIC, so ranks on several hosts are refused.
 *         A single rank has no links and loses no time. Not available on GPUs, whose streams run
 *         the collectives natively; the other faults are host functions there.
 *
 * A fault whose collectives the run did not reach gives a warning at the end.
 */
#ifndef LK_RUNTIME_COMM_FAULT_H
#define LK_RUNTIME_COMM_FAULT_H

#include "base/status.h"
#include "base/words.h"
#include "runtime/comm/comm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(kind, name, keys allowed, keys needed) */
#define LK_FAULT_LIST(X)                                                                           \
    X(LK_FAULT_FAIL, "fail", LK_FAULT_WHEN | LK_FAULT_RANK, 0)                                     \
    X(LK_FAULT_KILL, "kill", LK_FAULT_WHEN | LK_FAULT_RANK, 0)                                     \
    X(LK_FAULT_STALL, "stall", LK_FAULT_WHEN | LK_FAULT_RANK, 0)                                   \
    X(LK_FAULT_DELAY, "delay", LK_FAULT_WHEN | LK_FAULT_RANK | LK_FAULT_TIME, LK_FAULT_TIME)       \
    X(LK_FAULT_FLIP, "flip", LK_FAULT_WHEN | LK_FAULT_RANK, 0)                                     \
    X(LK_FAULT_SLOW, "slow", LK_FAULT_WHEN | LK_FAULT_RATE | LK_FAULT_LATENCY, 0)

enum lk_fault_kind { LK_FAULT_LIST(LK_WORD_VALUE) };

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
    int given;         /* bits of enum lk_fault_key */
    uint64_t from, to; /* collectives, inclusive */
    int rank;          /* -1: all */
    double time_s, rate_Bps, latency_s;
    char text[96]; /* the specification's text, for messages */
};

/* Parse a specification for a run of world_size ranks; the caller frees *out. LK_EUSAGE names the
 * wrong word. */
enum lk_status lk_fault_parse(const char *spec, int world_size, struct lk_fault **out,
                              size_t *out_n);

/* Wrap a communicator. The wrapper owns `inner`, also on failure. */
enum lk_status lk_comm_fault_wrap(const char *spec, const struct lk_comm_config *config,
                                  struct lk_comm *inner, struct lk_comm **out);

#endif
