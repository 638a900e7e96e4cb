/* One GPU by NVML; see the header. */
#include "profiler/nvml.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/log.h"
#include "profiler/nvml_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lk_nvml {
    struct lk_nvml_calls call;
    struct lk_library *library; /* NULL: the caller's calls */
    struct nvmlDevice_st *gpu;
    bool initialised, instance;
    bool mute[LK_GPU_QUANTITY_COUNT]; /* the GPU does not say this */
};

/* ---- The library ---- */

#define SYMBOL(name, member)                                                                       \
    {                                                                                              \
        name, offsetof(struct lk_nvml_calls, member)                                               \
    }
static const struct lk_library_symbol symbols[] = {
    SYMBOL("nvmlInit_v2", init),
    SYMBOL("nvmlShutdown", shutdown),
    SYMBOL("nvmlErrorString", error_string),
    SYMBOL("nvmlDeviceGetHandleByUUID", device_by_uuid),
    SYMBOL("nvmlDeviceGetClockInfo", clock),
    SYMBOL("nvmlDeviceGetMaxClockInfo", max_clock),
    SYMBOL("nvmlDeviceGetPowerUsage", power),
};
/* The first name that the library has is taken. */
static const struct lk_library_symbol optional[] = {
    SYMBOL("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device_of_mig),
    SYMBOL("nvmlDeviceGetTemperature", temperature),
    SYMBOL("nvmlDeviceGetEnforcedPowerLimit", max_power),
    SYMBOL("nvmlDeviceGetTotalEnergyConsumption", energy),
    SYMBOL("nvmlDeviceGetCurrentClocksEventReasons", reasons),
    SYMBOL("nvmlDeviceGetCurrentClocksThrottleReasons", reasons),
    SYMBOL("nvmlDeviceGetNvLinkState", nvlink),
    SYMBOL("nvmlDeviceGetMaxPcieLinkGeneration", pcie_generation),
    SYMBOL("nvmlDeviceGetMaxPcieLinkWidth", pcie_width),
};
#undef SYMBOL

static const char *const files[] = {"libnvidia-ml.so.1", NULL};

static enum lk_status open_library(struct lk_nvml *n)
{
    const struct lk_library_spec spec = {
        .name = "NVML", .files = files, .symbols = symbols, .n_symbols = LK_COUNT(symbols)};
    enum lk_status st = LK_OK;

    LK_TRY(lk_library_open(&spec, &n->call, &n->library));
    for (size_t i = 0; i < LK_COUNT(optional); i++) {
        char *slot = (char *)&n->call + optional[i].offset;
        void (*known)(void);

        memcpy(&known, slot, sizeof known);
        if (!known)
            lk_library_function(n->library, optional[i].name, slot);
    }
out:
    return st;
}

/* ---- The GPU ---- */

static enum lk_status nvml_fail(const struct lk_nvml *n, int code, const char *what)
{
    enum lk_status st =
        code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED ? LK_EIO : LK_EUNSUPPORTED;

    return lk_fail(st, "NVML: %s: %s", what, n->call.error_string(code));
}

/* CUDA gives a GPU's instance a UUID that only its prefix tells from a GPU's. */
static int find_instance(struct lk_nvml *n, const char *uuid)
{
    struct nvmlDevice_st *instance = NULL;
    char text[96]; /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
    int code;

    if (!n->call.device_of_mig)
        return NVML_NOT_FOUND;
    (void)snprintf(text, sizeof text, "MIG-%s", uuid + 4);
    code = n->call.device_by_uuid(text, &instance);
    if (code == NVML_OK)
        code = n->call.device_of_mig(instance, &n->gpu);
    n->instance = code == NVML_OK;
    return code;
}

static enum lk_status find_gpu(struct lk_nvml *n, const char *uuid)
{
    bool instance = !strncmp(uuid, "MIG-", 4);
    int code = NVML_NOT_FOUND;

    if (!instance && strncmp(uuid, "GPU-", 4) != 0)
        return lk_fail(LK_EINTERNAL, "NVML: '%s' is no UUID of a GPU", uuid);
    if (!instance)
        code = n->call.device_by_uuid(uuid, &n->gpu);
    if (code == NVML_NOT_FOUND || code == NVML_INVALID_ARGUMENT)
        code = find_instance(n, uuid);
    return code == NVML_OK ? LK_OK : nvml_fail(n, code, uuid);
}

enum lk_status lk_nvml_open(const char *uuid, const struct lk_nvml_calls *calls,
                            struct lk_nvml **out)
{
    struct lk_nvml *n = NULL;
    enum lk_status st = LK_OK;
    int code;

    LK_TRY(lk_alloc(&n, 1, sizeof *n));
    if (calls)
        n->call = *calls;
    else
        LK_TRY(open_library(n));
    code = n->call.init();
    n->initialised = code == NVML_OK;
    if (!n->initialised)
        LK_TRY(nvml_fail(n, code, "nvmlInit"));
    LK_TRY(find_gpu(n, uuid));
    *out = n;
    n = NULL;
out:
    lk_nvml_close(n);
    return st;
}

void lk_nvml_close(struct lk_nvml *n)
{
    if (!n)
        return;
    if (n->initialised)
        (void)n->call.shutdown();
    lk_library_close(n->library);
    free(n);
}

static double max_clock_mhz(const struct lk_nvml *n, int kind)
{
    unsigned mhz;

    return n->call.max_clock(n->gpu, kind, &mhz) == NVML_OK ? (double)mhz : (double)NAN;
}

void lk_nvml_limits(struct lk_nvml *n, struct lk_gpu_limits *out)
{
    unsigned mw;

    *out = (struct lk_gpu_limits){.max_sm_clock_mhz = max_clock_mhz(n, NVML_SM_CLOCK),
                                  .max_memory_clock_mhz = max_clock_mhz(n, NVML_MEMORY_CLOCK),
                                  .power_limit_w = NAN,
                                  .instance = n->instance};
    if (n->call.max_power && n->call.max_power(n->gpu, &mw) == NVML_OK)
        out->power_limit_w = 1e-3 * mw;
}

static int count_nvlinks(const struct lk_nvml *n)
{
    int active = -1;

    for (unsigned link = 0; n->call.nvlink && link < NVML_NVLINKS_MAX; link++) {
        unsigned on = 0;

        if (n->call.nvlink(n->gpu, link, &on) == NVML_OK)
            active = (active < 0 ? 0 : active) + (on == 1);
    }
    return active;
}

static int ask(const struct lk_nvml *n, lk_nvml_unsigned *what)
{
    unsigned value;

    return what && what(n->gpu, &value) == NVML_OK ? (int)value : -1;
}

void lk_nvml_links(struct lk_nvml *n, struct lk_gpu_links *out)
{
    out->nvlinks = count_nvlinks(n);
    out->pcie_generation = ask(n, n->call.pcie_generation);
    out->pcie_lanes = ask(n, n->call.pcie_width);
}

bool lk_gpu_nvlinks_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT])
{
    (void)snprintf(text, LK_GPU_LINKS_TEXT, "%d", l->nvlinks);
    return l->nvlinks >= 0;
}

