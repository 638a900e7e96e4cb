/* The constants of NCCL's cost model. Lines are those of NCCL v2.28.9-1. */
#include "sim/nccl_constants.h"

#include <math.h>

/* By nodes: 1, 2, more. */
enum { NODE_COLUMNS = 3 };

static int node_column(int nodes)
{
    return nodes < NODE_COLUMNS ? nodes - 1 : NODE_COLUMNS - 1;
}

static const char *const proto_names[LK_NCCL_PROTO_COUNT] = {
#define LK_NCCL_PROTO_ROW_(proto, name) [proto] = (name),
    LK_NCCL_PROTO_LIST(LK_NCCL_PROTO_ROW_)
#undef LK_NCCL_PROTO_ROW_
};

const char *lk_nccl_proto_name(enum lk_nccl_proto p)
{
    return proto_names[p];
}

enum lk_nccl_gen lk_nccl_gen_of(int compute_capability)
{
    return compute_capability >= 100  ? LK_NCCL_BLACKWELL
           : compute_capability >= 90 ? LK_NCCL_HOPPER
           : compute_capability >= 80 ? LK_NCCL_AMPERE
                                      : LK_NCCL_VOLTA;
}

/* us; tuning.cc:134-150, baseLatencies. LL, LL128, Simple. */
static const double base_us[LK_ALGO_COUNT][LK_NCCL_PROTO_COUNT] = {
    [LK_ALGO_TREE] = {6.8, 14.0, 8.4},
    [LK_ALGO_RING] = {6.6, 14.0, 8.4},
    [LK_ALGO_PAT] = {8,   8,    8  },
};

double lk_nccl_base_us(enum lk_algo algo, enum lk_nccl_proto p)
{
    return base_us[algo][p];
}

/* us; tuning.cc:151-199, hwLatencies. LL, LL128, Simple; algorithms with Simple only have 0. */
static const double nvlink_us[LK_ALGO_COUNT][LK_NCCL_PROTO_COUNT] = {
    [LK_ALGO_TREE] = {.6, 1.25, 4.0},
    [LK_ALGO_RING] = {.6, 1.9,  3.4},
    [LK_ALGO_COLLNET_DIRECT] = {0,  0,    3.7},
    [LK_ALGO_COLLNET_CHAIN] = {0,  0,    2.8},
    [LK_ALGO_NVLS] = {0,  0,    25 },
    [LK_ALGO_NVLS_TREE] = {0,  0,    25 },
    [LK_ALGO_PAT] = {0,  0,    4.0},
};

static const double pci_us[LK_ALGO_COUNT][LK_NCCL_PROTO_COUNT] = {
    [LK_ALGO_TREE] = {1.0, 1.9, 4.0},
    [LK_ALGO_RING] = {1.0, 2.5, 5.7},
    [LK_ALGO_COLLNET_DIRECT] = {0,   0,   3.7},
    [LK_ALGO_COLLNET_CHAIN] = {0,   0,   2.8},
    [LK_ALGO_PAT] = {0,   0,   4.0},
};

static const double net_us[LK_ALGO_COUNT][LK_NCCL_PROTO_COUNT] = {
    [LK_ALGO_TREE] = {5.0, 8.5, 14  },
    [LK_ALGO_RING] = {2.7, 4.0, 14.0},
    [LK_ALGO_COLLNET_DIRECT] = {0,   0,   31  },
    [LK_ALGO_COLLNET_CHAIN] = {0,   0,   30  },
    [LK_ALGO_NVLS] = {0,   0,   18  },
    [LK_ALGO_NVLS_TREE] = {0,   0,   20.9},
    [LK_ALGO_PAT] = {0,   0,   14  },
};

double lk_nccl_hop_us(enum lk_nccl_wire wire, enum lk_algo algo, enum lk_nccl_proto p)
{
    return wire == LK_NCCL_NVLINK ? nvlink_us[algo][p]
           : wire == LK_NCCL_PCI  ? pci_us[algo][p]
                                  : net_us[algo][p];
}

/* GB/s; tuning.cc:160-199, llMaxBws. On one node a row is the generation's; on more, the first is
 * Intel's and others' CPUs, the second AMD's. */
static const double ll_max[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {39.0,  39.0, 20.4},
    {87.7,  22.5, 19.0},
    {141.0, 45.0, 35.0},
    {282.0, 90.0, 70.0}
};

double lk_nccl_ll_max(enum lk_nccl_gen gen, int nodes, bool amd_cpu)
{
    return ll_max[nodes == 1 ? gen : amd_cpu ? 1 : 0][node_column(nodes)];
}

