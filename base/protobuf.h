/*
 * Protocol Buffers' wire format: fields of one message in memory, read and written. There is no
 * schema here: facts/chakra.h has the field numbers.
 *
 *     struct lk_pb p = lk_pb_of(bytes, n);
 *     struct lk_pb_field f;
 *     while (lk_pb_next(&p, &f))
 *         if (f.number == 1 && f.wire == LK_PB_VARINT) id = f.value;
 *     if (p.damaged) ...
 *
 * Encoding: protobuf.dev/programming-guides/encoding.
 */
#ifndef LK_BASE_PROTOBUF_H
#define LK_BASE_PROTOBUF_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk_pb_wire { LK_PB_VARINT = 0, LK_PB_FIXED64 = 1, LK_PB_BYTES = 2, LK_PB_FIXED32 = 5 };

/* A varint has at most so many bytes. */
enum { LK_PB_VARINT_MAX = 10 };

/* A message in memory, which is borrowed. */
struct lk_pb {
    const unsigned char *at, *end;
    bool damaged; /* a field is not whole, or of a wire type that is none */
};

struct lk_pb_field {
    uint32_t number;
    enum lk_pb_wire wire;
    uint64_t value;             /* of a varint or a fixed one, as its bits */
    const unsigned char *bytes; /* of LK_PB_BYTES: a text, a message, packed values */
    size_t n;
};

/* bytes may be NULL if n is 0. */
struct lk_pb lk_pb_of(const unsigned char *bytes, size_t n);
/* Read the next field; false at the end, or where the message is damaged. */
bool lk_pb_next(struct lk_pb *p, struct lk_pb_field *out);
/* Read a bare varint, as packed lists have them; false likewise. */
bool lk_pb_varint(struct lk_pb *p, uint64_t *out);

/* A message being written. A failure is kept: look at `status` when all is put. */
struct lk_pb_out {
    unsigned char *bytes;
    size_t n, capacity;
    enum lk_status status;
};
void lk_pb_out_fini(struct lk_pb_out *o);               /* zeroes it; safe on a zeroed one */
void lk_pb_put_varint(struct lk_pb_out *o, uint64_t v); /* bare, without a field's number */
void lk_pb_put_uint(struct lk_pb_out *o, uint32_t number, uint64_t v);
void lk_pb_put_bytes(struct lk_pb_out *o, uint32_t number, const void *bytes, size_t n);
/* Put a message of a sequence: its length as a varint, then its bytes. */
void lk_pb_put_message(struct lk_pb_out *o, const struct lk_pb_out *message);
void lk_pb_put_text(struct lk_pb_out *o, uint32_t number, const char *text);

#endif
