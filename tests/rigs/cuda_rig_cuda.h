/* Two fake GPUs (tests/fakes/fake_cuda.h), and the device cuda on them. */
#ifndef LK_TEST_CUDA_RIG_H
#define LK_TEST_CUDA_RIG_H

#include "base/status.h"
#include "runtime/device/device.h"
#include "tests/fakes/fake_cuda.h"

#include <stdbool.h>

extern const struct lk_track_info cuda_rig_compute, cuda_rig_net;

/* A fixture: reset the fake before a test; check afterwards that nothing is left on it. */
void cuda_rig_setup(void);
void cuda_rig_teardown(void);

enum lk_status cuda_rig_open(struct lk_device **d, int local_rank, bool share);
/* Open the device of local rank 0, and a stream of a device; a failure ends the test. */
struct lk_device *cuda_rig_device(void);
struct lk_stream *cuda_rig_stream(struct lk_device *d, const struct lk_track_info *info);

/* An op that appends its value to a log when the stream reaches it, and its launch. */
struct cuda_log {
    int n, values[FAKE_WORK_MAX];
};
struct cuda_log_args {
    struct cuda_log *log;
    int value;
};
extern const struct lk_op cuda_rig_log_op;
void cuda_rig_log(struct lk_stream *s, struct cuda_log *log, int value);

/* fake_cuda.takes_ms: all work takes a millisecond. With compared times the host's clock is the
 * GPU's, so that a slow host does not matter. */
double cuda_rig_a_ms(const struct fake_work *w, const struct fake_stream *s);

#endif
