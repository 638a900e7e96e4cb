/* Gradient lists from tables and counts. */
#include "facts/gradients.h"

#include "base/array.h"
#include "base/csv.h"
#include "base/units.h"
#include "facts/bounds.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { NAME, ELEMENTS, SHAPE, DTYPE, READY, N_COLUMNS };

static const struct lk_csv_column columns[N_COLUMNS] = {
    [NAME] = {"name|parameter", true}, [ELEMENTS] = {"elements|numel", false},
    [SHAPE] = {"shape", false},        [DTYPE] = {"dtype", false},
    [READY] = {"ready", false},
};

/* Multiply the numbers in a shape; a shape without numbers is a scalar's, one element. */
static enum lk_status elements_of(const struct lk_csv *csv, size_t row, const char *shape,
                                  uint64_t *out)
{
    uint64_t product = 1;

    for (const char *at = shape; *at;) {
        uint64_t n = 0;

        if (*at == '-')
            return lk_csv_error(csv, row, SHAPE, "'%s' has a negative side", shape);
        if (!isdigit((unsigned char)*at)) {
            at++;
            continue;
        }
        for (; isdigit((unsigned char)*at) && n <= LK_TENSOR_ELEMS_MAX; at++)
            n = 10 * n + (uint64_t)(*at - '0');
        if (!n || n > LK_TENSOR_ELEMS_MAX / product)
            return lk_csv_error(csv, row, SHAPE, "'%s' has no, or more than 2^48, elements", shape);
        product *= n;
    }
    *out = product;
    return LK_OK;
}

static enum lk_status read_tensor(const struct lk_csv *csv, size_t row, enum lk_dtype dtype,
                                  struct lk_job_tensor *t)
{
    const char *text;
    int64_t elems;

    LK_PASS(lk_csv_text(csv, row, NAME, &text));
    LK_PASS(lk_strdup(&t->name, text));
    if (lk_csv_has(csv, row, ELEMENTS)) {
        LK_PASS(lk_csv_int(csv, row, ELEMENTS, 1, (int64_t)LK_TENSOR_ELEMS_MAX, &elems));
        t->elems = (uint64_t)elems;
    } else {
        LK_PASS(lk_csv_text(csv, row, SHAPE, &text));
        LK_PASS(elements_of(csv, row, text, &t->elems));
    }
    t->dtype = dtype;
    t->ready = NAN;
    if (lk_csv_has(csv, row, DTYPE)) {
        LK_PASS(lk_csv_text(csv, row, DTYPE, &text));
        if (lk_words_find(&lk_dtype_words, text, &t->dtype) != LK_OK)
            LK_PASS(
                lk_csv_error(csv, row, DTYPE, "'%s' is no dtype: float32, bfloat16, ...", text));
    }
    if (lk_csv_has_column(csv, READY))
        LK_PASS(lk_csv_real(csv, row, READY, 0, 1, &t->ready));
    return LK_OK;
}

/* Start a job of n tensors with PyTorch's defaults and nothing measured. */
static enum lk_status start(struct lk_job *j, size_t n)
{
    lk_job_init(j);
    j->ddp_rule = LK_DDP_TORCH_2;
    j->cap_bytes = LK_BUCKET_CAP_BYTES;
    j->first_bytes = lk_ddp_rule_first_bytes(j->ddp_rule, j->cap_bytes, false);
    j->accumulation = 1;
    j->reduce = LK_REDUCTION_LAST;
    LK_PASS(lk_strdup(&j->sample_unit, "sample"));
    LK_PASS(lk_alloc(&j->tensors, n, sizeof *j->tensors));
    j->n_tensors = n;
    return LK_OK;
}

enum lk_status lk_gradients_read(const char *path, enum lk_dtype dtype, struct lk_job *out,
                                 bool *out_timed)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;
    struct lk_job j = {0};
    size_t rows;

    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &csv));
    rows = lk_csv_rows(csv);
    if (!rows)
        LK_TRY(lk_fail(LK_EPARSE, "%s: no rows", path));
    if (!lk_csv_has_column(csv, ELEMENTS) && !lk_csv_has_column(csv, SHAPE))
        LK_TRY(lk_fail(LK_EPARSE, "%s: needs a column elements or shape", path));
    LK_TRY(start(&j, rows));
    LK_TRY(lk_strdup(&j.name, path));
    for (size_t i = 0; i < rows; i++)
        LK_TRY(read_tensor(csv, i, dtype, &j.tensors[i]));
    *out_timed = lk_csv_has_column(csv, READY);
    LK_TRY(lk_job_order_gradients(&j));
    *out = j;
    memset(&j, 0, sizeof j);
out:
    lk_job_fini(&j);
    lk_csv_free(csv);
    return st;
}

enum lk_status lk_gradients_of_count(double parameters, enum lk_dtype dtype, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    struct lk_job j = {0};
    uint64_t left = (uint64_t)parameters, n;

    if (!(parameters >= 1 && parameters <= LK_PARAMETERS_MAX))
        return lk_fail(LK_EUSAGE, "%g parameters: expected 1 to %g", parameters, LK_PARAMETERS_MAX);
    n = left < LK_GRADIENTS_TENSORS ? left : LK_GRADIENTS_TENSORS;
    LK_TRY(start(&j, n));
    LK_TRY(lk_asprintf(&j.name, "%.4g parameters", parameters));
    for (size_t i = 0; i < n; i++) {
        struct lk_job_tensor *t = &j.tensors[i];

        t->elems = left / (n - i);
        t->dtype = dtype;
        t->ready = NAN;
        left -= t->elems;
        LK_TRY(lk_asprintf(&t->name, "part %zu of %llu", i + 1, (unsigned long long)n));
    }
    LK_TRY(lk_job_order_gradients(&j));
    *out = j;
    memset(&j, 0, sizeof j);
out:
    lk_job_fini(&j);
    return st;
}

enum lk_status lk_gradients_parse_count(const char *text, double *out)
{
    double v;

    if (lk_units_parse(LK_DIM_COUNT, text, &v) != LK_OK || !(v >= 1))
        return lk_fail(LK_EUSAGE, "'%s': expected a count of parameters, e.g. 124M", text);
    if (v > LK_PARAMETERS_MAX)
        return lk_fail(LK_EUSAGE, "'%s': expected a count of parameters, e.g. 124M, to %g", text,
                       LK_PARAMETERS_MAX);
    *out = floor(v + 0.5);
    return LK_OK;
}
