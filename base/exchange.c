/* Words for how gradients are exchanged. */
#include "base/exchange.h"

const struct lk_words lk_sharding_words = LK_WORDS("a sharding", LK_SHARDING_LIST);
const struct lk_words lk_compression_words = LK_WORDS("a compression", LK_COMPRESSION_LIST);
const struct lk_words lk_grad_dtype_words = LK_WORDS("a gradient dtype", LK_GRAD_DTYPE_LIST);

static const uint64_t grad_dtype_bytes[] = {LK_GRAD_DTYPE_LIST(LK_WORD_THIRD)};

uint64_t lk_grad_dtype_bytes(enum lk_grad_dtype d)
{
    return grad_dtype_bytes[d];
}
