/*
 * PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv:1905.13727), as PyTorch's powerSGD_hook makes
 * it, with error feedback and warm start (powerSGD_hook.py).
 *
 * A bucket of step `start` and later takes three all-reduces: of the tensors that are not
 * compressed, of all P, of all Q. With a matrix M (n, m) that holds this rank's gradient over the
 * number of ranks, plus its error, and Q from the step before, at first random:
 *
 *     P = M Q, summed over the ranks, its columns made orthonormal
 *     Q = transposed(M) P, summed over the ranks
 *     gradient = P transposed(Q); error = M - gradient / ranks
 *
 * So the ranks' errors sum up to what was left out of the mean gradient, and reach it later. Q is
 * kept as its transpose (r, m), which makes all three products those of linear layers
 * (kernels/ops.h). A matrix is compressed when (n + m) r min_rate < n m, with r the rank asked for,
 * at most n and m.
 */
#include "runtime/train/hook.h"

#include "base/array.h"
#include "base/log.h"
#include "base/rng.h"
#include "kernels/ops.h"

#include <stdio.h>
#include <stdlib.h>

/* A tensor of a bucket. */
struct tensor {
    size_t param, elems, at;              /* at: in the bucket, elements */
    size_t n, m, r;                       /* of a matrix that is compressed; r 0: it is not */
    size_t error_at, p_at, q_at, rest_at; /* in the buffers below; P and rest: from the bucket's */
};

/* A bucket has a part of each buffer. */
struct part {
    size_t p_elems, q_elems, rest_elems, q_at;
};

struct powersgd {
    struct lk_hook hook;
    size_t real_bytes;
    enum lk_dtype real;
    struct tensor *tensors; /* in the order of plan->index */
    struct part *parts;     /* by bucket */
    char *error;            /* of the matrices of all buckets */
    char *p, *rest;         /* of the bucket under way */
    char *q;                /* of all buckets */
};

static bool is_worth(const struct lk_hook_config *c, const struct tensor *t)
{
    return (double)(t->n + t->m) * (double)t->r * c->powersgd_min_rate <
           (double)t->n * (double)t->m;
}

static struct tensor describe(const struct lk_hook *h, size_t param)
{
    const struct lk_param *p = &h->params[param];
    struct tensor t = {.param = param, .elems = p->elems};
    size_t r = (size_t)h->config.powersgd_rank;

    if (p->rows < 2)
        return t;
    t.n = p->rows;
    t.m = p->elems / p->rows;
    t.r = r < t.n ? r : t.n;
    t.r = t.r < t.m ? t.r : t.m;
    if (!is_worth(&h->config, &t))
        t.r = 0;
    return t;
}

/* ---- Buffers ---- */

static void drop(struct powersgd *x)
{
    const struct lk_hook *h = &x->hook;

    free(x->tensors);
    free(x->parts);
    lk_device_free(h->device, x->error);
    lk_comm_free(h->comm, h->device, x->p);
    lk_comm_free(h->comm, h->device, x->q);
    lk_comm_free(h->comm, h->device, x->rest);
    x->tensors = NULL;
    x->parts = NULL;
    x->error = x->p = x->q = x->rest = NULL;
}

