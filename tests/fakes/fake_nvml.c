#include "tests/fakes/fake_nvml.h"

#include "base/clock.h"
#include "tests/rigs/waits.h"

#include <check.h>
#include <string.h>

/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): NVML passes no context */
struct fake_nvml fake_nvml;

struct nvmlDevice_st {
    int number;
};
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): handles are not const */
static struct nvmlDevice_st gpu = {1}, part = {2};

void fake_nvml_reset(void)
{
    memset(&fake_nvml, 0, sizeof fake_nvml);
    atomic_store(&fake_nvml.lost_after, -1);
    atomic_store(&fake_nvml.sm_clock_mhz, 1755);
    atomic_store(&fake_nvml.power_mw, 640000);
    atomic_store(&fake_nvml.energy_mj, 5000000);
    atomic_store(&fake_nvml.energy_a_read_mj, 6400);
}

static int init(void)
{
    int code = atomic_load(&fake_nvml.init_code);

    if (code == NVML_OK)
        atomic_fetch_add(&fake_nvml.initialised, 1);
    return code;
}

static int shut_down(void)
{
    atomic_fetch_sub(&fake_nvml.initialised, 1);
    return NVML_OK;
}

static const char *error_string(int code)
{
    return code == NVML_DRIVER_NOT_LOADED ? "Driver Not Loaded"
           : code == NVML_GPU_IS_LOST     ? "GPU is lost"
           : code == NVML_NOT_FOUND       ? "Not Found"
                                          : "Unknown Error";
}

static int device_by_uuid(const char *uuid, struct nvmlDevice_st **out)
{
    if (!strcmp(uuid, FAKE_NVML_GPU))
        *out = &gpu;
    else if (!strncmp(uuid, "MIG", 3) && !strcmp(uuid + 3, &FAKE_NVML_PART[3]))
        *out = &part;
    else
        return NVML_NOT_FOUND;
    return NVML_OK;
}

static int device_of_mig(struct nvmlDevice_st *mig, struct nvmlDevice_st **out)
{
    if (mig != &part)
        return NVML_INVALID_ARGUMENT;
    *out = &gpu;
    return NVML_OK;
}

/* Read the clock; a GPU instance has none of its own. */
static int clock_now(struct nvmlDevice_st *device, int kind, unsigned int *out)
{
    if (device != &gpu)
        return NVML_NOT_SUPPORTED;
    while (kind == NVML_SM_CLOCK && atomic_load(&fake_nvml.hang)) {
        atomic_store(&fake_nvml.hanging, 1);
        lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
    }
    if (kind == NVML_SM_CLOCK) {
        int reads = atomic_fetch_add(&fake_nvml.clock_reads, 1);
        int limit = atomic_load(&fake_nvml.lost_after);

        if (limit >= 0 && reads >= limit)
            return NVML_GPU_IS_LOST;
    }
    *out = kind == NVML_SM_CLOCK ? (unsigned)atomic_load(&fake_nvml.sm_clock_mhz) : 2619;
    return NVML_OK;
}

static int max_clock(struct nvmlDevice_st *device, int kind, unsigned int *out)
{
    *out = kind == NVML_SM_CLOCK ? 1980 : 2619;
    return device == &gpu ? NVML_OK : NVML_NOT_SUPPORTED;
}

static int power(struct nvmlDevice_st *device, unsigned int *out)
{
    (void)device;
    atomic_fetch_add(&fake_nvml.power_reads, 1);
    *out = (unsigned)atomic_load(&fake_nvml.power_mw);
    return atomic_load(&fake_nvml.power_code);
}

static int temperature(struct nvmlDevice_st *device, int sensor, unsigned int *out)
{
    (void)device;
    *out = 61;
    return sensor == NVML_TEMPERATURE_OF_GPU ? NVML_OK : NVML_INVALID_ARGUMENT;
}

static int max_power(struct nvmlDevice_st *device, unsigned int *out)
{
    (void)device;
    *out = 700000;
    return NVML_OK;
}

static int energy(struct nvmlDevice_st *device, unsigned long long *out)
{
    (void)device;
    *out = atomic_fetch_add(&fake_nvml.energy_mj, atomic_load(&fake_nvml.energy_a_read_mj));
    return NVML_OK;
}

static int reasons(struct nvmlDevice_st *device, unsigned long long *out)
{
    (void)device;
    *out = atomic_load(&fake_nvml.reasons);
    return NVML_OK;
}

/* Report 18 links, one of which is down; refuse the next. */
static int nvlink(struct nvmlDevice_st *device, unsigned int link, unsigned int *active)
{
    (void)device;
    *active = link != 5;
    return atomic_load(&fake_nvml.links_code) ? atomic_load(&fake_nvml.links_code)
           : link < 18                        ? NVML_OK
                                              : NVML_INVALID_ARGUMENT;
}

static int pcie_generation(struct nvmlDevice_st *device, unsigned int *out)
{
    (void)device;
    *out = 5;
    return atomic_load(&fake_nvml.links_code);
}

static int pcie_width(struct nvmlDevice_st *device, unsigned int *out)
{
    (void)device;
    *out = 16;
    return NVML_OK;
}

const struct lk_nvml_calls fake_nvml_calls = {
    .init = init,
    .shutdown = shut_down,
    .error_string = error_string,
    .device_by_uuid = device_by_uuid,
    .device_of_mig = device_of_mig,
    .clock = clock_now,
    .max_clock = max_clock,
    .power = power,
    .temperature = temperature,
    .max_power = max_power,
    .energy = energy,
    .reasons = reasons,
    .nvlink = nvlink,
    .pcie_generation = pcie_generation,
    .pcie_width = pcie_width,
};

void fake_nvml_wait_total(int reads)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);

    while (atomic_load(&fake_nvml.clock_reads) < reads && lk_deadline_left_ns(end) > 0)
        lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS / 4);
    ck_assert_int_ge(atomic_load(&fake_nvml.clock_reads), reads);
}

void fake_nvml_wait_reads(int more)
{
    fake_nvml_wait_total(atomic_load(&fake_nvml.clock_reads) + more);
}
