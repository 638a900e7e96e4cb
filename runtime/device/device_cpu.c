/* The device cpu: ops in float32, run on the stream's thread. */
#include "kernels/ops.h"
#include "runtime/device/device_thread.h"

static enum lk_status cpu_open(struct lk_device *d)
{
    (void)d;
    lk_kernels_init();
    return LK_OK;
}

const struct lk_device_ops lk_device_cpu = {
    .name = "cpu",
    .help = "float32 on this processor, a stream is a thread",
    .real = LK_F32,
    .unit_roundoff = 0x1p-24,
    .device_bytes = sizeof(struct lk_device),
    .stream_bytes = sizeof(struct lk_thread_stream),
    .open = cpu_open,
    .needs = LK_OP_CPU,
    .stream_open = lk_thread_stream_open,
    .stream_close = lk_thread_stream_close,
    .stream_free = lk_thread_stream_free,
    .submit = lk_thread_submit,
    .sync = lk_thread_sync,
    .wake = lk_thread_wake,
};
