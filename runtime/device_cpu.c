/* The device cpu: ops in float32, at once, on the stream's thread. */
#include "kernels/ops.h"
#include "runtime/device_thread.h"

static enum lk_status cpu_open(struct lk_device *d)
{
    (void)d;
    lk_kernels_init();
    return LK_OK;
}

static const char *cpu_lacks(const struct lk_op *op)
{
    return op->cpu ? NULL : "cpu implementation";
}

static void cpu_run_op(struct lk_stream *s, const struct lk_command *c)
{
    struct lk_span span = lk_span_begin(s->track, LK_SPAN_KERNEL, c->span.name, c->span.step, -1);

    c->op->cpu(c->args);
    lk_span_end(s->track, &span);
}

static uint64_t cpu_now_ns(struct lk_stream *s)
{
    (void)s;
    return lk_now_ns();
}

const struct lk_device_ops lk_device_cpu = {
    .name = "cpu",
    .help = "float32 on this processor, a stream is a thread",
    .real = LK_F32,
    .unit_roundoff = 0x1p-24,
    .device_bytes = sizeof(struct lk_device),
    .stream_bytes = sizeof(struct lk_thread_stream),
    .open = cpu_open,
    .lacks = cpu_lacks,
    .stream_open = lk_thread_stream_open,
    .stream_close = lk_thread_stream_close,
    .stream_free = lk_thread_stream_free,
    .submit = lk_thread_submit,
    .sync = lk_thread_sync,
    .wake = lk_thread_wake,
    .run_op = cpu_run_op,
    .now_ns = cpu_now_ns,
};
