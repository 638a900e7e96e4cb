/* The device reference: ops in float64, by their definition, run at once on the caller's thread. */
#include "runtime/device/device_impl.h"

struct reference_stream {
    struct lk_stream base;
    uint64_t done; /* commands so far */
};

static enum lk_status reference_stream_open(struct lk_stream *s)
{
    (void)s;
    return LK_OK;
}

static void reference_stream_close(struct lk_stream *s)
{
    (void)s;
}

static enum lk_status reference_submit(struct lk_stream *s, const struct lk_command *c,
                                       uint64_t *out_seq)
{
    struct lk_command numbered = *c;

    *out_seq = ++((struct reference_stream *)s)->done;
    if (c->kind == LK_COMMAND_RECORD)
        numbered.seq = *out_seq;
    lk_device_run_command(s, &numbered);
    lk_command_drop(&numbered);
    return LK_OK;
}

static enum lk_status reference_sync(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline)
{
    (void)s;
    (void)seq;
    (void)deadline;
    return LK_OK;
}

const struct lk_device_ops lk_device_reference = {
    .name = "reference",
    .help = "float64 by the definition, without threads",
    .real = LK_F64,
    .unit_roundoff = 0x1p-53,
    .device_bytes = sizeof(struct lk_device),
    .stream_bytes = sizeof(struct reference_stream),
    .needs = LK_OP_REF,
    .stream_open = reference_stream_open,
    .stream_close = reference_stream_close,
    .submit = reference_submit,
    .sync = reference_sync,
};
