#include "tests/cuda/buffers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *host_alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    if (!p) {
        fputs("out of memory\n", stderr);
        abort();
    }
    return p;
}

static void remember(struct cuda_rig *r, void *dev, void *host)
{
    if (r->n_made == CUDA_RIG_BUFFERS_MAX)
        abort();
    r->made[r->n_made].dev = dev;
    r->made[r->n_made++].host = host;
}

void rig_hash(struct cuda_rig *r, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < n; i++) /* FNV-1a */
        r->hash = (r->hash ^ at[i]) * 0x100000001b3U;
}

void rig_fail(struct cuda_rig *r, const char *format, ...)
{
    va_list args;

    if (r->text[0])
        return;
    va_start(args, format);
    vsnprintf(r->text, sizeof r->text, format, args);
    va_end(args);
}

void rig_try(struct cuda_rig *r, enum lk_status st)
{
    if (st != LK_OK)
        rig_fail(r, "%s", lk_error_text());
}

static double rounded(enum lk_dtype type, double x)
{
    return type == LK_BF16 ? (double)lk_f32_from_bf16(lk_bf16_from_f32((float)x))
                           : (double)(float)x;
}

/* Convert between doubles and elements of the type, in host memory. */
static void *narrow(const struct buffer *b)
{
    void *host = host_alloc(b->n, lk_dtype_bytes(b->type));

    for (size_t i = 0; i < b->n; i++)
        if (b->type == LK_BF16)
            ((uint16_t *)host)[i] = lk_bf16_from_f32((float)b->d[i]);
        else
            ((float *)host)[i] = (float)b->d[i];
    return host;
}

static double widened(const struct buffer *b, const void *host, size_t i)
{
    return b->type == LK_BF16 ? (double)lk_f32_from_bf16(((const uint16_t *)host)[i])
                              : (double)((const float *)host)[i];
}

void buffer_send(struct buffer *b)
{
    void *host;

    for (size_t i = 0; i < b->n; i++)
        b->d[i] = rounded(b->type, b->d[i]);
    host = narrow(b);
    b->rig->machine->copy(b->dev, host, b->n * lk_dtype_bytes(b->type));
    free(host);
}

struct buffer buffer_zero(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n)
{
    size_t size = lk_dtype_bytes(type);
    struct buffer b = {.rig = r, .name = name, .n = n, .type = type};
    char *base = r->machine->alloc((n + r->shift) * size, name);

    b.dev = base + r->shift * size;
    b.d = host_alloc(n, sizeof *b.d);
    remember(r, base, b.d);
    buffer_send(&b);
    return b;
}

struct buffer buffer_random(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n,
                            double range)
{
    struct buffer b = buffer_zero(r, name, type, n);

    for (size_t i = 0; i < n; i++)
        b.d[i] = range * (2 * lk_rng_uniform(&r->rng) - 1);
    buffer_send(&b);
    return b;
}

int32_t *tokens_random(struct cuda_rig *r, size_t n, size_t below, int32_t **host)
{
    int32_t *dev = r->machine->alloc(n * sizeof *dev, "tokens");

    *host = host_alloc(n, sizeof **host);
    remember(r, dev, *host);
    for (size_t i = 0; i < n; i++)
        (*host)[i] = (int32_t)lk_rng_below(&r->rng, below);
    r->machine->copy(dev, *host, n * sizeof *dev);
    return dev;
}

void buffers_free(struct cuda_rig *r)
{
    for (; r->n_made > 0; r->n_made--) {
        r->machine->free(r->made[r->n_made - 1].dev);
        free(r->made[r->n_made - 1].host);
    }
}

/* Return an element's error as a part of the allowed one. */
static double part_of_bound(const struct buffer *b, double got, double want, double allowed)
{
    if (b->type == LK_BF16)
        allowed += fabs(want) * 0x1p-8; /* half of the last of 8 bits */
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want)
        return 0;
    return allowed > 0 ? fabs(got - want) / allowed : INFINITY;
}

void buffer_check(struct buffer *b, double bound)
{
    size_t bytes = b->n * lk_dtype_bytes(b->type);
    void *host = host_alloc(b->n, lk_dtype_bytes(b->type));
    double largest = 0;

    b->rig->machine->copy(host, b->dev, bytes);
    rig_hash(b->rig, host, bytes);
    for (size_t i = 0; i < b->n; i++)
        if (isfinite(b->d[i]))
            largest = fmax(largest, fabs(b->d[i]));
    for (size_t i = 0; i < b->n && b->rig->compare; i++) {
        double part = part_of_bound(b, widened(b, host, i), b->d[i], bound * largest);

        b->rig->worst = fmax(b->rig->worst, part);
        if (part > 1)
            rig_fail(b->rig, "%s[%zu] of %zu is %.9g, not %.9g: %.2f times the bound (shift %zu)",
                     b->name, i, b->n, widened(b, host, i), b->d[i], part, b->rig->shift);
    }
    free(host);
}