bool lk_gpu_pcie_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT])
{
    (void)snprintf(text, LK_GPU_LINKS_TEXT, "%d x%d", l->pcie_generation, l->pcie_lanes);
    return l->pcie_generation > 0 && l->pcie_lanes > 0;
}

/* ---- Samples ---- */

static int read_sm_clock(const struct lk_nvml *n, double *out)
{
    unsigned mhz = 0;
    int code = n->call.clock(n->gpu, NVML_SM_CLOCK, &mhz);

    *out = mhz;
    return code;
}

static int read_memory_clock(const struct lk_nvml *n, double *out)
{
    unsigned mhz = 0;
    int code = n->call.clock(n->gpu, NVML_MEMORY_CLOCK, &mhz);

    *out = mhz;
    return code;
}

static int read_power(const struct lk_nvml *n, double *out)
{
    unsigned mw = 0;
    int code = n->call.power(n->gpu, &mw);

    *out = 1e-3 * mw;
    return code;
}

static int read_temperature(const struct lk_nvml *n, double *out)
{
    unsigned c = 0;
    int code = NVML_NOT_SUPPORTED;

    if (n->call.temperature)
        code = n->call.temperature(n->gpu, NVML_TEMPERATURE_OF_GPU, &c);
    *out = c;
    return code;
}

static int read_reasons(const struct lk_nvml *n, double *out)
{
    unsigned long long bits = 0;
    int code = NVML_NOT_SUPPORTED;

    if (n->call.reasons)
        code = n->call.reasons(n->gpu, &bits);
    *out = (double)bits;
    return code;
}

static int read_energy(const struct lk_nvml *n, double *out)
{
    unsigned long long mj = 0;
    int code = NVML_NOT_SUPPORTED;

    if (n->call.energy)
        code = n->call.energy(n->gpu, &mj);
    *out = 1e-3 * (double)mj;
    return code;
}

static int (*const readers[LK_GPU_QUANTITY_COUNT])(const struct lk_nvml *, double *) = {
    [LK_GPU_SM_CLOCK_MHZ] = read_sm_clock, [LK_GPU_MEMORY_CLOCK_MHZ] = read_memory_clock,
    [LK_GPU_POWER_W] = read_power,         [LK_GPU_TEMPERATURE_C] = read_temperature,
    [LK_GPU_REASONS] = read_reasons,       [LK_GPU_ENERGY_J] = read_energy,
};

enum lk_status lk_nvml_read(struct lk_nvml *n, struct lk_gpu_sample *out)
{
    struct lk_gpu_sample sample = {.at_ns = lk_now_ns()};

    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++) {
        double value;
        int code = n->mute[q] ? NVML_NOT_SUPPORTED : readers[q](n, &value);

        if (code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED || code == NVML_UNINITIALIZED)
            return nvml_fail(n, code, lk_gpu_quantity_name((enum lk_gpu_quantity)q));
        n->mute[q] |= code == NVML_NOT_SUPPORTED;
        sample.value[q] = code == NVML_OK ? value : NAN;
    }
    *out = sample;
    return LK_OK;
}
