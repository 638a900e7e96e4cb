/* Communication hooks; see the header. Those that round to two bytes are here. */
#include "runtime/train/hook.h"

#include "base/array.h"
#include "kernels/ops.h"

#include <stdlib.h>

/* ---- fp16 and bf16 ---- */

struct half {
    struct lk_hook hook;
    enum lk_dtype wire_type;
    uint16_t *wire; /* of the largest bucket: the net stream has one under way */
};

static enum lk_status half_set_buckets(struct lk_hook *h)
{
    struct half *x = (struct half *)h;
    uint64_t most = 0;
    void *wire = NULL;

    for (size_t b = 0; b < h->plan->n_buckets; b++)
        most = h->plan->bytes[b] > most ? h->plan->bytes[b] : most;
    lk_comm_free(h->comm, h->device, x->wire);
    x->wire = NULL;
    LK_PASS(lk_comm_alloc(h->comm, h->device,
                          most / lk_device_real_bytes(h->device) * sizeof *x->wire, &wire));
    x->wire = wire;
    return LK_OK;
}

static enum lk_status half_reduce(struct lk_hook *h, const struct lk_coll_call *call, size_t bucket,
                                  uint32_t step)
{
    struct half *x = (struct half *)h;
    struct lk_coll_call narrow = *call;

    (void)bucket;
    (void)step;
    narrow.buf = x->wire;
    narrow.dtype = x->wire_type;
    LK_PASS(LK_LAUNCH(h->net, cast_to_wire, .out = x->wire, .in = call->buf, .n = call->count,
                      .dtype = x->wire_type));
    LK_PASS(lk_comm_enqueue(h->comm, h->net, &narrow));
    return LK_LAUNCH(h->net, cast_from_wire, .out = call->buf, .in = x->wire, .n = call->count,
                     .dtype = x->wire_type);
}

static void half_destroy(struct lk_hook *h)
{
    lk_comm_free(h->comm, h->device, ((struct half *)h)->wire);
    free(h);
}

static enum lk_status half_create(enum lk_dtype wire_type, struct lk_hook **out)
{
    static const struct lk_hook_ops ops = {half_set_buckets, half_reduce, half_destroy, 0, NULL};
    struct half *x = NULL;

    LK_PASS(lk_alloc(&x, 1, sizeof *x));
    x->hook.ops = &ops;
    x->wire_type = wire_type;
    *out = &x->hook;
    return LK_OK;
}

/* ---- All ---- */

bool lk_hook_rounds(const struct lk_hook_config *config)
{
    return config->compression == LK_COMPRESSION_FP16 || config->compression == LK_COMPRESSION_BF16;
}

enum lk_dtype lk_hook_wire(const struct lk_hook_config *config)
{
    return config->compression == LK_COMPRESSION_FP16 ? LK_F16 : LK_BF16;
}

enum lk_status lk_hook_create(const struct lk_hook_config *config, struct lk_comm *comm,
                              struct lk_stream *net, const struct lk_param *params, size_t n_params,
                              struct lk_hook **out)
{
    enum lk_compression how = config->compression;
    struct lk_device *d = lk_stream_device(net);
    struct lk_hook *h = NULL;

    *out = NULL;
    if (how == LK_COMPRESSION_NONE || lk_comm_world_size(comm) == 1)
        return LK_OK;
    if (how == LK_COMPRESSION_POWERSGD)
        LK_PASS(lk_hook_powersgd_create(config, d, &h));
    else if (lk_device_real_bytes(d) > lk_dtype_bytes(LK_F16))
        LK_PASS(half_create(lk_hook_wire(config), &h));
    else
        return LK_OK;
    h->config = *config;
    h->comm = comm;
    h->net = net;
    h->device = d;
    h->params = params;
    h->n_params = n_params;
    *out = h;
    return LK_OK;
}

void lk_hook_destroy(struct lk_hook *h)
{
    if (h)
        h->ops->destroy(h);
}

enum lk_status lk_hook_set_buckets(struct lk_hook *h, const struct lk_bucket_plan *plan)
{
    if (!h)
        return LK_OK;
    h->plan = plan;
    return h->ops->set_buckets(h);
}

enum lk_status lk_hook_reduce(struct lk_hook *h, struct lk_comm *comm, struct lk_stream *net,
                              const struct lk_coll_call *call, size_t bucket, uint32_t step)
{
    return h ? h->ops->reduce(h, call, bucket, step) : lk_comm_enqueue(comm, net, call);
}

size_t lk_hook_n_kept(const struct lk_hook *h)
{
    return h ? h->ops->n_kept : 0;
}

struct lk_kept lk_hook_kept(const struct lk_hook *h, size_t group, size_t param)
{
    return h->ops->kept(h, group, param);
}