static void place(struct tensor *t, struct part *b, size_t *error_elems)
{
    if (!t->r) {
        t->rest_at = b->rest_elems;
        b->rest_elems += t->elems;
        return;
    }
    t->error_at = *error_elems;
    t->p_at = b->p_elems;
    t->q_at = b->q_elems;
    *error_elems += t->elems;
    b->p_elems += t->n * t->r;
    b->q_elems += t->m * t->r;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Allocate a buffer of collectives; none for 0 elements. */
static enum lk_status take(struct powersgd *x, size_t elems, char **out)
{
    void *p = NULL;

    if (elems)
        LK_PASS(lk_comm_alloc(x->hook.comm, x->hook.device, elems * x->real_bytes, &p));
    *out = p;
    return LK_OK;
}

static enum lk_status lay_out(struct powersgd *x)
{
    const struct lk_bucket_plan *plan = x->hook.plan;
    size_t error = 0, p = 0, q = 0, rest = 0, matrices = 0;
    void *memory = NULL;

    LK_PASS(lk_alloc(&x->tensors, x->hook.n_params, sizeof *x->tensors));
    LK_PASS(lk_alloc(&x->parts, plan->n_buckets, sizeof *x->parts));
    for (size_t b = 0; b < plan->n_buckets; b++) {
        struct part *part = &x->parts[b];

        part->q_at = q;
        for (size_t i = plan->first[b], at = 0; i < plan->first[b + 1]; i++) {
            struct tensor *t = &x->tensors[i];

            *t = describe(&x->hook, plan->index[i]);
            t->at = at;
            at += t->elems;
            place(t, part, &error);
            matrices += t->r > 0;
        }
        p = larger(p, part->p_elems);
        rest = larger(rest, part->rest_elems);
        q += part->q_elems;
    }
    LK_PASS(take(x, p, &x->p));
    LK_PASS(take(x, q, &x->q));
    LK_PASS(take(x, rest, &x->rest));
    if (error)
        LK_PASS(lk_device_alloc(x->hook.device, error * x->real_bytes, &memory));
    x->error = memory;
    lk_log(LK_LOG_DDP, LK_DEBUG, "powersgd compresses %zu of %zu gradients", matrices,
           x->hook.n_params);
    return LK_OK;
}

/* Fill Q with normal numbers, which are a function of seed, parameter and index: the same on all
 * ranks, whatever the buckets. */
static enum lk_status start_q(struct powersgd *x)
{
    const struct lk_bucket_plan *plan = x->hook.plan;
    enum lk_status st = LK_OK;
    char *host = NULL;
    size_t elems = 0;

    for (size_t b = 0; b < plan->n_buckets; b++)
        elems += x->parts[b].q_elems;
    if (!elems)
        return LK_OK;
    LK_TRY(lk_device_alloc_host(x->hook.device, elems * x->real_bytes, (void **)&host));
    for (size_t b = 0; b < plan->n_buckets; b++)
        for (size_t i = plan->first[b]; i < plan->first[b + 1]; i++) {
            const struct tensor *t = &x->tensors[i];
            struct lk_rng g = lk_rng_init(x->hook.config.seed, lk_rng_stream("powersgd", t->param));
            size_t at = x->parts[b].q_at + t->q_at;

            for (size_t k = 0; k < t->m * t->r; k++) {
                float value = (float)lk_rng_normal(&g);

                if (x->real == LK_F64)
                    ((double *)host)[at + k] = value;
                else
                    lk_dtype_from_f32(x->real, host + (at + k) * x->real_bytes, &value, 1);
            }
        }
    LK_TRY(lk_stream_copy(x->hook.net, x->q, host, elems * x->real_bytes));
    LK_TRY(lk_stream_sync(x->hook.net, lk_deadline_in(x->hook.config.timeout_ns)));
out:
    lk_device_free_host(x->hook.device, host);
    return st;
}

static enum lk_status set_buckets(struct lk_hook *h)
{
    struct powersgd *x = (struct powersgd *)h;

    drop(x);
    LK_PASS(lay_out(x));
    return start_q(x);
}

/* ---- A bucket ---- */

static char *at(const struct powersgd *x, void *base, size_t elems)
{
    return (char *)base + elems * x->real_bytes;
}

/* Pack the tensors that are not compressed, or unpack them. */
static enum lk_status move_rest(struct powersgd *x, size_t b, char *bucket, bool pack)
{
    const struct lk_bucket_plan *plan = x->hook.plan;

    for (size_t i = plan->first[b]; i < plan->first[b + 1]; i++) {
        const struct tensor *t = &x->tensors[i];
        char *inside = at(x, bucket, t->at), *apart = at(x, x->rest, t->rest_at);

        if (!t->r)
            LK_PASS(lk_stream_copy(x->hook.net, pack ? apart : inside, pack ? inside : apart,
                                   t->elems * x->real_bytes));
    }
    return LK_OK;
}

/* All-reduce `elems` elements of a buffer as part of the bucket's reduction. */
static enum lk_status sum_up(struct powersgd *x, const struct lk_coll_call *call, char *buffer,
                             size_t elems)
{
    struct lk_coll_call c = *call;

    c.buf = buffer;
    c.count = elems;
    return elems ? lk_comm_enqueue(x->hook.comm, x->hook.net, &c) : LK_OK;
}

/* M += error; error = M; P = M Q. */
static enum lk_status project(struct powersgd *x, size_t b, const struct tensor *t, char *m)
{
    struct lk_stream *net = x->hook.net;
    char *error = at(x, x->error, t->error_at), *q = at(x, x->q, x->parts[b].q_at + t->q_at);

    LK_PASS(LK_LAUNCH(net, axpy, .y = m, .x = error, .n = t->elems, .factor = 1));
    LK_PASS(lk_stream_copy(net, error, m, t->elems * x->real_bytes));
    LK_PASS(LK_LAUNCH(net, orthogonalize, .x = q, .rows = t->m, .columns = t->r, .row_stride = 1,
                      .column_stride = t->m));
    return LK_LAUNCH(net, matmul_forward, .out = at(x, x->p, t->p_at), .in = m, .weight = q,
                     .rows = t->n, .inputs = t->m, .outputs = t->r);
}

/* Q = transposed(M) P with an orthonormal P. */
static enum lk_status project_back(struct powersgd *x, size_t b, const struct tensor *t, char *m)
{
    struct lk_stream *net = x->hook.net;
    char *p = at(x, x->p, t->p_at), *q = at(x, x->q, x->parts[b].q_at + t->q_at);

    LK_PASS(LK_LAUNCH(net, orthogonalize, .x = p, .rows = t->n, .columns = t->r, .row_stride = t->r,
                      .column_stride = 1));
    return LK_LAUNCH(net, matmul_backward_weight, .dweight = q, .dout = p, .in = m, .rows = t->n,
                     .inputs = t->m, .outputs = t->r);
}

/* M = P transposed(Q); error -= M / ranks. */
static enum lk_status expand(struct powersgd *x, size_t b, const struct tensor *t, char *m)
{
    struct lk_stream *net = x->hook.net;
    char *p = at(x, x->p, t->p_at), *q = at(x, x->q, x->parts[b].q_at + t->q_at);

    LK_PASS(LK_LAUNCH(net, matmul_backward_input, .din = m, .dout = p, .weight = q, .rows = t->n,
                      .inputs = t->m, .outputs = t->r));
    return LK_LAUNCH(net, axpy, .y = at(x, x->error, t->error_at), .x = m, .n = t->elems,
                     .factor = -1.0 / lk_comm_world_size(x->hook.comm));
}

/* Do one thing with each matrix of the bucket. */
static enum lk_status each(struct powersgd *x, size_t b, char *bucket,
                           enum lk_status (*fn)(struct powersgd *x, size_t b,
                                                const struct tensor *t, char *m))
{
    const struct lk_bucket_plan *plan = x->hook.plan;

    for (size_t i = plan->first[b]; i < plan->first[b + 1]; i++)
        if (x->tensors[i].r)
            LK_PASS(fn(x, b, &x->tensors[i], at(x, bucket, x->tensors[i].at)));
    return LK_OK;
}

static enum lk_status reduce(struct lk_hook *h, const struct lk_coll_call *call, size_t b,
                             uint32_t step)
{
    struct powersgd *x = (struct powersgd *)h;
    const struct part *part = &x->parts[b];

    if (step < h->config.powersgd_start)
        return lk_comm_enqueue(h->comm, h->net, call);
    if (part->rest_elems) {
        LK_PASS(move_rest(x, b, call->buf, true));
        LK_PASS(sum_up(x, call, x->rest, part->rest_elems));
        LK_PASS(move_rest(x, b, call->buf, false));
    }
    LK_PASS(each(x, b, call->buf, project));
    LK_PASS(sum_up(x, call, x->p, part->p_elems));
    LK_PASS(each(x, b, call->buf, project_back));
    LK_PASS(sum_up(x, call, at(x, x->q, part->q_at), part->q_elems));
    return each(x, b, call->buf, expand);
}

static void destroy(struct lk_hook *h)
{
    drop((struct powersgd *)h);
    free(h);
}

/* The error of a matrix is a rank's own, its Q is everybody's. */
enum { KEPT_ERROR, KEPT_Q, N_KEPT };

static struct lk_kept kept(const struct lk_hook *h, size_t group, size_t param)
{
    const struct powersgd *x = (const struct powersgd *)h;
    struct lk_kept k = {.own = group == KEPT_ERROR};

    snprintf(k.name, sizeof k.name, "powersgd.%s", group == KEPT_ERROR ? "error" : "q");
    for (size_t b = 0; b < h->plan->n_buckets; b++)
        for (size_t i = h->plan->first[b]; i < h->plan->first[b + 1]; i++) {
            const struct tensor *t = &x->tensors[i];

            if (t->param != param || !t->r)
                continue;
            k.elems = group == KEPT_ERROR ? t->elems : t->m * t->r;
            k.data = group == KEPT_ERROR ? at(x, x->error, t->error_at)
                                         : at(x, x->q, x->parts[b].q_at + t->q_at);
        }
    return k;
}

enum lk_status lk_hook_powersgd_create(const struct lk_hook_config *c, struct lk_device *d,
                                       struct lk_hook **out)
{
    static const struct lk_hook_ops ops = {set_buckets, reduce, destroy, N_KEPT, kept};
    struct powersgd *x = NULL;

    if (c->powersgd_rank < 1 || !(c->powersgd_min_rate > 0) || c->powersgd_start < 2)
        return lk_fail(LK_EUSAGE,
                       "powersgd of rank %d with a rate of %g from step %lld on: a rank of 1 or "
                       "more, a rate above 0, and a step of 2 or more, behind the rebuild of the "
                       "buckets",
                       c->powersgd_rank, c->powersgd_min_rate, (long long)c->powersgd_start);
    LK_PASS(lk_alloc(&x, 1, sizeof *x));
    x->hook.ops = &ops;
    x->real_bytes = lk_device_real_bytes(d);
    x->real = lk_device_real_dtype(d);
    *out = &x->hook;
    return LK_OK;
}
