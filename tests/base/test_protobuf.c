/* Protocol Buffers' wire format: bytes of the standard's own examples, and damaged messages. */
#include "base/array.h"
#include "base/protobuf.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <string.h>

/* Numbers and their varints. */
static const struct {
    uint64_t v;
    const char *bytes;
    size_t n;
} varints[] = {
    {0, "\x00", 1},
    {1, "\x01", 1},
    {127, "\x7f", 1},
    {128, "\x80\x01", 2},
    {150, "\x96\x01", 2}, /* protobuf.dev/programming-guides/encoding, "Base 128 Varints" */
    {UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
};

START_TEST(varint)
{
    struct lk_pb p = lk_pb_of((const unsigned char *)varints[_i].bytes, varints[_i].n);
    struct lk_pb_out o = {0};
    uint64_t v;

    lk_pb_put_varint(&o, varints[_i].v);
    must(o.status);
    ck_assert_uint_eq(o.n, varints[_i].n);
    ck_assert_mem_eq(o.bytes, varints[_i].bytes, o.n);
    ck_assert(lk_pb_varint(&p, &v));
    ck_assert_uint_eq(v, varints[_i].v);
    ck_assert(!lk_pb_varint(&p, &v) && !p.damaged);
    lk_pb_out_fini(&o);
}
END_TEST

START_TEST(fields_come_back)
{
    /* A varint, a text, fixed numbers of 64 and 32 bits. */
    static const char fixed[] = "\x19\x01\x02\x03\x04\x05\x06\x07\x08\x25\x01\x00\x00\x80";
    struct lk_pb_out o = {0};
    struct lk_pb_field f;
    struct lk_pb p;

    lk_pb_put_uint(&o, 1, 150);
    lk_pb_put_text(&o, 200, "testing");
    must(o.status);
    ck_assert_mem_eq(o.bytes, "\x08\x96\x01\xc2\x0c\x07testing", 13);
    p = lk_pb_of(o.bytes, o.n);
    ck_assert(lk_pb_next(&p, &f) && f.number == 1 && f.wire == LK_PB_VARINT && f.value == 150);
    ck_assert(lk_pb_next(&p, &f) && f.number == 200 && f.wire == LK_PB_BYTES && f.n == 7);
    ck_assert_mem_eq(f.bytes, "testing", 7);
    ck_assert(!lk_pb_next(&p, &f) && !p.damaged);
    p = lk_pb_of((const unsigned char *)fixed, sizeof fixed - 1);
    ck_assert(lk_pb_next(&p, &f) && f.number == 3 && f.value == 0x0807060504030201);
    ck_assert(lk_pb_next(&p, &f) && f.number == 4 && f.value == 0x80000001);
    ck_assert(!lk_pb_next(&p, &f) && !p.damaged);
    p = lk_pb_of(NULL, 0);
    ck_assert(!lk_pb_next(&p, &f) && !p.damaged);
    lk_pb_out_fini(&o);
}
END_TEST

/* A field of number 0, one beyond 29 bits, groups, values that are cut off, a varint of 11 bytes.
 */
static const struct {
    const char *bytes;
    size_t n;
} damaged[] = {
    {"\x00\x01", 2},
    {"\x80\x80\x80\x80\x80\x01\x01", 7},
    {"\x0b", 1},
    {"\x0c", 1},
    {"\x0e", 1},
    {"\x08", 1},
    {"\x08\x80", 2},
    {"\x0a\x05"
     "abcd",
     6},
    {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01z", 12},
    {"\x09\x01\x02\x03\x04\x05\x06\x07", 8},
    {"\x0d\x01\x02\x03", 4},
    {"\x80", 1},
    {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
};

START_TEST(damage_is_seen)
{
    struct lk_pb p = lk_pb_of((const unsigned char *)damaged[_i].bytes, damaged[_i].n);
    struct lk_pb_field f;

    ck_assert(!lk_pb_next(&p, &f));
    ck_assert(p.damaged);
    ck_assert(!lk_pb_next(&p, &f));
}
END_TEST

SUITE(protobuf, t)
{
    tcase_add_loop_test(t, varint, 0, LK_COUNT(varints));
    tcase_add_test(t, fields_come_back);
    tcase_add_loop_test(t, damage_is_seen, 0, LK_COUNT(damaged));
}
