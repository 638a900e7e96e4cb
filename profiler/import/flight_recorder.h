/*
 * Read dumps of PyTorch's Flight Recorder: pickles, as ProcessGroupNCCL writes one a rank when it
 * times out (nccl_trace_rank_3), and JSON (_dump_fr_trace_json). Their layout is that of versions
 * 2.x in torch/csrc/distributed/c10d/FlightRecorderDetail.hpp.
 *
 * A dump is a ring of the last collectives. It knows their order, sizes and states, and when the
 * host enqueued each (LK_EVENT_ENQUEUE). How long one took is there only with
 * TORCH_NCCL_ENABLE_TIMING=1; it is then a collective (LK_EVENT_COLLECTIVE), too, from the time at
 * which it was enqueued: when its kernel started is not known. The times at which a watchdog
 * discovered a start or an end are late by any amount and are not used.
 */
#ifndef LK_PROFILER_IMPORT_FLIGHT_RECORDER_H
#define LK_PROFILER_IMPORT_FLIGHT_RECORDER_H

#include "profiler/import/event.h"

/* Read a dump. step_range has no meaning here. LK_EIO; LK_EPARSE: the file is no dump. Entries that
 * make no sense are counted, and left out. lk_events_fini in any case. */
enum lk_status lk_flight_pickle_read(const char *path, const char *step_range,
                                     struct lk_events *out);
enum lk_status lk_flight_json_read(const char *path, const char *step_range, struct lk_events *out);

#endif
