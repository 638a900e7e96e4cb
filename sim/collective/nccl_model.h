/*
 * NCCL's own cost model (src/graph/tuning.cc:284-601, enqueue.cc:1785-1842) estimates one
 * collective by one algorithm and protocol and chooses among them. It is made for choosing: large
 * messages are right within about 10 %, latencies are optimistic by 1.2 to 2 and more. So this
 * header gives its parts one by one, and sim/collective/nccl_fit.h puts factors on them; the
 * choice stays NCCL's.
 *
 * Limits: no user buffer registration, no fp8, no symmetric windows.
 */
#ifndef LK_SIM_NCCL_MODEL_H
#define LK_SIM_NCCL_MODEL_H

#include "sim/collective/nccl_graph.h"

/* Protocols, in NCCL's order. */
enum lk_nccl_proto { LK_NCCL_LL, LK_NCCL_LL128, LK_NCCL_SIMPLE, LK_NCCL_PROTO_COUNT };
const char *lk_nccl_proto_name(enum lk_nccl_proto p); /* as NCCL_PROTO takes it */

/* The parts of a time in us, and the rate in GB/s of the whole buffer. */
struct lk_nccl_parts {
    double base_us, intra_us, inter_us;
    double intra_hops, inter_hops; /* hops that take a link's latency; Simple's count twice */
    double choice_us;              /* added when NCCL chooses, but not taken by any wire */
    double GBps;                   /* 0: not offered */
};

/*
 * Return the parts at a size, with NCCL's corrections; GBps is 0 if NCCL does not offer it. pre:
 * bytes >= 0.
 */
struct lk_nccl_parts lk_nccl_parts_of(const struct lk_nccl_comm *m, enum lk_coll coll,
                                      enum lk_algo algo, enum lk_nccl_proto p, double bytes);

struct lk_nccl_choice {
    enum lk_algo algo;
    enum lk_nccl_proto proto;
    struct lk_nccl_parts parts;
    double us; /* NCCL's estimate */
};

enum { LK_NCCL_OFFERS_MAX = LK_ALGO_COUNT * LK_NCCL_PROTO_COUNT };

/*
 * List what NCCL chooses from, its choice first: all algorithms for AUTO, else one's protocols.
 * Returns the length, 0 if nothing is offered. out: LK_NCCL_OFFERS_MAX.
 */
size_t lk_nccl_offers(const struct lk_nccl_comm *m, enum lk_coll coll, enum lk_algo algo,
                      double bytes, struct lk_nccl_choice *out);

#endif
