/*
 * The protocol between the store's server and its clients. Private to runtime/store*.c.
 *
 * A message is a frame: uint32 count of the bytes that follow, uint8 type, uint64 id, payload;
 * little-endian. A reply carries its request's id. Integers in payloads are little-endian, too.
 */
#ifndef LK_RUNTIME_STORE_WIRE_H
#define LK_RUNTIME_STORE_WIRE_H

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(message, payload) */
#define LK_MSG_LIST(X)                                                                             \
    X(LK_MSG_HELLO, "client: magic u64, version u64, rank u32, world u32, timeout_ns u64, nonce "  \
                    "16 bytes, job; answered by REPLY: the server's nonce")                        \
    X(LK_MSG_PROOF, "client: proof 32 bytes; answered by REPLY: token u64, the server's proof")    \
    X(LK_MSG_SET, "client: key length u8, key, value")                                             \
    X(LK_MSG_GET, "client: key; answered by REPLY when the key is there")                          \
    X(LK_MSG_BARRIER, "client: name; answered by REPLY when all are there")                        \
    X(LK_MSG_AGREE,                                                                                \
      "client: sum 16 bytes, name; a barrier, answered by REPLY: 1 if all sums are equal")         \
    X(LK_MSG_ABSENT, "client: name; gave up waiting for this barrier: asks for a verdict")         \
    X(LK_MSG_REPORT, "client: status u32, peer u32 (NO_PEER: none, ALL_RANKS), text")              \
    X(LK_MSG_PROGRESS, "client: seq u64, entered u8")                                              \
    X(LK_MSG_CLOCK, "client: nothing; answered by REPLY with lk_now_ns u64")                       \
    X(LK_MSG_BYE, "client: nothing")                                                               \
    X(LK_MSG_REPLY, "server: value; to SET nothing")                                               \
    X(LK_MSG_REFUSED, "server: status u32, text; the request failed")                              \
    X(LK_MSG_ASK, "server: nothing; answered by PROGRESS")                                         \
    X(LK_MSG_VERDICT, "server: status u32, text")

enum lk_msg { LK_MSG_LIST(LK_WORD_VALUE) LK_MSG_COUNT };

#define LK_STORE_MAGIC 0x65726F74736B6C00ULL /* "\0lkstore" */

enum {
    LK_STORE_VERSION = 2,
    LK_HELLO_BYTES = 8 + 8 + 4 + 4 + 8 + 16, /* before the job */
    LK_STORE_KEY_MAX = 255,
    LK_STORE_VALUE_MAX = 1 << 20,
    LK_STORE_TEXT_MAX = 768, /* text of a report or verdict */
    LK_STORE_SUM_BYTES = 16, /* of what ranks must have alike */
    LK_FRAME_HEAD = 4 + 1 + 8,
    LK_FRAME_PAYLOAD_MAX = 1 + LK_STORE_KEY_MAX + LK_STORE_VALUE_MAX,
};
#define LK_STORE_NO_PEER   0xFFFFFFFFU
#define LK_STORE_ALL_RANKS 0xFFFFFFFEU /* the text is the verdict: no rank alone is at fault */
/* The key of part i of a text whose own key holds its size in bytes, as a decimal number. */
#define LK_STORE_PART "%s.%zu"

/* A growing byte queue: frames are appended at the end and taken from the front. */
struct lk_bytes {
    char *data;
    size_t at, n, cap; /* data[at..n) is queued */
};
void lk_bytes_fini(struct lk_bytes *b);
enum lk_status lk_bytes_put(struct lk_bytes *b, const void *data, size_t n);

/* Append a frame whose payload is `head` followed by `tail`. */
enum lk_status lk_frame_put(struct lk_bytes *b, enum lk_msg type, uint64_t id, const void *head,
                            size_t head_bytes, const void *tail, size_t tail_bytes);

struct lk_frame {
    enum lk_msg type;
    uint64_t id;
    const char *payload; /* points into the queue: valid until bytes are added to it */
    size_t bytes;
};
/* Take the first frame, if it is complete. LK_EPARSE: not the store's protocol. */
enum lk_status lk_frame_take(struct lk_bytes *b, struct lk_frame *out, bool *out_whole);

/* Receive what has arrived, send what can be sent, without waiting. LK_EPEER: closed or reset. */
enum lk_status lk_bytes_recv(struct lk_bytes *b, int fd);
enum lk_status lk_bytes_send(struct lk_bytes *b, int fd);

/* Write and read an integer of n bytes in a payload; n is 1, 4 or 8. */
void lk_wire_put(char *at, uint64_t v, size_t n);
uint64_t lk_wire_get(const char *at, size_t n);

#endif
