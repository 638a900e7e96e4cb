/* Suspects by signature; see the header. Divisions: features, predicates, the table. */
#include "sim/suspects.h"

#include "base/array.h"
#include "sim/collective/links.h"

#include <math.h>
#include <string.h>

/* ---- Features ---- */

/* The signatures look at these. Slowdowns are measured over expected times; NaN: not known. */
struct features {
    const struct lk_cluster *machine;
    const struct lk_judged_set *set;
    int cards;            /* network cards of a node */
    double start, top;    /* slowdown of the smallest and the largest sizes that were measured */
    bool top_slow;        /* the largest sizes' verdict */
    double cards_used;    /* of the largest sizes, as if all cards were alike */
    double share_of_card; /* best bus bandwidth over one card's rate */
    double top_fewer;     /* slowdown of the largest sizes on the next fewer nodes */
};

static int edge_band(const struct lk_judged_set *s, bool largest)
{
    for (int i = 0; i < LK_BAND_COUNT; i++) {
        int b = largest ? LK_BAND_COUNT - 1 - i : i;

        if (s->bands[b].n)
            return b;
    }
    return 0;
}

/* Return the slowdown of the largest sizes on the next fewer nodes, of a set of the same collective
 * whose sizes end in the same band; NaN: there is none. */
static double top_of_fewer(const struct lk_verdicts *all, const struct lk_judged_set *s)
{
    const struct lk_judged_set *best = NULL;

    for (size_t i = 0; i < all->n; i++) {
        const struct lk_judged_set *o = &all->sets[i];

        if (o->at.coll == s->at.coll && o->at.algo == s->at.algo && o->at.nodes < s->at.nodes &&
            edge_band(o, true) == edge_band(s, true) && (!best || o->at.nodes > best->at.nodes))
            best = o;
    }
    return best ? lk_judged_slowdown(best, (enum lk_band)edge_band(best, true)) : NAN;
}

static double best_busbw(const struct lk_judged_set *s)
{
    double best = 0;

    for (size_t i = 0; i < s->n; i++)
        best = fmax(best, lk_judged_busbw(&s->at, (double)s->points[i].measured->bytes,
                                          s->points[i].measured->time_s.value));
    return best;
}

static struct features features_of(const struct lk_expectation *e, const struct lk_verdicts *all,
                                   const struct lk_judged_set *s)
{
    const struct lk_cluster *c = &e->machine;
    const int low = edge_band(s, false), high = edge_band(s, true);
    struct features f = {.machine = c, .set = s, .cards = lk_link_cards(c)};

    f.start = lk_judged_slowdown(s, (enum lk_band)low);
    f.top = lk_judged_slowdown(s, (enum lk_band)high);
    f.top_slow = s->bands[high].verdict == LK_JUDGEMENT_SLOW;
    f.cards_used = (double)f.cards / f.top;
    f.share_of_card = best_busbw(s) / c->inter.bandwidth_Bps.value;
    f.top_fewer = top_of_fewer(all, s);
    return f;
}

/* ---- Predicates ---- */

static bool between_nodes(const struct features *f)
{
    return f->set->at.nodes > 1;
}

/* Fewer nodes reach what they should, more do not: whoever joined is slow. */
static bool is_joined_node(const struct features *f)
{
    static const double MORE = 1.5;

    return between_nodes(f) && f->top_slow && f->top > MORE * f->top_fewer;
}

/* Sizes in the middle are the slowest, and larger ones are not, or are even faster: no link does
 * that. */
static bool is_cliff(const struct features *f)
{
    const int low = edge_band(f->set, false), high = edge_band(f->set, true);
    double most = 0;

    for (int b = 0; b < LK_BAND_COUNT; b++)
        if (f->set->bands[b].falls)
            return true;
    for (int b = low + 1; b < high; b++)
        if (f->set->bands[b].verdict == LK_JUDGEMENT_SLOW)
            most = fmax(most, lk_judged_slowdown(f->set, (enum lk_band)b));
    return !f->top_slow && most > f->start && most > f->top;
}

static bool is_latency(const struct features *f)
{
    static const double MORE = 4;

    return (!f->top_slow || f->start > MORE * f->top) &&
           f->set->bands[edge_band(f->set, false)].verdict == LK_JUDGEMENT_SLOW;
}

/* Slower than one card of the expected network, which one card alone cannot explain. */
static bool is_other_network(const struct features *f)
{
    static const double BELOW = 0.3;

    return between_nodes(f) && f->top_slow && f->top > 1 / BELOW && f->share_of_card < BELOW;
}

static bool is_one_rail(const struct features *f)
{
    static const double LEAST = 0.6, MOST = 1.3;

    return between_nodes(f) && f->top_slow && f->cards > 1 &&
           ((f->cards_used > LEAST && f->cards_used < MOST) ||
            (f->share_of_card > LEAST && f->share_of_card < 1.1));
}

/* Half of the cards, a quarter of them. */
static bool is_few_rails(const struct features *f)
{
    static const double ALIKE = 0.15;
    const double whole = fmax(1, round(f->cards_used));

    return between_nodes(f) && f->top_slow && f->cards > 2 && whole <= f->cards / 2 &&
           f->cards % (int)whole == 0 && fabs(f->cards_used / whole - 1) < ALIKE;
}

static bool is_slow_node(const struct features *f)
{
    static const double MOST = 4;

    return between_nodes(f) && f->top_slow && f->top < MOST;
}

/* Runs on fewer nodes are as slow: what they lack, all nodes lack. */
static bool is_of_all_nodes(const struct features *f)
{
    static const double ALIKE = 1.25;

    return f->top < ALIKE * f->top_fewer && f->top_fewer < ALIKE * f->top;
}

