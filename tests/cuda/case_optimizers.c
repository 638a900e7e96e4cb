/* The cases of the optimizers: AdamW and SGD, then LARS and LAMB, on a table of tensors, with and
 * without masters. */
#include "base/array.h"
#include "tests/cuda/buffers.h"

#include <math.h>
#include <string.h>

/* Tensors of one allocation, so that most start at no multiple of 16 bytes; one is empty, and
 * one is longer than a chunk. */
static const size_t tensors[] = {1, 64, 0, 7, LK_OPTIM_CHUNK + 5, 100};
enum { N_TENSORS = LK_COUNT(tensors), N_CHUNKS = 6 };

struct optimizer {
    struct buffer param, master, m, v, grad;
    struct lk_optim_tensor *table; /* device */
    struct lk_optim_rate *rate;    /* device */
    struct lk_optim_rate now;
    struct lk_optim_tensor device[N_TENSORS], host[N_TENSORS];
};

static void *at(const struct buffer *b, size_t i)
{
    return (char *)b->dev + i * lk_dtype_bytes(b->type);
}

static void make_table(struct cuda_rig *r, struct optimizer *o, bool masters, bool states)
{
    size_t first = 0, chunks = 0;

    for (size_t i = 0; i < N_TENSORS; i++) {
        o->device[i] = (struct lk_optim_tensor){.param = at(&o->param, first),
                                                .master = masters ? at(&o->master, first) : NULL,
                                                .m = states ? at(&o->m, first) : NULL,
                                                .v = states ? at(&o->v, first) : NULL,
                                                .grad = at(&o->grad, first),
                                                .n = tensors[i],
                                                .first_chunk = chunks,
                                                .weight_decay = i % 2 ? 0.1 : 0,
                                                .layerwise = i != 3};
        o->host[i] = o->device[i];
        o->host[i].param = o->param.d + first;
        o->host[i].m = states ? o->m.d + first : NULL;
        o->host[i].v = states ? o->v.d + first : NULL;
        o->host[i].grad = o->grad.d + first;
        first += tensors[i];
        chunks += (tensors[i] + LK_OPTIM_CHUNK - 1) / LK_OPTIM_CHUNK;
    }
    r->machine->copy(o->table, o->device, sizeof o->device);
}

static void make_optimizer(struct cuda_rig *r, struct optimizer *o)
{
    size_t n = 0;

    for (size_t i = 0; i < N_TENSORS; i++)
        n += tensors[i];
    o->param = buffer_random(r, "param", r->cuda.real, n, 1);
    o->master = buffer_zero(r, "master", LK_F32, n);
    memcpy(o->master.d, o->param.d, n * sizeof *o->master.d);
    buffer_send(&o->master);
    o->m = buffer_zero(r, "m", LK_F32, n);
    o->v = buffer_zero(r, "v", LK_F32, n);
    o->grad = buffer_random(r, "grad", r->cuda.real, n, 1);
    o->table = r->machine->alloc(sizeof o->device, "table");
    o->rate = r->machine->alloc(sizeof o->now, "rate");
}

static void set_rate(struct cuda_rig *r, struct optimizer *o, double learning_rate, int t)
{
    o->now = (struct lk_optim_rate){learning_rate, learning_rate / (1 - pow(0.9, t)),
                                    sqrt(1 / (1 - pow(0.999, t))), 0.75};
    r->machine->copy(o->rate, &o->now, sizeof o->now);
}

static void free_optimizer(struct cuda_rig *r, const struct optimizer *o)
{
    r->machine->free(o->rate);
    r->machine->free(o->table);
    buffers_free(r);
}

/* Parts of the table, launched one by one in another order, as those of buckets are. */
static const struct {
    size_t first, n, chunks;
} parts[] = {{4, 1, 2}, {0, 3, 2}, {3, 1, 1}, {5, 1, 1}};

static void adamw(struct cuda_rig *r, bool masters)
{
    struct optimizer o;

    make_optimizer(r, &o);
    make_table(r, &o, masters, true);
    for (int t = 1; t <= 3; t++) {
        set_rate(r, &o, 0.01, t);
        RUN(r, adamw, (.tensors = o.table, .rate = o.rate), (.tensors = o.host, .rate = &o.now),
            .n_tensors = N_TENSORS, .n_chunks = N_CHUNKS, .beta1 = 0.9, .beta2 = 0.999,
            .eps = 1e-8);
    }
    set_rate(r, &o, 0.01, 4);
    for (size_t i = 0; i < LK_COUNT(parts); i++)
        RUN(r, adamw, (.tensors = o.table + parts[i].first, .rate = o.rate),
            (.tensors = o.host + parts[i].first, .rate = &o.now), .n_tensors = parts[i].n,
            .n_chunks = parts[i].chunks, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8);
    memcpy(o.master.d, o.param.d, o.param.n * sizeof *o.param.d);
    if (masters)
        buffer_check(&o.master, 12 * ULP);
    buffer_check(&o.param, 12 * ULP);
    buffer_check(&o.m, 8 * ULP);
    buffer_check(&o.v, 8 * ULP);
    free_optimizer(r, &o);
}

