/*
 * NCCL's own cost model (src/graph/tuning.cc:284-601, enqueue.cc:1785-1842) of one collective by
 * one algorithm and protocol, and its choice among them. It is a model made for choosing: large
 * messages are right within about 10 %, latencies are optimistic by 1.2 to 2 and more. So its
 * parts come out one by one, and sim/nccl_fit.h puts factors on them; the choice stays NCCL's.
 *
 * Limits: no user buffer registration, no fp8, no symmetric windows.
 */
#ifndef LK_SIM_NCCL_MODEL_H
#define LK_SIM_NCCL_MODEL_H

#include "sim/nccl_graph.h"

/* The parts of a time: us, but rate, which is bytes / 1000 / us (GB/s of the whole buffer). */
struct lk_nccl_parts {
    double base_us, intra_us, inter_us;
    double intra_hops, inter_hops; /* by which a link's latency counts: Simple's twice */
    double choice_us;              /* that NCCL adds where it chooses, and no wire takes */
    double GBps;                   /* 0: not offered */
};

/* Parts at a size, corrections included. Not offered: GBps 0. pre: bytes >= 0. */
struct lk_nccl_parts lk_nccl_parts_of(const struct lk_nccl_comm *m, enum lk_coll coll,
                                      enum lk_algo algo, enum lk_nccl_proto p, double bytes);
double lk_nccl_us(const struct lk_nccl_parts *parts, double bytes);

struct lk_nccl_choice {
    enum lk_algo algo;
    enum lk_nccl_proto proto;
    struct lk_nccl_parts parts;
    double us; /* as NCCL reckons it */
};

enum { LK_NCCL_OFFERS_MAX = LK_ALGO_COUNT * LK_NCCL_PROTO_COUNT };

/*
 * What NCCL chooses from, its choice first; `algo` AUTO: all, else that one's protocols. Returns
 * how many; 0: nothing is offered. out: LK_NCCL_OFFERS_MAX.
 */
size_t lk_nccl_offers(const struct lk_nccl_comm *m, enum lk_coll coll, enum lk_algo algo,
                      double bytes, struct lk_nccl_choice *out);

#endif
