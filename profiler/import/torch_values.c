#include "profiler/import/torch_values.h"

#include "base/array.h"
#include "facts/bounds.h"

#include <ctype.h>
#include <string.h>

/* Multiply and add, bounded: no factor is above SUM_MAX, so nothing overflows. */
#define SUM_MAX (1ULL << 56)

static uint64_t bounded(uint64_t v)
{
    return v < SUM_MAX ? v : SUM_MAX;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > SUM_MAX / b ? SUM_MAX : a * b;
}

uint64_t lk_torch_elements(const char *text, size_t n)
{
    uint64_t sum = 0, product = 1, digits = 0;
    bool number = false, any = false;

    for (size_t i = 0; i < n; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            digits = bounded(10 * digits + (uint64_t)(text[i] - '0'));
            number = true;
            continue;
        }
        if (number) {
            product = times(product, digits);
            any = true;
        }
        number = false;
        digits = 0;
        if (text[i] == ']' && any)
            sum = bounded(sum + product);
        if (text[i] == '[' || text[i] == ']') {
            product = 1;
            any = false;
        }
    }
    return sum <= LK_TENSOR_ELEMS_MAX ? sum : 0;
}

uint64_t lk_torch_tensor_elements(const char *text, size_t n)
{
    return n == 4 && !memcmp(text, "[[]]", 4) ? 1 : lk_torch_elements(text, n);
}

/* Return true if the text begins with the name of a type, in PyTorch's spelling or in C's ("Float",
 * "float"), and the name ends there. */
static bool starts_with(const char *text, size_t n, const char *name)
{
    size_t m = strlen(name);

    return n >= m && tolower((unsigned char)*text) == tolower((unsigned char)*name) &&
           !memcmp(text + 1, name + 1, m - 1) && (n == m || strchr("\"],)", text[m]) != NULL);
}

bool lk_torch_dtype(const char *text, size_t n, enum lk_dtype *out)
{
    static const char *const before[] = {"Tensor(", "c10::"};

    for (size_t i = 0; i < LK_COUNT(before); i++) {
        const char *found = n ? memmem(text, n, before[i], strlen(before[i])) : NULL;

        if (found) {
            n -= (size_t)(found - text) + strlen(before[i]);
            text = found + strlen(before[i]);
        }
    }
    while (n > 0 && strchr("[\" ", *text))
        text++, n--;
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        if (starts_with(text, n, lk_dtype_torch_name((enum lk_dtype)t))) {
            *out = (enum lk_dtype)t;
            return true;
        }
    return false;
}
