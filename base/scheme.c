/* Words for how gradients are exchanged. */
#include "base/scheme.h"

#include "base/array.h"

#include <stdbool.h>
#include <string.h>

#define NAME_(value, name, other) [value] = (name),
static const char *const sharding_names[] = {LK_SHARDING_LIST(NAME_)};
static const char *const compression_names[] = {LK_COMPRESSION_LIST(NAME_)};
static const char *const grad_dtype_names[] = {LK_GRAD_DTYPE_LIST(NAME_)};
#undef NAME_

#define BYTES_(value, name, bytes) [value] = (bytes),
static const uint64_t grad_dtype_bytes[] = {LK_GRAD_DTYPE_LIST(BYTES_)};
#undef BYTES_

const char *lk_sharding_name(enum lk_sharding s)
{
    return sharding_names[s];
}

const char *lk_compression_name(enum lk_compression c)
{
    return compression_names[c];
}

const char *lk_grad_dtype_name(enum lk_grad_dtype d)
{
    return grad_dtype_names[d];
}

uint64_t lk_grad_dtype_bytes(enum lk_grad_dtype d)
{
    return grad_dtype_bytes[d];
}

static bool find(const char *name, const char *const *names, size_t n, size_t *out)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) {
            *out = i;
            return true;
        }
    return false;
}

#define WORD_(value, word, other) " " word

enum lk_status lk_sharding_from_name(const char *name, enum lk_sharding *out)
{
    size_t i;

    if (!find(name, sharding_names, LK_COUNT(sharding_names), &i))
        return lk_fail(LK_EUSAGE, "'%s' is not a sharding (known:%s)", name,
                       LK_SHARDING_LIST(WORD_));
    *out = (enum lk_sharding)i;
    return LK_OK;
}

enum lk_status lk_compression_from_name(const char *name, enum lk_compression *out)
{
    size_t i;

    if (!find(name, compression_names, LK_COUNT(compression_names), &i))
        return lk_fail(LK_EUSAGE, "'%s' is not a compression (known:%s)", name,
                       LK_COMPRESSION_LIST(WORD_));
    *out = (enum lk_compression)i;
    return LK_OK;
}

enum lk_status lk_grad_dtype_from_name(const char *name, enum lk_grad_dtype *out)
{
    size_t i;

    if (!find(name, grad_dtype_names, LK_COUNT(grad_dtype_names), &i))
        return lk_fail(LK_EUSAGE, "'%s' is not a gradient dtype (known:%s)", name,
                       LK_GRAD_DTYPE_LIST(WORD_));
    *out = (enum lk_grad_dtype)i;
    return LK_OK;
}
