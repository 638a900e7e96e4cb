/*
 * Read what the analysis and job.json need of a run's options and of its GPU. A trace records them
 * as texts by key (the member config of struct lk_run_info); this header gives them types. A fact
 * whose key is absent, as in traces of older builds, is unknown and no error.
 */
#ifndef LK_FACTS_RUN_FACTS_H
#define LK_FACTS_RUN_FACTS_H

#include "base/status.h"
#include "facts/job.h"
#include "facts/trace.h"

#include <stdbool.h>

/* Keys that record facts of the GPU; those of options are the options' names. */
#define LK_GPU_CONFIG_UUID        "gpu_uuid"
#define LK_GPU_CONFIG_MAX_CLOCK   "gpu_max_sm_clock_mhz"
#define LK_GPU_CONFIG_POWER_LIMIT "gpu_power_limit_w"
/* The host of a run whose source does not name it. */
#define LK_HOST_UNKNOWN "unknown"
/* The counter that says by how much a device's times may be off on the host's clock. */
#define LK_CLOCK_ERROR_COUNTER "device clock error, ns"
/* The counter of a rank's own loss in a step, the mean over its micro-batches. */
#define LK_LOSS_COUNTER            "loss"
#define LK_CUPTI_CONFIG_KEY        "gpu_records_by"  /* the recorder, or "none: " and the reason */
#define LK_IMPORT_CONFIG_KEY       "imported_from"   /* the file of another program */
#define LK_IMPORT_GPU_CONFIG_KEY   "imported_gpu"    /* its number in a file of several processes */
#define LK_COMM_KERNELS_CONFIG_KEY "comm_kernels"    /* of an import: patterns of their names */
#define LK_BUCKETS_CONFIG_KEY      "gradients_are"   /* "buckets": of an import without tensors */
#define LK_PERIOD_CONFIG_KEY       "steps_are"       /* "periods of ...": of one without marks */
#define LK_BLOCKING_CONFIG_KEY     "collectives_are" /* "calls": of one in which the host waits */
#define LK_GROUPS_CONFIG_KEY       "gradient_ranks"  /* of one with groups smaller than the job */
/* Our own runs say the model's shape, "layers 3, heads 3, channels 48, context 64, vocab 256"; the
 * bytes that a sample takes beside weights, gradients and states; and, with SyncBatchNorm, its
 * layers as lk_run_facts_sync_bn reads them. */
#define LK_SHAPE_CONFIG_KEY      "model_shape"
#define LK_ACTIVATION_CONFIG_KEY "activation_bytes_per_sample"
#define LK_SYNC_BN_CONFIG_KEY    "sync_batch_norm_layers"
/* "yes" in our own runs whose update waits for a number of all gradients: for clipping, or to skip
 * a step whose scaled loss overflowed. */
#define LK_NORM_CONFIG_KEY "global_norm"
/* Devices of the one process of DataParallel, in our own runs. */
#define LK_REPLICAS_CONFIG_KEY "data_parallel_devices"
/* Number of gradients in each backward of an import that has no sizes of them. */
#define LK_GRADIENTS_CONFIG_KEY "gradients_a_backward"

struct lk_run_facts {
    enum lk_job_optimizer optimizer; /* sgd with momentum is LK_JOB_OPTIMIZER_MOMENTUM */
    bool master_weights;             /* weights of 16 bit have exact ones beside them */
    int prefetch;                    /* batches prepared ahead; -1: unknown */
    bool shared_gpu; /* ranks took turns on a GPU (--share-gpu): its times mean nothing */
    /* The reason why GPU records are missing, borrowed from the header; NULL: they are not. */
    const char *no_gpu_records;
    double gpu_max_sm_clock_mhz, gpu_power_limit_w; /* NaN: unknown */
    struct lk_job_transformer transformer;          /* layers 0: the model is none, or unknown */
    double activation_bytes;                        /* of a sample; NaN: unknown */
    bool global_norm;                               /* as LK_NORM_CONFIG_KEY says */
};

/* LK_EPARSE: the recorded prefetch depth is not a count. */
enum lk_status lk_run_facts_read(const struct lk_run_info *info, struct lk_run_facts *out);

/* Read SyncBatchNorm's layers in forward order, "64@0.25 128@0.5": channels, and the share of
 * forward before each by the count of operations. None: *n is 0. LK_EPARSE: the text is none. */
enum lk_status lk_run_facts_sync_bn(const struct lk_run_info *info, struct lk_job_sync_bn **out,
                                    size_t *n);

#endif
