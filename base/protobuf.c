#include "base/protobuf.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

struct lk_pb lk_pb_of(const unsigned char *bytes, size_t n)
{
    return (struct lk_pb){.at = bytes, .end = n ? bytes + n : bytes};
}

bool lk_pb_varint(struct lk_pb *p, uint64_t *out)
{
    uint64_t v = 0;

    for (int i = 0; i < LK_PB_VARINT_MAX && p->at < p->end; i++) {
        unsigned char byte = *p->at++;

        v |= (uint64_t)(byte & 127) << (7 * i);
        if (byte < 128) {
            *out = v;
            return true;
        }
        p->damaged = p->at == p->end || i + 1 == LK_PB_VARINT_MAX;
    }
    return false;
}

/* Read n bytes as a number, the lowest byte first. */
static bool read_fixed(struct lk_pb *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;

    if ((size_t)(p->end - p->at) < n)
        return false;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p->at[i] << (8 * i);
    p->at += n;
    *out = v;
    return true;
}

static bool read_bytes(struct lk_pb *p, struct lk_pb_field *f)
{
    uint64_t n;

    if (!lk_pb_varint(p, &n) || n > (uint64_t)(p->end - p->at))
        return false;
    f->bytes = p->at;
    f->n = (size_t)n;
    p->at += n;
    return true;
}

static bool read_value(struct lk_pb *p, struct lk_pb_field *f)
{
    switch (f->wire) {
    case LK_PB_VARINT:
        return lk_pb_varint(p, &f->value);
    case LK_PB_FIXED64:
        return read_fixed(p, 8, &f->value);
    case LK_PB_BYTES:
        return read_bytes(p, f);
    case LK_PB_FIXED32:
        return read_fixed(p, 4, &f->value);
    }
    return false;
}

bool lk_pb_next(struct lk_pb *p, struct lk_pb_field *out)
{
    uint64_t tag;

    *out = (struct lk_pb_field){0};
    if (p->damaged || !lk_pb_varint(p, &tag))
        return false;
    out->number = (uint32_t)(tag >> 3);
    out->wire = (enum lk_pb_wire)(tag & 7);
    p->damaged = tag >> 3 == 0 || tag >> 32 != 0 || !read_value(p, out);
    return !p->damaged;
}

/* ---- Writing ---- */

void lk_pb_out_fini(struct lk_pb_out *o)
{
    free(o->bytes);
    *o = (struct lk_pb_out){0};
}

static void put(struct lk_pb_out *o, const void *bytes, size_t n)
{
    if (o->status == LK_OK)
        o->status = lk_array_grow(&o->bytes, &o->capacity, o->n + n, 1);
    if (o->status != LK_OK || !n)
        return;
    memcpy(o->bytes + o->n, bytes, n);
    o->n += n;
}

void lk_pb_put_varint(struct lk_pb_out *o, uint64_t v)
{
    unsigned char bytes[LK_PB_VARINT_MAX];
    size_t n = 0;

    do {
        bytes[n++] = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    put(o, bytes, n);
}

static void put_tag(struct lk_pb_out *o, uint32_t number, enum lk_pb_wire wire)
{
    lk_pb_put_varint(o, (uint64_t)number << 3 | wire);
}

void lk_pb_put_uint(struct lk_pb_out *o, uint32_t number, uint64_t v)
{
    put_tag(o, number, LK_PB_VARINT);
    lk_pb_put_varint(o, v);
}

void lk_pb_put_bytes(struct lk_pb_out *o, uint32_t number, const void *bytes, size_t n)
{
    put_tag(o, number, LK_PB_BYTES);
    lk_pb_put_varint(o, n);
    put(o, bytes, n);
}

void lk_pb_put_text(struct lk_pb_out *o, uint32_t number, const char *text)
{
    lk_pb_put_bytes(o, number, text, strlen(text));
}

void lk_pb_put_message(struct lk_pb_out *o, const struct lk_pb_out *message)
{
    if (o->status == LK_OK)
        o->status = message->status;
    lk_pb_put_varint(o, message->n);
    put(o, message->bytes, message->n);
}
