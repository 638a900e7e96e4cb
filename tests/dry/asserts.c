/* Replaces libcheck for the fakes: they end a test by its assertions; here, also on threads and
 * outside of test_gpu's tests, they end the program, as a fault of a GPU does. See machine.h. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
{
    va_list ap;

    fprintf(stderr, "%s:%d: %s: ", file, line, expr);
    va_start(ap, msg);
    if (msg)
        (void)vfprintf(stderr, msg, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}

void _mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}
