/*
 * Private to profiler/record/nvml.c and their tests: the NVML functions in use, as a table. NVML
 * comes with the driver, and not every toolkit has its header, so its prototypes are written down
 * here, as in NVIDIA's NVML API Reference Guide (R550); the numbers are the library's ABI and do
 * not change. For a name with _v2, nvml.h defines the name without it as a macro.
 */
#ifndef LK_PROFILER_RECORD_NVML_CALLS_H
#define LK_PROFILER_RECORD_NVML_CALLS_H

struct nvmlDevice_st; /* NVML's own */

/* nvmlReturn_t: the values distinguished here. */
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

typedef int lk_nvml_plain(void);
typedef const char *lk_nvml_text(int code);
typedef int lk_nvml_by_uuid(const char *uuid, struct nvmlDevice_st **out);
typedef int lk_nvml_of_mig(struct nvmlDevice_st *mig, struct nvmlDevice_st **out);
typedef int lk_nvml_unsigned(struct nvmlDevice_st *device, unsigned int *out);
typedef int lk_nvml_u64(struct nvmlDevice_st *device, unsigned long long *out);
typedef int lk_nvml_kind(struct nvmlDevice_st *device, int kind, unsigned int *out);
typedef int lk_nvml_link(struct nvmlDevice_st *device, unsigned int link, unsigned int *active);

/* clang-format off */
/* X(member, type, function): what every driver has. A UUID is "GPU-..." or "MIG-..."; clocks are in
 * MHz, power in mW. */
#define LK_NVML_CALL_LIST(X)                                                                       \
    X(init,           lk_nvml_plain,    "nvmlInit_v2")                                             \
    X(shutdown,       lk_nvml_plain,    "nvmlShutdown")                                            \
    X(error_string,   lk_nvml_text,     "nvmlErrorString")                                         \
    X(device_by_uuid, lk_nvml_by_uuid,  "nvmlDeviceGetHandleByUUID")                               \
    X(clock,          lk_nvml_kind,     "nvmlDeviceGetClockInfo")                                  \
    X(max_clock,      lk_nvml_kind,     "nvmlDeviceGetMaxClockInfo")                               \
    X(power,          lk_nvml_unsigned, "nvmlDeviceGetPowerUsage")
/* These members may be NULL: they exist in later drivers only, or may disappear in later
 * ones. Degrees C, mW, mJ; 1 for an active link; the PCIe of GPU and slot together. */
#define LK_NVML_SOMETIMES_LIST(X)                                                                  \
    X(device_of_mig,   lk_nvml_of_mig,   "nvmlDeviceGetDeviceHandleFromMigDeviceHandle")           \
    X(temperature,     lk_nvml_kind,     "nvmlDeviceGetTemperature")                               \
    X(max_power,       lk_nvml_unsigned, "nvmlDeviceGetEnforcedPowerLimit")                        \
    X(energy,          lk_nvml_u64,      "nvmlDeviceGetTotalEnergyConsumption")                    \
    X(reasons,         lk_nvml_u64,      "nvmlDeviceGetCurrentClocksEventReasons")                 \
    X(nvlink,          lk_nvml_link,     "nvmlDeviceGetNvLinkState")                               \
    X(pcie_generation, lk_nvml_unsigned, "nvmlDeviceGetMaxPcieLinkGeneration")                     \
    X(pcie_width,      lk_nvml_unsigned, "nvmlDeviceGetMaxPcieLinkWidth")
/* clang-format on */

struct lk_nvml_calls {
#define LK_NVML_MEMBER_(member, type, function) type *member;
    LK_NVML_CALL_LIST(LK_NVML_MEMBER_)
    LK_NVML_SOMETIMES_LIST(LK_NVML_MEMBER_)
#undef LK_NVML_MEMBER_
};
enum { NVML_NVLINKS_MAX = 36 }; /* NVML_NVLINK_MAX_LINKS is 18 as yet; beyond, it refuses */

#endif
