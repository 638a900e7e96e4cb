/*
 * This file evaluates NCCL's cost model. Line numbers are those of NCCL v2.28.9-1,
 * src/graph/tuning.cc.
 *
 * Divisions: constants / the model.
 */
#include "sim/collective/nccl_model.h"

#include <math.h>

/* ---- Constants ---- */

/* The numbers of the model, with their lines in tuning.cc. */
static const double RING_LL_SHARE = 0.5;            /* 284-351: ring LL carries 4 of 8 bytes */
static const double RING_LL128_SHARE = 0.92;        /* 284-351: 120 of 128 bytes, and less */
static const double TREE_SHARE = 0.92;              /* 284-351 */
static const double TREE_LL_DIVISOR = 3.8;          /* 284-351 */
static const double TREE_LL128_INTRA = 7.0 / 9;     /* 284-351: one node */
static const double TREE_LL128_INTER = 120.0 / 128; /* 284-351: more nodes */
static const double PLAIN_TREE_SHARE = 0.85;        /* 284-351: pattern TREE, not balanced */
static const double PAT_SHARE = 0.75;               /* 284-351 */
static const double COLLNET_NET_SHARE = 0.9;        /* 284-351 */
static const double COLLNET_HOPPER_SHARE = 0.85;    /* 284-351: cc >= 90 */
static const double COLLNET_ARRIVAL_US = 0.4;       /* us; 353-401: a rank of the node, Direct */
static const double NET_OVERHEAD_US = 1;            /* us; 212-219: Intel and other CPUs */
static const double NET_OVERHEAD_AMD_US = 2;        /* us; 212-219: AMD CPUs */
static const double NET_OVERHEAD_SIMPLE = 3;        /* 212-219: times, for Simple */
static const double PLATEAU = 1.4;                  /* 584-601: latency of large rings, cc >= 80 */
static const double PLATEAU_VOLTA = 1.9;            /* 584-601: latency of large rings, cc < 80 */
static const double PLATEAU_BYTES = 64;             /* B; 584-601: a channel and rank, and more */
static const double PAT_NET_DIVISOR = 3.5;          /* 353-401 */
static const double PAT_RANK_US = 2.8;              /* us; 353-401: a rank */

const char *lk_nccl_proto_name(enum lk_nccl_proto p)
{
    static const char *const names[LK_NCCL_PROTO_COUNT] = {"LL", "LL128", "Simple"};

    return names[p];
}

/* The columns of a table by nodes: 1, 2, more. */
enum { NODE_COLUMNS = 3 };

static int node_column(int nodes)
{
    return nodes < NODE_COLUMNS ? nodes - 1 : NODE_COLUMNS - 1;
}

/* us of a launch by LL, LL128, Simple: tuning.cc:134-150, baseLatencies. */
static const double base_us[LK_ALGO_COUNT][LK_NCCL_PROTO_COUNT] = {
    [LK_ALGO_TREE] = {6.8, 14.0, 8.4},
    [LK_ALGO_RING] = {6.6, 14.0, 8.4},
    [LK_ALGO_PAT] = {8, 8, 8},
};

/*
 * us of a hop by LL, LL128, Simple (0 where an algorithm has Simple only): tuning.cc:151-199,
 * hwLatencies.
 */
