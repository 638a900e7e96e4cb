/* Files of weights; see the header. */
#include "tests/rigs/weights.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

float *weights_read(const char *path, size_t *n)
{
    char *text = NULL, *line;
    float *out = NULL;
    size_t size;

    must(lk_file_read_max(path, SIZE_MAX, &text, &size));
    line = memchr(text, '\n', size);
    ck_assert_ptr_nonnull(line);
    *n = (size_t)(text + size - line - 1) / sizeof *out;
    must(lk_alloc(&out, *n, sizeof *out));
    memcpy(out, line + 1, *n * sizeof *out);
    free(text);
    return out;
}

double weights_apart(const char *a, const char *b)
{
    size_t n, m;
    float *x = weights_read(a, &n), *y = weights_read(b, &m);
    double most = 0;

    ck_assert_uint_eq(n, m);
    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++) { /* fmax would leave out a NaN */
        double d = fabs((double)x[i] - (double)y[i]);

        most = d <= most ? most : d;
    }
    free(x);
    free(y);
    return most;
}

double weights_apart_in_scratch(const char *a, const char *b)
{
    char *x = scratch_path(scratch_dir, a), *y = scratch_path(scratch_dir, b);
    double most = weights_apart(x, y);

    free(x);
    free(y);
    return most;
}
