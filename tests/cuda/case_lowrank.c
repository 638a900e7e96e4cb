/* The case of orthonormal columns: of rows side by side and of columns side by side, with columns
 * that are 0 or depend on others. */
#include "tests/cuda/buffers.h"

static const struct {
    size_t rows, columns;
} matrices[] = {
    {1, 1}, {5, 3}, {40, 4}, {700, 2}, {3, 0}, {0, 0}, {50257, 4}, {3072, 16},
};
enum { HOST_MATRICES = 6, SHIFTED_MATRICES = 8 };

/* An error of a column's elements, which are at most 1, moves the columns behind it by as much, and
 * by more where they are nearly parallel to it, which random columns are not. */
static double bound(const struct cuda_rig *r)
{
    return r->cuda.real == LK_F32 ? 64 * ULP : 8 * lk_dtype_unit_roundoff(r->cuda.real);
}

static void run(struct cuda_rig *r, size_t rows, size_t columns, bool rows_first, bool dependent)
{
    struct buffer x = buffer_random(r, "x", r->cuda.real, rows * columns, 1);
    size_t row = rows_first ? columns : 1, column = rows_first ? 1 : rows;

    for (size_t i = 0; i < rows && dependent; i++) {
        x.d[i * row + column] = x.d[i * row];
        x.d[i * row + 2 * column] = 0;
    }
    buffer_send(&x);
    RUN(r, orthogonalize, (.x = x.dev), (.x = x.d), .rows = rows, .columns = columns,
        .row_stride = row, .column_stride = column);
    buffer_check(&x, bound(r));
    buffers_free(r);
}

void cuda_case_orthogonalize(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, matrices, HOST_MATRICES, SHIFTED_MATRICES); i++)
        for (int k = 0; k < 2; k++) {
            run(r, matrices[i].rows, matrices[i].columns, k, false);
            if (matrices[i].columns > 2 && matrices[i].rows > 3)
                run(r, matrices[i].rows, matrices[i].columns, k, true);
        }
}