static const double hop_us[LK_NCCL_WIRE_COUNT][LK_ALGO_COUNT][LK_NCCL_PROTO_COUNT] = {
    [LK_NCCL_NVLINK] =
        {
            [LK_ALGO_TREE] = {.6, 1.25, 4.0},
            [LK_ALGO_RING] = {.6, 1.9, 3.4},
            [LK_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
            [LK_ALGO_COLLNET_CHAIN] = {0, 0, 2.8},
            [LK_ALGO_NVLS] = {0, 0, 25},
            [LK_ALGO_NVLS_TREE] = {0, 0, 25},
            [LK_ALGO_PAT] = {0, 0, 4.0},
        },
    [LK_NCCL_PCI] =
        {
            [LK_ALGO_TREE] = {1.0, 1.9, 4.0},
            [LK_ALGO_RING] = {1.0, 2.5, 5.7},
            [LK_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
            [LK_ALGO_COLLNET_CHAIN] = {0, 0, 2.8},
            [LK_ALGO_PAT] = {0, 0, 4.0},
        },
    [LK_NCCL_NET] =
        {
            [LK_ALGO_TREE] = {5.0, 8.5, 14},
            [LK_ALGO_RING] = {2.7, 4.0, 14.0},
            [LK_ALGO_COLLNET_DIRECT] = {0, 0, 31},
            [LK_ALGO_COLLNET_CHAIN] = {0, 0, 30},
            [LK_ALGO_NVLS] = {0, 0, 18},
            [LK_ALGO_NVLS_TREE] = {0, 0, 20.9},
            [LK_ALGO_PAT] = {0, 0, 14},
        },
};

/*
 * GB/s of LL on all channels together: tuning.cc:160-199, llMaxBws. On one node a row is a
 * generation's; on more, the first row is for Intel's and other CPUs, the second for AMD's.
 */
static const double ll_max[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}};

static double ll_rate(const struct lk_nccl_comm *m)
{
    return ll_max[m->nodes == 1 ? m->gen : m->amd_cpu ? 1 : 0][node_column(m->nodes)];
}

/* The caps of a channel in GB/s, by generation and nodes: tuning.cc:160-199. */
static const double ring_ll128[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}};
static const double tree_ll128[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const double tree_cap[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
static const double nvls_tree_cap[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}};

/* Return the most GB/s that `channels` channels carry by a table of caps. */
static double channel_cap(const double table[LK_NCCL_GEN_COUNT][NODE_COLUMNS],
                          const struct lk_nccl_comm *m, int channels)
{
    return channels * table[m->gen][node_column(m->nodes)];
}

/* tuning.cc:160-199, nvlsEfficiency: the share of a link that NVLS gets; 0: no NVLS. */
static const double nvls_efficiency[LK_NCCL_GEN_COUNT] = {0, 0, 0.85, 0.74};

/*
 * The correction by floor(log2(bytes / 64)), from 64 B to 256 MB: tuning.cc:578-582,
 * treeCorrectionFactor.
 */
enum { TREE_COLUMNS = 23, TREE_FIRST_BYTES = 64 };
static const double tree_ll[TREE_COLUMNS] = {1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                             .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1};
static const double tree_128[TREE_COLUMNS] = {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                              .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1};
static const double tree_simple[TREE_COLUMNS] = {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                                 .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9};

/* Return the factor of a tree all-reduce's rate. NCCL takes the row of the next smaller power of
 * two; this is linear between rows, so that a cost does not fall as the size grows. */
static double tree_correction(enum lk_nccl_proto p, double bytes)
{
    static const double *const rows[LK_NCCL_PROTO_COUNT] = {tree_ll, tree_128, tree_simple};
    double x = bytes >= TREE_FIRST_BYTES ? log2(bytes / TREE_FIRST_BYTES) : -1;
    int i = (int)x;
    double next;

    if (x < 0 || i >= TREE_COLUMNS)
        return 1;
    next = i + 1 < TREE_COLUMNS ? rows[p][i + 1] : 1;
    return rows[p][i] + (next - rows[p][i]) * (x - i);
}

/* ---- The model ---- */

/* The key of an evaluation: everything but the size. */
struct at {
    const struct lk_nccl_comm *m;
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_nccl_proto p;
    int local;
};

/*
 * Return true if NCCL has this algorithm and protocol for the collective: tuning.cc:202-209,
 * 462-494; enqueue.cc:1790-1800.
 */
static bool offered(const struct at *a)
{
    const struct lk_nccl_comm *m = a->m;
    bool gather = a->coll == LK_REDUCE_SCATTER || a->coll == LK_ALL_GATHER;
    bool reduce = a->coll == LK_ALL_REDUCE;

    if (a->p == LK_NCCL_LL128 && !m->ll128)
        return false;
    if (a->algo != LK_ALGO_RING && a->algo != LK_ALGO_TREE && a->p != LK_NCCL_SIMPLE)
        return false;
    switch (a->algo) {
    case LK_ALGO_RING:
        return gather || reduce || a->coll == LK_BROADCAST;
    case LK_ALGO_TREE:
        return reduce;
    case LK_ALGO_PAT:
        return gather && a->local == 1;
    case LK_ALGO_NVLS:
        return (gather || reduce) && m->nvls && m->nvls_graph.channels > 1 &&
               nvls_efficiency[m->gen] > 0 && (m->nodes == 1 || m->collnet);
    case LK_ALGO_NVLS_TREE:
        return reduce && m->nvls && m->nvls_graph.channels > 1 && m->nodes > 1 &&
               nvls_efficiency[m->gen] > 0;
    case LK_ALGO_COLLNET_DIRECT:
        return (gather || reduce) && m->collnet && m->collnet_graph.channels > 0;
    case LK_ALGO_COLLNET_CHAIN:
        return reduce && m->collnet && m->collnet_graph.channels > 0;
    default:
        return false;
    }
}

static double steps(enum lk_coll coll, int ranks)
{
    return coll == LK_ALL_REDUCE ? 2.0 * (ranks - 1) : coll == LK_BROADCAST ? ranks : ranks - 1;
}

static const struct lk_nccl_graph *graph_of(const struct at *a)
{
    switch (a->algo) {
    case LK_ALGO_NVLS:
    case LK_ALGO_NVLS_TREE:
        return &a->m->nvls_graph;
    case LK_ALGO_COLLNET_DIRECT:
    case LK_ALGO_COLLNET_CHAIN:
        return &a->m->collnet_graph;
    case LK_ALGO_TREE:
        return &a->m->tree;
    default:
        return &a->m->ring;
    }
}

static double ring_bus(const struct at *a, double bus, int channels)
{
    const struct lk_nccl_comm *m = a->m;

    if (a->p == LK_NCCL_LL)
        return fmin(ll_rate(m), bus * RING_LL_SHARE);
    if (a->p == LK_NCCL_LL128)
        return fmin(bus * RING_LL128_SHARE, channel_cap(ring_ll128, m, channels));
    return bus;
}

static double tree_bus(const struct at *a, double bus, int channels)
{
    const struct lk_nccl_comm *m = a->m;

    bus = fmin(bus * TREE_SHARE, channel_cap(tree_cap, m, channels));
    if (a->p == LK_NCCL_LL)
        bus = fmin(bus / TREE_LL_DIVISOR, ll_rate(m));
    if (a->p == LK_NCCL_LL128)
        bus = fmin(bus * (m->nodes == 1 ? TREE_LL128_INTRA : TREE_LL128_INTER),
                   channel_cap(tree_ll128, m, channels));
    return m->plain_tree ? bus * PLAIN_TREE_SHARE : bus;
}

static double nvls_bus(const struct at *a, const struct lk_nccl_graph *g)
{
    const struct lk_nccl_comm *m = a->m;
    double share = a->coll == LK_ALL_REDUCE ? 2 : (a->local - 1.0) / a->local;
    double intra = g->intra * nvls_efficiency[m->gen] * (g->channels - 1) / g->channels;
    double inter = g->inter * (m->nodes <= 2 && a->algo == LK_ALGO_NVLS_TREE ? 2 : 1);
    double bw = m->nodes > 1 ? fmin(intra * share, inter) : intra * share;

    if (a->algo == LK_ALGO_NVLS_TREE)
        bw = fmin(bw, channel_cap(nvls_tree_cap, m, 1));
    return g->channels * bw;
}

static double collnet_bus(const struct at *a, const struct lk_nccl_graph *g, double bus)
{
    double factor, per = (double)a->local / g->channels;

    if (a->algo != LK_ALGO_COLLNET_DIRECT)
        return bus;
    if (a->coll != LK_ALL_REDUCE)
        return a->local * fmin(g->intra, COLLNET_NET_SHARE * g->inter);
    factor = per - (per - 1) / 2;
    bus /= factor;
    return a->m->gen >= LK_NCCL_HOPPER ? bus * COLLNET_HOPPER_SHARE : bus;
}

/* Return GB/s of the buffer: tuning.cc:284-351. */
static double rate(const struct at *a)
{
    const struct lk_nccl_comm *m = a->m;
    const struct lk_nccl_graph *g = graph_of(a);
    bool collnet = a->algo == LK_ALGO_COLLNET_DIRECT || a->algo == LK_ALGO_COLLNET_CHAIN;
    double bus = g->channels * (m->nodes <= 2 || collnet ? g->intra : g->inter);

    switch (a->algo) {
    case LK_ALGO_RING:
        bus = ring_bus(a, bus, g->channels);
        break;
    case LK_ALGO_TREE:
        return tree_bus(a, bus, g->channels) / 2;
    case LK_ALGO_PAT:
        bus *= PAT_SHARE;
        break;
    case LK_ALGO_NVLS:
    case LK_ALGO_NVLS_TREE:
        bus = nvls_bus(a, g);
        break;
    default:
        bus = collnet_bus(a, g, bus);
        return a->coll == LK_ALL_REDUCE ? bus / 2 : bus;
    }
    return bus * m->ranks / steps(a->coll, m->ranks);
}

static double hop(const struct at *a, enum lk_nccl_wire wire, enum lk_algo algo)
{
    return hop_us[wire][algo][a->p];
}

static void hops(struct lk_nccl_parts *out, double intra, double intra_us, double inter,
                 double inter_us)
{
    out->intra_hops = intra;
    out->inter_hops = inter;
    out->intra_us = intra * intra_us;
    out->inter_us = inter * inter_us;
}

static void ring_latency(const struct at *a, struct lk_nccl_parts *out)
{
    const struct lk_nccl_comm *m = a->m;
    double n = steps(a->coll, m->ranks), inter = 0, intra = hop(a, m->wire, LK_ALGO_RING);
    double overhead = 0;

    if (a->coll == LK_BROADCAST) {
        /* Nodes work at once: one hop of the slowest kind counts, for Simple that of a tree. */
        enum lk_algo like = a->p == LK_NCCL_SIMPLE ? LK_ALGO_TREE : LK_ALGO_RING;

        hops(out, m->nodes == 1, hop(a, m->wire, like), m->nodes > 1, hop(a, LK_NCCL_NET, like));
        return;
    }
    if (m->nodes > 1) {
        overhead = (m->amd_cpu ? NET_OVERHEAD_AMD_US : NET_OVERHEAD_US);

        if (a->p == LK_NCCL_SIMPLE)
            overhead *= NET_OVERHEAD_SIMPLE;
        inter = (a->coll == LK_ALL_REDUCE ? 2.0 : 1.0) * (m->nodes - 1);
    }
    out->choice_us = (n - inter) * fmax(0, overhead - intra);
    hops(out, n - inter, intra, inter,
         hop(a, LK_NCCL_NET, a->local == 1 ? LK_ALGO_TREE : LK_ALGO_RING));
}

/* Set the latencies: tuning.cc:353-401. */
static void latency(const struct at *a, struct lk_nccl_parts *out)
{
    const struct lk_nccl_comm *m = a->m;
    enum lk_algo like = a->local == 1 ? LK_ALGO_TREE : a->algo;
    double levels = floor(log2(m->nodes)), intra = hop(a, m->wire, a->algo);
    double inter = hop(a, LK_NCCL_NET, like), local = a->local - 1, over = m->nodes > 1;

    out->base_us = base_us[a->algo][a->p];
    switch (a->algo) {
    case LK_ALGO_RING:
        ring_latency(a, out);
        break;
    case LK_ALGO_TREE:
        hops(out, 2 * local, intra, 2 * levels, inter);
        break;
    case LK_ALGO_NVLS:
        hops(out, 1, intra, over, inter);
        break;
    case LK_ALGO_NVLS_TREE:
        hops(out, 1, intra, 2 * levels, inter);
        break;
    case LK_ALGO_COLLNET_DIRECT:
        hops(out, 2 * fmin(1, local), intra, 1, inter);
        out->intra_us += 2 * local * COLLNET_ARRIVAL_US;
        break;
    case LK_ALGO_COLLNET_CHAIN:
        hops(out, 2 * local, intra, 1, inter);
        break;
    default: /* PAT */
        hops(out, 0, 0, levels, inter / PAT_NET_DIVISOR);
        out->intra_us += PAT_RANK_US * m->ranks;
    }
    if (a->p == LK_NCCL_SIMPLE) {
        out->intra_hops *= 2;
        out->inter_hops *= 2;
    }
}

struct lk_nccl_parts lk_nccl_parts_of(const struct lk_nccl_comm *m, enum lk_coll coll,
                                      enum lk_algo algo, enum lk_nccl_proto p, double bytes)
{
    struct at a = {m, coll, algo, p, m->ranks / m->nodes};
    struct lk_nccl_parts out = {0};

    if (!offered(&a))
        return out;
    out.GBps = rate(&a);
    latency(&a, &out);
    /* tuning.cc:584-601. */
    if (algo == LK_ALGO_TREE)
        out.GBps *= tree_correction(p, bytes);
    if (algo == LK_ALGO_RING && p == LK_NCCL_SIMPLE && coll == LK_ALL_REDUCE && m->nodes > 1 &&
        bytes / ((double)m->ring.channels * m->ranks) >= PLATEAU_BYTES) {
        double f = (m->gen == LK_NCCL_VOLTA ? PLATEAU_VOLTA : PLATEAU);

        out.base_us *= f;
        out.intra_us *= f;
        out.inter_us *= f;
        out.choice_us *= f;
    }
    return out;
}

size_t lk_nccl_offers(const struct lk_nccl_comm *m, enum lk_coll coll, enum lk_algo algo,
                      double bytes, struct lk_nccl_choice *out)
{
    size_t n = 0;

    for (int i = LK_ALGO_AUTO + 1; i < LK_ALGO_COUNT; i++)
        for (int p = 0; p < LK_NCCL_PROTO_COUNT; p++) {
            struct lk_nccl_choice k = {.algo = (enum lk_algo)i, .proto = (enum lk_nccl_proto)p};

            if (algo != LK_ALGO_AUTO && k.algo != algo)
                continue;
            k.parts = lk_nccl_parts_of(m, coll, k.algo, k.proto, bytes);
            if (k.parts.GBps <= 0)
                continue;
            k.us = k.parts.base_us + k.parts.intra_us + k.parts.inter_us +
                   bytes / (1000 * k.parts.GBps) + k.parts.choice_us +
                   m->choice_us * k.parts.inter_hops;
            out[n] = k;
            if (n && k.us < out[0].us) {
                out[n] = out[0];
                out[0] = k;
            }
            n++;
        }
    return n;
}