/* GB/s of a channel; tuning.cc:160-199. Volta, Ampere, Hopper, Blackwell by nodes. */
static const double ring_ll128[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {20,   20,   20  },
    {20,   20,   20  },
    {36.7, 36.7, 36.7},
    {73.4, 34.6, 73.4}
};
static const double tree_ll128[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {20,   20,    20},
    {20,   20,    20},
    {36.7, 36.7,  29},
    {55.6, 31.67, 20}
};
static const double tree_cap[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {26.5, 18.5, 10  },
    {24,   23.6, 17.8},
    {38.7, 41.4, 36  },
    {70,   42.8, 24  }
};
static const double nvls_tree_cap[LK_NCCL_GEN_COUNT][NODE_COLUMNS] = {
    {26.5, 18.5, 10  },
    {24,   23.6, 17.8},
    {0,    57.7, 45.5},
    {0,    96,   43.8}
};

double lk_nccl_channel_cap(enum lk_nccl_cap cap, enum lk_nccl_gen gen, int nodes)
{
    static const double(*const tables[LK_NCCL_CAP_COUNT])[NODE_COLUMNS] = {ring_ll128, tree_ll128,
                                                                           tree_cap, nvls_tree_cap};

    return tables[cap][gen][node_column(nodes)];
}

double lk_nccl_nvls_efficiency(enum lk_nccl_gen gen)
{
    /* tuning.cc:160-199, nvlsEfficiency. */
    static const double rows[LK_NCCL_GEN_COUNT] = {0, 0, 0.85, 0.74};

    return rows[gen];
}

/* tuning.cc:578-582, treeCorrectionFactor: by floor(log2(bytes / 64)), 64 B to 256 MB. */
enum { TREE_COLUMNS = 23, TREE_FIRST_BYTES = 64 };
static const double tree_ll[TREE_COLUMNS] = {1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                             .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1};
static const double tree_128[TREE_COLUMNS] = {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                              .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1};
static const double tree_simple[TREE_COLUMNS] = {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                                 .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9};

double lk_nccl_tree_correction(enum lk_nccl_proto p, double bytes)
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

static const double numbers[LK_NCCL_NUMBER_COUNT] = {
#define LK_NCCL_NUMBER_ROW_(name, value, unit, source) [name] = (value),
    LK_NCCL_NUMBER_LIST(LK_NCCL_NUMBER_ROW_)
#undef LK_NCCL_NUMBER_ROW_
};

double lk_nccl_number(enum lk_nccl_number n)
{
    return numbers[n];
}

/* GB/s; src/graph/search.cc:976-989. */
static const double intra_80[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
static const double inter_80[] = {48, 30, 28, 24, 20, 18,  15,  12,  10, 9,
                                  7,  6,  5,  4,  3,  2.4, 1.2, .24, .12};
static const double intra_90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
static const double inter_90[] = {48, 45, 42, 40, 30,  24,  22,  20, 17.5,
                                  15, 12, 6,  3,  2.4, 1.2, .24, .12};
static const double intra_100[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
static const double inter_100[] = {96,   48, 45.1, 42, 40, 30,  24,  22,  20,
                                   17.5, 15, 12,   6,  3,  2.4, 1.2, .24, .12};

static const struct {
    const double *intra, *inter;
    size_t n_intra, n_inter;
} speeds[LK_NCCL_GEN_COUNT] = {
#define LK_NCCL_SPEEDS_(a, b)                                                                      \
    {                                                                                              \
        a, b, sizeof(a) / sizeof(a)[0], sizeof(b) / sizeof(b)[0]                                   \
    }
    [LK_NCCL_VOLTA] = LK_NCCL_SPEEDS_(intra_80, inter_80),
    [LK_NCCL_AMPERE] = LK_NCCL_SPEEDS_(intra_80, inter_80),
    [LK_NCCL_HOPPER] = LK_NCCL_SPEEDS_(intra_90, inter_90),
    [LK_NCCL_BLACKWELL] = LK_NCCL_SPEEDS_(intra_100, inter_100),
#undef LK_NCCL_SPEEDS_
};

const double *lk_nccl_speeds(enum lk_nccl_gen gen, bool inter, size_t *out_n)
{
    *out_n = inter ? speeds[gen].n_inter : speeds[gen].n_intra;
    return inter ? speeds[gen].inter : speeds[gen].intra;
}

/*
 * GB/s of one NVLink, one direction: what NCCL counts (topo.h:17-22, topo.cc:263-272), the line
 * rate of the same link, and the links of the largest GPU (NVIDIA's architecture papers). Newest
 * first.
 */
static const struct {
    int compute_capability;
    double counted_GBps, line_GBps;
    int links;
} nvlinks[] = {
    {100, 40.1, 50,      18},
    {90,  20.6, 25,      18},
    {86,  12,   14.0625, 4 },
    {80,  20,   25,      12},
    {70,  20,   25,      6 },
    {60,  18,   20,      4 }
};

double lk_nccl_nvlink_GBps(int compute_capability, double GBps)
{
    size_t i = 0;

    while (i + 1 < sizeof nvlinks / sizeof nvlinks[0] &&
           compute_capability < nvlinks[i].compute_capability)
        i++;
    if (GBps <= nvlinks[i].counted_GBps * nvlinks[i].links)
        return GBps;
    return fmin(nvlinks[i].links, round(GBps / nvlinks[i].line_GBps)) * nvlinks[i].counted_GBps;
}
