/*
 * A GPU's clock, power, temperature and throttling, as NVML tells them (libnvidia-ml.so.1, which
 * comes with the driver and is opened at run time).
 *
 * Once, e.g. beside a measurement:
 *
 *     LK_TRY(lk_nvml_open(uuid, NULL, &nvml));
 *     lk_nvml_read(nvml, &sample);
 *
 * Or again and again, by a thread of its own, beside a run:
 *
 *     LK_TRY(lk_nvml_sampler_start(nvml, &config, &sampler));
 *     ... warm-up ...
 *     lk_nvml_sampler_restart(sampler);
 *     ... what counts ...
 *     LK_TRY(lk_nvml_sampler_stop(sampler, &summary));
 *
 * Of an instance of a GPU (MIG) clock and power are those of the whole GPU.
 */
#ifndef LK_PROFILER_NVML_H
#define LK_PROFILER_NVML_H

#include "base/span.h"
#include "base/status.h"
#include "profiler/gpu_state.h"

#include <stdbool.h>

struct lk_nvml_calls;
struct lk_nvml;
struct lk_nvml_sampler;

/*
 * The GPU with this UUID, as nvidia-smi and CUDA write it ("GPU-..."; "MIG-..." of an instance,
 * also when it is given as "GPU-..."). calls NULL: the driver's. LK_EUNSUPPORTED: there is no NVML,
 * no driver, or no such GPU.
 */
enum lk_status lk_nvml_open(const char *uuid, const struct lk_nvml_calls *calls,
                            struct lk_nvml **out);
void lk_nvml_close(struct lk_nvml *n); /* NULL is legal */

/* What does not change. NaN: the GPU does not say. */
struct lk_gpu_limits {
    double max_sm_clock_mhz, max_memory_clock_mhz, power_limit_w;
    bool instance; /* the UUID was that of a part of the GPU (MIG) */
};
void lk_nvml_limits(struct lk_nvml *n, struct lk_gpu_limits *out);

/* What joins the GPU to others and to its host. -1: the GPU does not say. */
struct lk_gpu_links {
    int nvlinks; /* that are active */
    int pcie_generation, pcie_lanes;
};
void lk_nvml_links(struct lk_nvml *n, struct lk_gpu_links *out);
enum { LK_GPU_LINKS_TEXT = 32 };
/* "18", and "5 x16": generation and lanes. False: the GPU does not say. */
bool lk_gpu_nvlinks_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT]);
bool lk_gpu_pcie_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT]);
/* Their keys in traces and cluster files. */
#define LK_GPU_CONFIG_NVLINKS "gpu_nvlinks"
#define LK_GPU_CONFIG_PCIE    "gpu_pcie"

/* What the GPU says now. A quantity that it once called unsupported is not asked for again. LK_EIO
 * when the GPU is lost. One thread at a time. */
enum lk_status lk_nvml_read(struct lk_nvml *n, struct lk_gpu_sample *out);

struct lk_nvml_sampler_config {
    struct lk_recorder *recorder; /* NULL: no spans. Outlives the sampler */
    double period_s;              /* between samples; one is taken, however soon the stop comes */
    double timeout_s;             /* how long the end waits for a driver that does not come back */
};

/*
 * Starts a thread that samples, and emits COUNTER spans on a track "GPU". n is the sampler's from
 * then on, and closed by its stop (after a failure here it is still the caller's). A long run's
 * spans become rarer (every second sample after 1024, every fourth after 1024 more, and so on), so
 * that their number stays within LK_NVML_SPANS; the summary is of all samples.
 */
enum lk_status lk_nvml_sampler_start(struct lk_nvml *n, const struct lk_nvml_sampler_config *config,
                                     struct lk_nvml_sampler **out);
enum { LK_NVML_SPANS = 1 << 16 };
/* The summary begins here: what came before does not count. NULL: nothing. */
void lk_nvml_sampler_restart(struct lk_nvml_sampler *s);
/* ...and ends here. NULL: nothing. */
void lk_nvml_sampler_end(struct lk_nvml_sampler *s);
/*
 * Stops and frees. LK_EIO when the GPU was lost, LK_ETIMEOUT when the driver did not come back (its
 * thread is left behind then, and frees what it has if the driver ever does); *out (NULL: not
 * wanted) is written all the same. s NULL gives LK_OK and a summary of nothing.
 */
enum lk_status lk_nvml_sampler_stop(struct lk_nvml_sampler *s, struct lk_gpu_summary *out);

#endif
