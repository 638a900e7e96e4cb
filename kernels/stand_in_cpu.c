/* The surrogates on a CPU: move copies, hold does nothing. */
#include "kernels/impl.h"

#include <string.h>

void lk_hold_cpu(const void *args)
{
    (void)args;
}

void lk_move_cpu(const void *args)
{
    const struct lk_move_args *a = args;

    if (a->bytes)
        memcpy(a->to, a->from, a->bytes);
}
