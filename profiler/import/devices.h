/*
 * Tell which GPUs are whose, in a source of several processes. A process may do a little on GPUs
 * that are others', such as making a context there; so a GPU belongs to the processes that do most
 * of their work on it, and is shared if there are two of them.
 */
#ifndef LK_PROFILER_IMPORT_DEVICES_H
#define LK_PROFILER_IMPORT_DEVICES_H

#include "profiler/import/event.h"

/*
 * Number the GPUs of the lanes. pre: the GPU lanes' process is the GPU's number plus
 * LK_SHARED_DEVICE times their owner. Afterwards it is the GPU's number, plus LK_SHARED_DEVICE for
 * the second process that shares it, and so on; work on a GPU of others counts to its first one. A
 * GPU on which nobody does more than a tenth of what it does elsewhere is nobody's (owner -1).
 */
enum lk_status lk_devices_settle(struct lk_events *e);

#endif
