/* NCCL's cost model. Line numbers are those of NCCL v2.28.9-1, src/graph/tuning.cc. */
#include "sim/nccl_model.h"

#include <math.h>

/* A place in the model: everything but the size. */
struct at {
    const struct lk_nccl_comm *m;
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_nccl_proto p;
    int local;
};

static double number(enum lk_nccl_number n)
{
    return lk_nccl_number(n);
}

/* tuning.cc:202-209, 462-494; enqueue.cc:1790-1800. Which algorithms a collective has. */
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
               lk_nccl_nvls_efficiency(m->gen) > 0 && (m->nodes == 1 || m->collnet);
    case LK_ALGO_NVLS_TREE:
        return reduce && m->nvls && m->nvls_graph.channels > 1 && m->nodes > 1 &&
               lk_nccl_nvls_efficiency(m->gen) > 0;
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
        return fmin(lk_nccl_ll_max(m->gen, m->nodes, m->amd_cpu),
                    bus * number(LK_NCCL_RING_LL_SHARE));
    if (a->p == LK_NCCL_LL128)
        return fmin(bus * number(LK_NCCL_RING_LL128_SHARE),
                    channels * lk_nccl_channel_cap(LK_NCCL_CAP_RING_LL128, m->gen, m->nodes));
    return bus;
}

static double tree_bus(const struct at *a, double bus, int channels)
{
    const struct lk_nccl_comm *m = a->m;

    bus = fmin(bus * number(LK_NCCL_TREE_SHARE),
               channels * lk_nccl_channel_cap(LK_NCCL_CAP_TREE, m->gen, m->nodes));
    if (a->p == LK_NCCL_LL)
        bus = fmin(bus / number(LK_NCCL_TREE_LL_DIVISOR),
                   lk_nccl_ll_max(m->gen, m->nodes, m->amd_cpu));
    if (a->p == LK_NCCL_LL128)
        bus =
            fmin(bus * number(m->nodes == 1 ? LK_NCCL_TREE_LL128_INTRA : LK_NCCL_TREE_LL128_INTER),
                 channels * lk_nccl_channel_cap(LK_NCCL_CAP_TREE_LL128, m->gen, m->nodes));
    return m->plain_tree ? bus * number(LK_NCCL_PLAIN_TREE_SHARE) : bus;
}

static double nvls_bus(const struct at *a, const struct lk_nccl_graph *g)
{
    const struct lk_nccl_comm *m = a->m;
    double share = a->coll == LK_ALL_REDUCE ? 2 : (a->local - 1.0) / a->local;
    double intra = g->intra * lk_nccl_nvls_efficiency(m->gen) * (g->channels - 1) / g->channels;
    double inter = g->inter * (m->nodes <= 2 && a->algo == LK_ALGO_NVLS_TREE ? 2 : 1);
    double bw = m->nodes > 1 ? fmin(intra * share, inter) : intra * share;

    if (a->algo == LK_ALGO_NVLS_TREE)
        bw = fmin(bw, lk_nccl_channel_cap(LK_NCCL_CAP_NVLS_TREE, m->gen, m->nodes));
    return g->channels * bw;
}

static double collnet_bus(const struct at *a, const struct lk_nccl_graph *g, double bus)
{
    double factor, per = (double)a->local / g->channels;

    if (a->algo != LK_ALGO_COLLNET_DIRECT)
        return bus;
    if (a->coll != LK_ALL_REDUCE)
        return a->local * fmin(g->intra, number(LK_NCCL_COLLNET_NET_SHARE) * g->inter);
    factor = per - (per - 1) / 2;
    bus /= factor;
    return a->m->gen >= LK_NCCL_HOPPER ? bus * number(LK_NCCL_COLLNET_HOPPER_SHARE) : bus;
}

/* tuning.cc:284-351: GB/s of the buffer. */
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
        bus *= number(LK_NCCL_PAT_SHARE);
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
    return lk_nccl_hop_us(wire, algo, a->p);
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
        /* The nodes' channels alike: one hop of the slowest kind; Simple as a tree's. */
        enum lk_algo like = a->p == LK_NCCL_SIMPLE ? LK_ALGO_TREE : LK_ALGO_RING;

        hops(out, m->nodes == 1, hop(a, m->wire, like), m->nodes > 1, hop(a, LK_NCCL_NET, like));
        return;
    }
    if (m->nodes > 1) {
        overhead = number(m->amd_cpu ? LK_NCCL_NET_OVERHEAD_AMD_US : LK_NCCL_NET_OVERHEAD_US);

        if (a->p == LK_NCCL_SIMPLE)
            overhead *= number(LK_NCCL_NET_OVERHEAD_SIMPLE);
        inter = (a->coll == LK_ALL_REDUCE ? 2.0 : 1.0) * (m->nodes - 1);
    }
    out->choice_us = (n - inter) * fmax(0, overhead - intra);
    hops(out, n - inter, intra, inter,
         hop(a, LK_NCCL_NET, a->local == 1 ? LK_ALGO_TREE : LK_ALGO_RING));
}

/* tuning.cc:353-401. */
static void latency(const struct at *a, struct lk_nccl_parts *out)
{
    const struct lk_nccl_comm *m = a->m;
    enum lk_algo like = a->local == 1 ? LK_ALGO_TREE : a->algo;
    double levels = floor(log2(m->nodes)), intra = hop(a, m->wire, a->algo);
    double inter = hop(a, LK_NCCL_NET, like), local = a->local - 1, over = m->nodes > 1;

    out->base_us = lk_nccl_base_us(a->algo, a->p);
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
        out->intra_us += 2 * local * number(LK_NCCL_COLLNET_ARRIVAL_US);
        break;
    case LK_ALGO_COLLNET_CHAIN:
        hops(out, 2 * local, intra, 1, inter);
        break;
    default: /* PAT */
        hops(out, 0, 0, levels, inter / number(LK_NCCL_PAT_NET_DIVISOR));
        out->intra_us += number(LK_NCCL_PAT_RANK_US) * m->ranks;
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
        out.GBps *= lk_nccl_tree_correction(p, bytes);
    if (algo == LK_ALGO_RING && p == LK_NCCL_SIMPLE && coll == LK_ALL_REDUCE && m->nodes > 1 &&
        bytes / ((double)m->ring.channels * m->ranks) >= number(LK_NCCL_PLATEAU_BYTES)) {
        double f = number(m->gen == LK_NCCL_VOLTA ? LK_NCCL_PLATEAU_VOLTA : LK_NCCL_PLATEAU);

        out.base_us *= f;
        out.intra_us *= f;
        out.inter_us *= f;
        out.choice_us *= f;
    }
    return out;
}

double lk_nccl_us(const struct lk_nccl_parts *parts, double bytes)
{
    return parts->base_us + parts->intra_us + parts->inter_us + bytes / (1000 * parts->GBps);
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
            k.us =
                lk_nccl_us(&k.parts, bytes) + k.parts.choice_us + m->choice_us * k.parts.inter_hops;
            out[n] = k;
            if (n && k.us < out[0].us) {
                out[n] = out[0];
                out[0] = k;
            }
            n++;
        }
    return n;
}
