/* Files of tensors: what is written is read back; any change, and any cut, is refused. */
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "facts/tensor_file.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_tensor_text texts[] = {{"step", "40"}, {"--data", "a \"b\" \\ c"}};
static const struct lk_tensor_row rows[] = {{.name = "order", .dtype = LK_I64, .elems = 3},
                                            {.name = "wte", .dtype = LK_F32, .elems = 5},
                                            {.name = "none", .dtype = LK_F32, .elems = 0},
                                            {.name = "half", .dtype = LK_BF16, .elems = 3}};

/* Write a file whose data are bytes 0, 1, 2, ...; return its path, which the caller frees. */
static char *write(struct lk_tensor_file *f)
{
    char *path = scratch_path(scratch_dir, "a.safetensors");
    unsigned char next = 0;

    ck_assert_int_eq(lk_tensor_file_lay_out(f, texts, LK_COUNT(texts), rows, LK_COUNT(rows)),
                     LK_OK);
    for (size_t i = 0; i < f->n_rows; i++)
        for (size_t k = 0; k < rows[i].elems * lk_dtype_bytes(rows[i].dtype); k++)
            ((unsigned char *)f->rows[i].data)[k] = next++;
    lk_tensor_file_seal(f);
    ck_assert_int_eq(lk_tensor_file_write(f, path), LK_OK);
    return path;
}

/* Twice into the same memory: as a checkpoint does. */
START_TEST(comes_back)
{
    struct lk_tensor_file f = {0}, back = {0};
    unsigned char next = 0;
    char *path = write(&f);

    free(path);
    path = write(&f);
    ck_assert_msg(lk_tensor_file_read(path, &back) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(lk_tensor_file_text(&back, "step"), "40");
    ck_assert_str_eq(lk_tensor_file_text(&back, "--data"), texts[1].value);
    ck_assert_ptr_null(lk_tensor_file_text(&back, "other"));
    ck_assert_ptr_null(lk_tensor_file_row(&back, "other"));
    ck_assert_uint_eq(back.n_rows, LK_COUNT(rows));
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        const struct lk_tensor_row *row = lk_tensor_file_row(&back, rows[i].name);

        ck_assert_ptr_nonnull(row);
        ck_assert_int_eq(row->dtype, rows[i].dtype);
        ck_assert_uint_eq(row->elems, rows[i].elems);
        for (size_t k = 0; k < row->elems * lk_dtype_bytes(row->dtype); k++)
            ck_assert_uint_eq(((const unsigned char *)row->data)[k], next++);
    }
    lk_tensor_file_fini(&f);
    lk_tensor_file_fini(&back);
    free(path);
}
END_TEST

/* The format of others: a length, JSON of so many bytes, data; offsets count from there. */
START_TEST(is_safetensors)
{
    struct lk_tensor_file f = {0};
    char *path = write(&f), *bytes = NULL;
    struct lk_json_doc *doc = NULL;
    struct lk_json *row, *offsets;
    uint64_t header;
    const char *type;
    int64_t from, to;
    size_t size;

    ck_assert_int_eq(lk_file_read(path, &bytes, &size), LK_OK);
    memcpy(&header, bytes, sizeof header);
    ck_assert_uint_eq(header % 8, 0);
    ck_assert_int_eq(lk_json_parse(path, bytes + 8, (size_t)header, &doc), LK_OK);
    ck_assert_int_eq(lk_json_object(lk_json_root(doc), "wte", &row), LK_OK);
    ck_assert_int_eq(lk_json_text(row, "dtype", &type), LK_OK);
    ck_assert_str_eq(type, "F32");
    ck_assert_int_eq(lk_json_array(row, "data_offsets", &offsets), LK_OK);
    ck_assert_int_eq(lk_json_as_int(lk_json_item(offsets, 0), 0, 1000, &from), LK_OK);
    ck_assert_int_eq(lk_json_as_int(lk_json_item(offsets, 1), 0, 1000, &to), LK_OK);
    ck_assert_int_eq(from, 24);
    ck_assert_int_eq(to, 44);
    ck_assert_int_eq(bytes[8 + header + 24], 24);
    ck_assert_uint_eq(size, 8 + header + 24 + 20 + 6);
    lk_json_free(doc);
    lk_tensor_file_fini(&f);
    free(bytes);
    free(path);
}
END_TEST

static enum lk_status read_bytes(const char *path, const char *bytes, size_t size)
{
    struct lk_tensor_file f = {0};
    FILE *file = fopen(path, "wb");
    enum lk_status st;

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    st = lk_tensor_file_read(path, &f);
    lk_tensor_file_fini(&f);
    return st;
}

START_TEST(damage_is_refused)
{
    struct lk_rng g = lk_rng_init(6, 0);
    struct lk_tensor_file f = {0};
    char *path = write(&f), *bytes = NULL;
    size_t size;

    ck_assert_int_eq(lk_file_read(path, &bytes, &size), LK_OK);
    ck_assert_int_eq(read_bytes(path, bytes, size), LK_OK);
    for (size_t cut = 0; cut < size; cut += 7) {
        ck_assert_int_ne(read_bytes(path, bytes, cut), LK_OK);
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "a.safetensors"));
    }
    for (size_t i = 0; i < cases_or(500); i++) {
        size_t at = (size_t)lk_rng_below(&g, size);
        char was = bytes[at];

        bytes[at] = (char)(was ^ (1 << lk_rng_below(&g, 8)));
        ck_assert_msg(read_bytes(path, bytes, size) != LK_OK, "byte %zu of %zu", at, size);
        bytes[at] = was;
    }
    lk_tensor_file_fini(&f);
    free(bytes);
    free(path);
}
END_TEST

SUITE(tensor_file, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, comes_back);
    tcase_add_test(t, is_safetensors);
    tcase_add_test(t, damage_is_refused);
}
