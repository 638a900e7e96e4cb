/*
 * Several devices driven by one process, as torch.nn.DataParallel does: for the comparison that
 * shows why every rank of DDP has a process. The model that is replicated is device 0's; the other
 * devices are streams of the same device, threads on a CPU. In each micro-batch
 *
 *   scatter     the batch is cut into chunks of ceil(samples / devices), as torch.chunk does, and
 *               copied to the devices
 *   replicate   all weights and buffers are copied from device 0 to each of the others
 *   forward     runs on all devices at once; the losses, weighed by samples, are added on device 0
 *   backward    runs on all devices at once; then every gradient is copied to device 0 and added
 *
 * and the optimizer steps on device 0 alone. The running statistics of the other devices' batch
 * norms are lost, as there. What differs: PyTorch gathers the outputs and computes the loss on
 * device 0, unless the module computes it; here a model does.
 */
#ifndef LK_RUNTIME_REPLICAS_H
#define LK_RUNTIME_REPLICAS_H

#include "base/status.h"
#include "runtime/model/model.h"

/*
 * Let the passes of m run on n devices, 2 or more: m owns the others from now on. config: m's own.
 * LK_EUNSUPPORTED: the device has memory of its own, or the model synchronises or updates itself.
 * pre: the streams are idle.
 */
enum lk_status lk_model_replicate(struct lk_model *m, const struct lk_model_config *config, int n);

#endif
