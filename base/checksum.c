/* A checksum of words; see the header. */
#include "base/checksum.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_WORDS = 1 << 18 };

uint64_t lk_checksum(const uint32_t *words, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += lk_checksum_word(words[i], i);
    return sum;
}

enum lk_status lk_checksum_file(const char *path, uint64_t *out, uint64_t *out_bytes)
{
    const uint64_t odd = 0x9E3779B97F4A7C15U;
    uint32_t *block = NULL;
    uint64_t sum = 0, bytes = 0;
    size_t n = BLOCK_WORDS * sizeof *block;
    enum lk_status st = LK_OK;
    FILE *f = fopen(path, "rbe");

    if (!f)
        LK_TRY(lk_fail(LK_EIO, "%s: %s", path, strerror(errno)));
    LK_TRY(lk_alloc(&block, BLOCK_WORDS, sizeof *block));
    while (n == BLOCK_WORDS * sizeof *block) {
        n = fread(block, 1, BLOCK_WORDS * sizeof *block, f);
        memset((char *)block + n, 0, BLOCK_WORDS * sizeof *block - n);
        bytes += n;
        sum = (sum << 7 | sum >> 57) * odd + lk_checksum(block, (n + 3) / 4);
    }
    if (ferror(f))
        LK_TRY(lk_fail(LK_EIO, "%s: %s", path, strerror(errno)));
    *out = sum;
    *out_bytes = bytes;
out:
    free(block);
    if (f && fclose(f) && st == LK_OK)
        st = lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
    return st;
}
