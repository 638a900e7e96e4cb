/*
 * Read a GPU's clock, power, temperature and throttling through NVML (libnvidia-ml.so.1, which
 * comes with the driver and is opened at run time).
 *
 * Once, e.g. beside a measurement:
 *
 *     LK_TRY(lk_nvml_open(uuid, NULL, &nvml));
 *     lk_nvml_read(nvml, &sample);
 *
 * Or periodically, on a thread of its own, during a run:
 *
 *     LK_TRY(lk_nvml_sampler_start(nvml, &config, &sampler));
 *     ... warm-up ...
 *     lk_nvml_sampler_restart(sampler);
 *     ... what counts ...
 *     LK_TRY(lk_nvml_sampler_stop(sampler, &summary));
 *
 * For a GPU instance (MIG) clock and power are those of the whole GPU.
 */
#ifndef LK_PROFILER_RECORD_NVML_H
#define LK_PROFILER_RECORD_NVML_H

#include "base/status.h"
#include "facts/span.h"
#include "profiler/record/gpu_state.h"

#include <stdbool.h>

struct lk_nvml_calls;
struct lk_nvml;
struct lk_nvml_sampler;

/*
 * Open the GPU with this UUID, as nvidia-smi and CUDA write it ("GPU-..."; "MIG-..." for an
 * instance, also when it is given as "GPU-..."). calls NULL: the driver's. LK_EUNSUPPORTED: there
 * is no NVML, no driver, or no such GPU.
 */
enum lk_status lk_nvml_open(const char *uuid, const struct lk_nvml_calls *calls,
                            struct lk_nvml **out);
void lk_nvml_close(struct lk_nvml *n); /* NULL is legal */

/* Limits of the GPU, which do not change. NaN: the GPU does not report it. */
struct lk_gpu_limits {
    double max_sm_clock_mhz, max_memory_clock_mhz, power_limit_w;
    bool instance; /* the UUID was that of a GPU instance (MIG) */
};
void lk_nvml_limits(struct lk_nvml *n, struct lk_gpu_limits *out);

/* Links of the GPU to others and to its host. -1: the GPU does not report it. */
struct lk_gpu_links {
    int nvlinks; /* active ones */
    int pcie_generation, pcie_lanes;
};
void lk_nvml_links(struct lk_nvml *n, struct lk_gpu_links *out);
enum { LK_GPU_LINKS_TEXT = 32 };
/* Format "18", and "5 x16": generation and lanes. False: the GPU does not report it. */
bool lk_gpu_nvlinks_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT]);
bool lk_gpu_pcie_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT]);
/* Their keys in traces and cluster files. */
#define LK_GPU_CONFIG_NVLINKS "gpu_nvlinks"
#define LK_GPU_CONFIG_PCIE    "gpu_pcie"

/* Read the current state. A quantity once reported as unsupported is not asked for again. LK_EIO
 * when the GPU is lost. One thread at a time. */
enum lk_status lk_nvml_read(struct lk_nvml *n, struct lk_gpu_sample *out);

struct lk_nvml_sampler_config {
    struct lk_recorder *recorder; /* NULL: no spans. Outlives the sampler */
    double period_s;              /* between samples; at least one is taken */
    double timeout_s;             /* how long stopping waits for a driver that hangs */
};

/*
 * Start a thread that samples, and emits COUNTER spans on a track "GPU". The sampler then owns n,
 * and its stop closes it (after a failure here the caller still owns it). A long run's spans become
 * rarer (every second sample after 1024, every fourth after 1024 more, and so on), so that their
 * number stays within LK_NVML_SPANS; the summary is of all samples.
 */
enum lk_status lk_nvml_sampler_start(struct lk_nvml *n, const struct lk_nvml_sampler_config *config,
                                     struct lk_nvml_sampler **out);
enum { LK_NVML_SPANS = 1 << 16 };
/* Begin the summary here: earlier samples do not count. NULL: nothing. */
void lk_nvml_sampler_restart(struct lk_nvml_sampler *s);
/* End the summary here. NULL: nothing. */
void lk_nvml_sampler_end(struct lk_nvml_sampler *s);
/*
 * Stop and free. LK_EIO when the GPU was lost, LK_ETIMEOUT when the driver hangs (its thread is
 * left behind then, and frees its memory if the driver ever returns); *out (NULL: not wanted) is
 * written all the same. s NULL gives LK_OK and an empty summary.
 */
enum lk_status lk_nvml_sampler_stop(struct lk_nvml_sampler *s, struct lk_gpu_summary *out);

#endif
