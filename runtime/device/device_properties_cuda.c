/* Properties of the device cuda: CUDA's facts about its GPU and the links between those it sees. */
#include "runtime/device/device_cuda.h"

#include <stdio.h>

int lk_cuda_priority(const struct cuda_device *g, enum lk_track_kind kind)
{
    int between = g->least_urgent - 1; /* if the GPU has so many */

    if (kind == LK_TRACK_COMM)
        return g->most_urgent;
    return kind == LK_TRACK_UPDATE || between <= g->most_urgent ? g->least_urgent : between;
}

enum lk_status lk_cuda_count(const struct lk_device_config *config, int *out)
{
    const struct lk_cuda_calls *call = config->cuda_calls ? config->cuda_calls : &lk_cuda_calls;

    return lk_cuda_status(call->GetDeviceCount(out), "device cuda");
}

/* Find out if all pairs of GPUs have the property. */
static enum lk_status all_pairs(const struct lk_cuda_calls *call, int gpus,
                                enum cudaDeviceP2PAttr property, bool *out)
{
    bool all = true;

    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++) {
            int has = 0;

            if (a == b)
                continue;
            LK_PASS(lk_cuda_status(call->DeviceGetP2PAttribute(&has, property, a, b),
                                   "the link between two GPUs"));
            all = all && has;
        }
    *out = all;
    return LK_OK;
}

/*
 * Find the link between the GPUs. Native atomic operations on a peer's memory mean NVLink; PCIe has
 * none. No GPU has had enough links to connect directly with seven others, so eight that are all
 * linked are linked by switches.
 */
static enum lk_status find_link(const struct lk_cuda_calls *call, int gpus, enum lk_gpu_link *out)
{
    enum { SWITCHED = 8 };
    bool atomics = false, access = false;

    *out = LK_GPU_LINK_UNKNOWN;
    if (gpus < 2)
        return LK_OK;
    LK_PASS(all_pairs(call, gpus, cudaDevP2PAttrNativeAtomicSupported, &atomics));
    LK_PASS(all_pairs(call, gpus, cudaDevP2PAttrAccessSupported, &access));
    if (atomics && access)
        *out = gpus >= SWITCHED ? LK_GPU_LINK_NVSWITCH : LK_GPU_LINK_NVLINK;
    else if (access)
        *out = LK_GPU_LINK_PCIE;
    return LK_OK;
}

enum lk_status lk_cuda_properties(const struct lk_device *d, struct lk_device_properties *out)
{
    const struct cuda_device *g = device_of(d);

    LK_PASS(lk_cuda_status(g->call->GetDeviceCount(&out->gpus), "device cuda"));
    snprintf(out->name, sizeof out->name, "%s", g->name);
    out->compute_capability = 10 * g->major + g->minor;
    out->memory_bytes = g->memory_bytes;
    out->multiprocessors = g->multiprocessors;
    return find_link(g->call, out->gpus, &out->link);
}
