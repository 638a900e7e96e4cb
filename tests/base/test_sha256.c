/* SHA-256 with NIST's vectors (FIPS 180-4's examples, CAVP), HMAC with those of RFC 4231; the
 * checksum of words. */
#include "base/checksum.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *hex(const unsigned char *bytes, char *buf)
{
    for (int i = 0; i < LK_SHA256_BYTES; i++)
        snprintf(buf + 2 * i, 3, "%02x", bytes[i]);
    return buf;
}

static const struct {
    const char *text;
    size_t times; /* the text is repeated */
    const char *hash;
} hashes[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "qrsmnopqrstnopqrstu",
     1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    {"\xbd", 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
    {"\xc9\x8c\x8e\x55", 1, "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504"},
};

START_TEST(hashes_are_nists)
{
    unsigned char out[LK_SHA256_BYTES];
    char text[65];
    struct lk_sha256 h;

    lk_sha256_init(&h);
    for (size_t i = 0; i < hashes[_i].times; i++)
        lk_sha256_add(&h, hashes[_i].text, strlen(hashes[_i].text));
    lk_sha256_end(&h, out);
    ck_assert_str_eq(hex(out, text), hashes[_i].hash);
}
END_TEST

static const struct {
    unsigned char key; /* byte of the key, or the first of a run that counts up */
    bool counts;
    size_t key_bytes;
    const char *data; /* NULL: 50 bytes of `fill` */
    unsigned char fill;
    const char *mac;
} macs[] = {
    {0x0b, false, 20, "Hi There", 0,
     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {0xaa, false, 20, NULL, 0xdd,
     "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
    {0x01, true, 25, NULL, 0xcd,
     "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
    {0xaa, false, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 0,
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    {0xaa, false, 131,
     "This is a test using a larger than block-size key and a larger than block-size data. The key "
     "needs to be hashed before being used by the HMAC algorithm.",
     0, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
};

START_TEST(macs_are_those_of_rfc_4231)
{
    unsigned char key[131], data[50], out[LK_SHA256_BYTES];
    const char *text = macs[_i].data;
    char shown[65];

    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (unsigned char)(macs[_i].key + (macs[_i].counts ? i : 0));
    memset(data, macs[_i].fill, sizeof data);
    lk_hmac_sha256(key, macs[_i].key_bytes, text ? text : (const char *)data,
                   text ? strlen(text) : sizeof data, out);
    ck_assert_str_eq(hex(out, shown), macs[_i].mac);
    ck_assert(lk_equal_secret(out, out, sizeof out));
    for (size_t i = 0; i < sizeof out; i++) {
        unsigned char other[LK_SHA256_BYTES];

        memcpy(other, out, sizeof other);
        other[i] ^= 1;
        ck_assert(!lk_equal_secret(out, other, sizeof out));
    }
}
END_TEST

/* Every bit of every word shows; words that change places show. */
START_TEST(one_bit_changes_a_checksum)
{
    enum { N = 67 };
    uint32_t words[N];
    struct lk_rng g = lk_rng_init(3, 0);
    uint64_t before;

    for (size_t i = 0; i < N; i++)
        words[i] = i % 3 ? (uint32_t)lk_rng_u64(&g) : 0;
    before = lk_checksum(words, N);
    for (size_t bit = 0; bit < 32 * N; bit++) {
        words[bit / 32] ^= 1U << bit % 32;
        ck_assert(lk_checksum(words, N) != before);
        words[bit / 32] ^= 1U << bit % 32;
    }
    ck_assert(lk_checksum(words, N) == before);
    ck_assert(lk_checksum(words, N - 1) != before);
    for (size_t i = 0; i + 1 < N; i++) {
        uint32_t word = words[i];

        words[i] = words[i + 1];
        words[i + 1] = word;
        ck_assert(word == words[i] || lk_checksum(words, N) != before);
        words[i + 1] = words[i];
        words[i] = word;
    }
}
END_TEST

/* Files of every length around a word and a block. */
START_TEST(a_files_checksum)
{
    static const size_t sizes[] = {0, 1, 3, 4, 5, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20};
    size_t n = sizes[_i];
    char *data = calloc(1, n + 1), *path = scratch_put("a", data, n);
    uint64_t sum, bytes, other;

    ck_assert_int_eq(lk_checksum_file(path, &sum, &bytes), LK_OK);
    ck_assert_uint_eq(bytes, n);
    free(path);
    data[n ? n - 1 : 0] = 1;
    path = scratch_put("b", data, n);
    ck_assert_int_eq(lk_checksum_file(path, &other, &bytes), LK_OK);
    ck_assert((other == sum) == (n == 0));
    free(path);
    free(data);
}
END_TEST

START_TEST(a_missing_file_has_none)
{
    uint64_t sum, bytes;

    ck_assert_int_eq(lk_checksum_file("/nowhere/at/all", &sum, &bytes), LK_EIO);
    ck_assert_int_eq(lk_checksum_file("/", &sum, &bytes), LK_EIO);
}
END_TEST

SUITE(sha256, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, hashes_are_nists, 0, sizeof hashes / sizeof *hashes);
    tcase_add_loop_test(c, macs_are_those_of_rfc_4231, 0, sizeof macs / sizeof *macs);
    tcase_add_test(c, one_bit_changes_a_checksum);
    tcase_add_loop_test(c, a_files_checksum, 0, 9);
    tcase_add_test(c, a_missing_file_has_none);
}