/* With and without momentum. */
static void sgd(struct cuda_rig *r, bool masters, bool states)
{
    struct optimizer o;

    make_optimizer(r, &o);
    make_table(r, &o, masters, states);
    set_rate(r, &o, 0.1, 1);
    for (int step = 0; step < 2; step++)
        RUN(r, sgd, (.tensors = o.table, .rate = o.rate), (.tensors = o.host, .rate = &o.now),
            .n_tensors = N_TENSORS, .n_chunks = N_CHUNKS, .momentum = states ? 0.9 : 0);
    buffer_check(&o.param, 12 * ULP);
    free_optimizer(r, &o);
}

/* Without a gradient, or weights, a tensor's ratio is 1. */
static void clear(struct buffer *b, size_t tensor)
{
    size_t first = 0;

    for (size_t i = 0; i < tensor; i++)
        first += tensors[i];
    memset(b->d + first, 0, tensors[tensor] * sizeof *b->d);
    buffer_send(b);
}

static void make_layerwise(struct cuda_rig *r, struct optimizer *o, bool masters)
{
    make_optimizer(r, o);
    make_table(r, o, masters, true);
    clear(&o->grad, 1);
    clear(&o->param, 5);
    clear(&o->master, 5);
}

static void check_layerwise(struct cuda_rig *r, struct optimizer *o, bool masters, double bound)
{
    memcpy(o->master.d, o->param.d, o->param.n * sizeof *o->param.d);
    if (masters)
        buffer_check(&o->master, bound);
    buffer_check(&o->param, bound);
    buffer_check(&o->m, bound);
    free_optimizer(r, o);
}

static void lars(struct cuda_rig *r, bool masters)
{
    struct optimizer o;

    make_layerwise(r, &o, masters);
    for (int t = 1; t <= 2; t++) {
        set_rate(r, &o, 0.1, t);
        RUN(r, lars, (.tensors = o.table, .rate = o.rate), (.tensors = o.host, .rate = &o.now),
            .n_tensors = N_TENSORS, .n_chunks = N_CHUNKS, .momentum = 0.9, .trust = 0.5);
    }
    for (size_t i = 0; i < LK_COUNT(parts); i++)
        RUN(r, lars, (.tensors = o.table + parts[i].first, .rate = o.rate),
            (.tensors = o.host + parts[i].first, .rate = &o.now), .n_tensors = parts[i].n,
            .n_chunks = parts[i].chunks, .momentum = 0.9, .trust = 0.5);
    check_layerwise(r, &o, masters, 16 * ULP);
}

/* Divisions by the second moment's root, near 0 where the gradient is, magnify errors. */
static void lamb(struct cuda_rig *r, bool masters)
{
    struct optimizer o;

    make_layerwise(r, &o, masters);
    for (int t = 1; t <= 2; t++) {
        set_rate(r, &o, 0.01, t);
        RUN(r, lamb, (.tensors = o.table, .rate = o.rate), (.tensors = o.host, .rate = &o.now),
            .n_tensors = N_TENSORS, .n_chunks = N_CHUNKS, .beta1 = 0.9, .beta2 = 0.999,
            .eps = 1e-6);
    }
    set_rate(r, &o, 0.01, 3);
    for (size_t i = 0; i < LK_COUNT(parts); i++)
        RUN(r, lamb, (.tensors = o.table + parts[i].first, .rate = o.rate),
            (.tensors = o.host + parts[i].first, .rate = &o.now), .n_tensors = parts[i].n,
            .n_chunks = parts[i].chunks, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6);
    check_layerwise(r, &o, masters, 32 * ULP);
}

void cuda_case_layerwise(struct cuda_rig *r)
{
    lars(r, true);
    lamb(r, true);
    if (r->cuda.real != LK_F32)
        return;
    lars(r, false);
    lamb(r, false);
}

/* Without masters, weights of 16 bits lose updates: nobody trains like that, so it is not
 * compared. */
void cuda_case_optimizers(struct cuda_rig *r)
{
    bool narrow = r->cuda.real != LK_F32;

    adamw(r, true);
    sgd(r, true, true);
    sgd(r, true, false);
    if (narrow)
        return;
    adamw(r, false);
    sgd(r, false, true);
}
