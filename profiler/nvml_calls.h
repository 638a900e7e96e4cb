/*
 * Private to profiler/nvml*.c and their tests: the part of NVML that is used, as a table. NVML
 * comes with the driver, and its header not with every toolkit, so its prototypes are written down
 * here, as NVIDIA's NVML API Reference Guide (R550) has them; the numbers are the library's
 * interface and do not change. A name with _v2 is what nvml.h makes of the name without.
 */
#ifndef LK_PROFILER_NVML_CALLS_H
#define LK_PROFILER_NVML_CALLS_H

struct nvmlDevice_st; /* NVML's own */

/* nvmlReturn_t: those that are told apart here. */
enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16
};
/* nvmlClockType_t, nvmlTemperatureSensors_t */
enum { NVML_SM_CLOCK = 1, NVML_MEMORY_CLOCK = 2 };
enum { NVML_TEMPERATURE_OF_GPU = 0 };

typedef int lk_nvml_unsigned(struct nvmlDevice_st *device, unsigned int *out);
typedef int lk_nvml_u64(struct nvmlDevice_st *device, unsigned long long *out);
typedef int lk_nvml_kind(struct nvmlDevice_st *device, int kind, unsigned int *out);

/* Those that may be NULL came with later drivers or may go with later ones. */
struct lk_nvml_calls {
    int (*init)(void);     /* nvmlInit_v2 */
    int (*shutdown)(void); /* nvmlShutdown */
    const char *(*error_string)(int);
    /* nvmlDeviceGetHandleByUUID: "GPU-..." or "MIG-..." */
    int (*device_by_uuid)(const char *uuid, struct nvmlDevice_st **out);
    /* nvmlDeviceGetDeviceHandleFromMigDeviceHandle. NULL: a driver that knows no MIG */
    int (*device_of_mig)(struct nvmlDevice_st *mig, struct nvmlDevice_st **out);
    lk_nvml_kind *clock;         /* nvmlDeviceGetClockInfo, MHz */
    lk_nvml_kind *max_clock;     /* nvmlDeviceGetMaxClockInfo, MHz */
    lk_nvml_unsigned *power;     /* nvmlDeviceGetPowerUsage, mW */
    lk_nvml_kind *temperature;   /* nvmlDeviceGetTemperature, degrees C. May be NULL */
    lk_nvml_unsigned *max_power; /* nvmlDeviceGetEnforcedPowerLimit, mW. May be NULL */
    lk_nvml_u64 *energy;         /* nvmlDeviceGetTotalEnergyConsumption, mJ. May be NULL */
    /* nvmlDeviceGetCurrentClocksEventReasons, before driver 535 ...ThrottleReasons. May be NULL */
    lk_nvml_u64 *reasons;
    /* nvmlDeviceGetNvLinkState: 1 is active. May be NULL */
    int (*nvlink)(struct nvmlDevice_st *device, unsigned int link, unsigned int *active);
    /* nvmlDeviceGetMaxPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkWidth: of GPU and slot together.
     * May be NULL */
    lk_nvml_unsigned *pcie_generation, *pcie_width;
};
enum { NVML_NVLINKS_MAX = 36 }; /* NVML_NVLINK_MAX_LINKS is 18 as yet; beyond, it refuses */

#endif
