/* Properties of the device cuda: CUDA's facts about its GPU and the links between those it sees. */
#include "runtime/device/calls_cuda.h"
#include "runtime/device/device_impl.h"

#include <stdio.h>

static const struct lk_cuda_calls *calls_of(const struct lk_device_config *config)
{
    return config->cuda_calls ? config->cuda_calls : &lk_cuda_calls;
}

enum lk_status lk_cuda_count(const struct lk_device_config *config, int *out)
{
    return lk_cuda_status(calls_of(config)->GetDeviceCount(out), "device cuda");
}

/* Find out if all pairs of GPUs have the property. */
static enum lk_status all_pairs(const struct lk_cuda_calls *call, int gpus,
                                enum cudaDeviceP2PAttr property, bool *out)
{
    enum lk_status st = LK_OK;
    bool all = true;

    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++) {
            int has = 0;

            if (a == b)
                continue;
            LK_TRY(lk_cuda_status(call->DeviceGetP2PAttribute(&has, property, a, b),
                                  "the link between two GPUs"));
            all = all && has;
        }
    *out = all;
out:
    return st;
}

/*
 * Find the link between the GPUs. Native atomic operations on a peer's memory mean NVLink; PCIe has
 * none. No GPU has had enough links to connect directly with seven others, so eight that are all
 * linked are linked by switches.
 */
static enum lk_status find_link(const struct lk_cuda_calls *call, int gpus, enum lk_gpu_link *out)
{
    enum { SWITCHED = 8 };
    enum lk_status st = LK_OK;
    bool atomics = false, access = false;

    *out = LK_GPU_LINK_UNKNOWN;
    if (gpus < 2)
        return LK_OK;
    LK_TRY(all_pairs(call, gpus, cudaDevP2PAttrNativeAtomicSupported, &atomics));
    LK_TRY(all_pairs(call, gpus, cudaDevP2PAttrAccessSupported, &access));
    if (atomics && access)
        *out = gpus >= SWITCHED ? LK_GPU_LINK_NVSWITCH : LK_GPU_LINK_NVLINK;
    else if (access)
        *out = LK_GPU_LINK_PCIE;
out:
    return st;
}

enum lk_status lk_cuda_properties(const struct lk_device *d, struct lk_device_properties *out)
{
    const struct lk_cuda_calls *call = calls_of(&d->config);
    struct cudaDeviceProp properties;
    enum lk_status st = LK_OK;
    int gpu = 0;

    LK_TRY(lk_cuda_status(call->GetDeviceCount(&out->gpus), "device cuda"));
    LK_TRY(lk_cuda_status(call->GetDevice(&gpu), "device cuda"));
    LK_TRY(lk_cuda_status(call->GetDeviceProperties(&properties, gpu), "device cuda"));
    snprintf(out->name, sizeof out->name, "%s", properties.name);
    out->compute_capability = 10 * properties.major + properties.minor;
    out->memory_bytes = properties.totalGlobalMem;
    out->multiprocessors = properties.multiProcessorCount;
    LK_TRY(find_link(call, out->gpus, &out->link));
out:
    return st;
}
