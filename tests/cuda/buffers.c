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

/* FNV-1a by words: the high half of a product is folded back, since a word's highest bits would
 * reach no others. */
void rig_hash(struct cuda_rig *r, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t word;

    for (size_t i = 0; i < n; i += sizeof word) {
        word = 0;
        memcpy(&word, at + i, n - i < sizeof word ? n - i : sizeof word);
        r->hash = (r->hash ^ word) * 0x100000001b3U;
        r->hash ^= r->hash >> 32;
    }
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

void rig_define(struct cuda_rig *r, const struct lk_op *op, const void *args)
{
    struct lk_op_cost cost = r->counts ? op->cost(args) : (struct lk_op_cost){0};

    r->defined.flops += cost.flops;
    r->defined.bytes += cost.bytes;
    if (r->compare && !r->counts)
        op->ref(args);
}

/* Times of an element, of a sum or product, and of a number that an op reads or writes, of which
 * some are worth an exponential: measured on a processor of 2021, and rounded up. */
double cuda_rig_seconds(const struct cuda_rig *r)
{
    const double element_s = 5e-9, flop_s = 0.5e-9, number_s = 4e-9;

    return 2 * r->elements * element_s + r->defined.flops * flop_s +
           r->defined.bytes / (double)sizeof(float) * number_s;
}

/* Convert n elements, from doubles and back. */
static void narrow(enum lk_dtype type, const double *from, void *to, size_t n)
{
    enum { PART = 1024 };
    float part[PART];

    for (size_t i = 0; i < n; i += PART) {
        size_t m = n - i < PART ? n - i : PART;

        for (size_t k = 0; k < m; k++)
            part[k] = (float)from[i + k];
        lk_dtype_from_f32(type, (char *)to + i * lk_dtype_bytes(type), part, m);
    }
}

static void widen(enum lk_dtype type, const void *from, double *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = lk_dtype_at(type, from, i);
}

/* Round d to the type; return the elements, which the caller frees. */
static void *rounded(struct buffer *b)
{
    void *host = host_alloc(b->n, lk_dtype_bytes(b->type));

    narrow(b->type, b->d, host, b->n);
    widen(b->type, host, b->d, b->n);
    return host;
}

void buffer_round(struct buffer *b)
{
    free(rounded(b));
}

void buffer_send(struct buffer *b)
{
    void *host;

    b->rig->elements += (double)b->n;
    if (b->rig->counts)
        return;
    host = rounded(b);
    b->rig->machine->copy(b->dev, host, b->n * lk_dtype_bytes(b->type));
    free(host);
}

/* Make a buffer whose elements on the device are not set; d is 0. */
static struct buffer buffer_make(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n)
{
    size_t size = lk_dtype_bytes(type);
    struct buffer b = {.rig = r, .name = name, .n = n, .type = type};
    char *base = r->machine->alloc((n + r->shift) * size, name);

    b.dev = base + r->shift * size;
    b.d = host_alloc(n, sizeof *b.d);
    remember(r, base, b.d);
    return b;
}

/* Doubles of 0 are zeros of every type. */
struct buffer buffer_zero(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n)
{
    struct buffer b = buffer_make(r, name, type, n);

    if (!r->counts)
        r->machine->copy(b.dev, b.d, n * lk_dtype_bytes(type));
    return b;
}

struct buffer buffer_random(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n,
                            double range)
{
    struct buffer b = buffer_make(r, name, type, n);
    uint32_t key[2], four[4] = {0};

    key[0] = (uint32_t)lk_rng_u64(&r->rng);
    key[1] = (uint32_t)lk_rng_u64(&r->rng);
    r->elements += (double)n;
    for (size_t i = 0; i < n && !r->counts; i++) {
        if (i % 4 == 0)
            lk_philox4x32((const uint32_t[4]){(uint32_t)(i / 4)}, key, four);
        b.d[i] = range * ((double)four[i % 4] * 0x1p-31 - 1);
    }
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

/* Return an element's error as a part of the allowed one, of which `own` is its own rounding's. */
static double part_of_bound(double got, double want, double allowed, double own)
{
    allowed += fabs(want) * own;
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want)
        return 0;
    return allowed > 0 ? fabs(got - want) / allowed : INFINITY;
}

/* Compare elements from `first` on with what the device has. */
static void check_part(struct buffer *b, const double *got, size_t first, size_t n, double allowed)
{
    double own = b->type == LK_F32 ? 0 : lk_dtype_unit_roundoff(b->type);

    for (size_t i = 0; i < n; i++) {
        double want = b->d[first + i], part;

        if (got[i] == want)
            continue;
        part = part_of_bound(got[i], want, allowed, own);
        b->rig->worst = fmax(b->rig->worst, part);
        if (part > 1)
            rig_fail(b->rig, "%s[%zu] of %zu is %.9g, not %.9g: %.2f times the bound (shift %zu)",
                     b->name, first + i, b->n, got[i], want, part, b->rig->shift);
    }
}

static void compare(struct buffer *b, const char *host, double bound, double least)
{
    enum { PART = 4096 };
    double largest = least, got[PART];

    for (size_t i = 0; i < b->n; i++)
        if (isfinite(b->d[i]) && fabs(b->d[i]) > largest)
            largest = fabs(b->d[i]);
    for (size_t i = 0; i < b->n; i += PART) {
        size_t n = b->n - i < PART ? b->n - i : PART;

        widen(b->type, host + i * lk_dtype_bytes(b->type), got, n);
        check_part(b, got, i, n, bound * largest);
    }
}

void buffer_check_sum(struct buffer *b, double bound, double least)
{
    size_t bytes = b->n * lk_dtype_bytes(b->type);
    char *host;

    b->rig->elements += (double)b->n;
    if (b->rig->counts)
        return;
    host = host_alloc(b->n, lk_dtype_bytes(b->type));
    b->rig->machine->copy(host, b->dev, bytes);
    rig_hash(b->rig, host, bytes);
    if (b->rig->compare)
        compare(b, host, bound, least);
    free(host);
}

void buffer_check(struct buffer *b, double bound)
{
    buffer_check_sum(b, bound, 0);
}
