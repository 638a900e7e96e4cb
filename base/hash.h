/* FNV-1a (Fowler, Noll, Vo), 64 bits: a hash for tables in memory. Inline: the preload library
 * links nothing of ours. */
#ifndef LK_BASE_HASH_H
#define LK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t lk_hash(const void *bytes, size_t n)
{
    uint64_t h = 14695981039346656037ULL;

    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211ULL;
    return h;
}

#endif