/* The more nodes, the likelier one of them. */
static bool is_one_of_many(const struct features *f)
{
    enum { MANY = 4 };

    return f->set->at.nodes >= MANY && is_slow_node(f) && !is_of_all_nodes(f);
}

/* GPUs that are joined to their CPU by NVLink lose a fifth without it (NVIDIA/nccl issue 1579). */
static bool is_superchip(const struct lk_cluster *c)
{
    return c->gpu && (!strncmp(c->gpu, "GH", 2) || !strncmp(c->gpu, "GB", 2));
}

/* Data may go through the host's memory. */
static bool is_without_gpudirect(const struct features *f)
{
    static const double LEAST = 1.6, MOST = 5;

    return between_nodes(f) && f->top_slow && f->top > LEAST && f->top < MOST &&
           f->machine->device.compute_capability > 0 && !is_superchip(f->machine);
}

/* Copies through the host's memory take the wire's time once more: half of the rate is what users
 * report (NVIDIA/nccl issue 465). Less than that has another cause, too. */
static bool is_half_rate(const struct features *f)
{
    static const double MOST = 2.4; /* tables of sound machines are up to a fifth from expected */

    return is_without_gpudirect(f) && !is_one_of_many(f) && f->top < MOST;
}

static bool is_without_nvlink(const struct features *f)
{
    const enum lk_gpu_link link = f->machine->topology.gpu_link;
    static const double LEAST = 2.5;

    return !between_nodes(f) && f->top_slow && f->top > LEAST &&
           (link == LK_GPU_LINK_NVSWITCH || link == LK_GPU_LINK_NVLINK);
}

static bool is_latency_of_hosts(const struct features *f)
{
    return is_latency(f) && !between_nodes(f);
}

/* All of the largest sizes are slow, not one beside a larger one that is not. */
static bool is_busy_node(const struct features *f)
{
    return !between_nodes(f) && f->top_slow && !f->set->bands[edge_band(f->set, true)].falls;
}

/* ---- The table ---- */

#define SLOW_NODE                                                                                  \
    {                                                                                              \
        "slow_node", "one node or its link is slower than the others",                             \
            "calibrate --pairs, or the same sizes on halves of the nodes"                          \
    }

#define NO_GPUDIRECT                                                                               \
    {                                                                                              \
        "no_gpudirect", "data go through the host's memory: GPUDirect RDMA is off",                \
            "NCCL_DEBUG=INFO prints GDRDMA behind each channel; nvidia-peermem or dma-buf, ACS, "  \
            "IOMMU"                                                                                \
    }

static const struct {
    bool (*fits)(const struct features *f);
    struct lk_suspect suspect;
} rows[] = {
    {is_joined_node,
     {"slow_node", "a node that the smaller runs did not have is slow, or its link is",
      "calibrate --pairs, or the same sizes on other subsets of the nodes"}},
    {is_cliff,
     {"protocol_cliff", "NCCL chooses a slow protocol or algorithm for these sizes (LL's cliff)",
      "NCCL_DEBUG_SUBSYS=TUNING shows the choice; NCCL_PROTO=Simple and NCCL_ALGO=Ring change it"}},
    {is_latency_of_hosts,
     {"latency", "each call takes long to start: a busy host, or processors that sleep",
      "load and frequency of the host's processors; the same sizes in a CUDA graph"}},
    {is_latency,
     {"latency",
      "each call takes long to start: a busy host, processors that sleep, a path through "
      "the kernel",
      "load and frequency of the hosts; ib_write_lat or fi_pingpong between two nodes"}},
    {is_other_network,
     {"other_network", "traffic goes over another network card or over TCP sockets",
      "NCCL_DEBUG=INFO prints the network and its cards (NET/IB, NET/OFI, NET/Socket); "
      "NCCL_IB_HCA, NCCL_NET and NCCL_SOCKET_IFNAME choose"}},
    {is_one_rail,
     {"one_rail", "traffic goes over one network card of the node's",
      "NCCL_DEBUG=INFO lists the cards in use; NCCL_IB_HCA, PCI switches, devices in the "
      "container"}},
    {is_half_rate, NO_GPUDIRECT},
    {is_few_rails,
     {"few_rails", "traffic goes over a part of the node's network cards",
      "NCCL_DEBUG=INFO lists the cards in use; ports that are down (ibstat)"}},
    {is_one_of_many, SLOW_NODE},
    {is_slow_node, SLOW_NODE},
    {is_without_gpudirect, NO_GPUDIRECT},
    {is_without_nvlink,
     {"no_nvlink", "GPUs of the node do not use NVLink: data go over PCIe or the host's memory",
      "nvidia-smi nvlink -s, nvidia-smi topo -m; NCCL_DEBUG=INFO prints P2P or SHM"}},
    {is_busy_node,
     {"busy_node", "a GPU or link of the node is slow, or others use it",
      "nvidia-smi -q -d CLOCK,PERFORMANCE; the same sizes on halves of the GPUs"}},
};

static bool is_listed(const struct lk_suspect *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i]->name, name))
            return true;
    return false;
}

void lk_suspects_of(const struct lk_expectation *e, const struct lk_verdicts *all,
                    const struct lk_judged_set *s, const struct lk_suspect **out, size_t *out_n)
{
    const struct features f = features_of(e, all, s);
    bool slow = false;

    *out_n = 0;
    for (int b = 0; b < LK_BAND_COUNT; b++)
        slow |= s->bands[b].n && s->bands[b].verdict == LK_JUDGEMENT_SLOW;
    for (size_t i = 0; slow && i < LK_COUNT(rows) && *out_n < LK_SUSPECTS_MAX; i++)
        if (rows[i].fits(&f) && !is_listed(out, *out_n, rows[i].suspect.name))
            out[(*out_n)++] = &rows[i].suspect;
}
