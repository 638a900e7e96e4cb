#include "tests/rigs/skip.h"

#include <stdarg.h>
#include <stdio.h>

static atomic_int *count; /* set by the runner before the tests */

void skip_count_in(atomic_int *counter)
{
    count = counter;
}

void skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("skipped: ", stdout);
    (void)vprintf(format, args);
    putchar('\n');
    va_end(args);
    fflush(stdout);
    if (count)
        atomic_fetch_add(count, 1);
}
