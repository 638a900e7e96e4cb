/* Files of named tensors; see the header. Divisions: writing, reading. */
#include "facts/tensor_file.h"

#include "base/array.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little endian");

enum {
    LENGTH_BYTES = 8,
    ALIGNMENT = 8, /* the header is padded with blanks */
    DIGITS = 16
};
#define METADATA    "__metadata__"
#define CHECKSUM    "checksum"
#define NO_CHECKSUM "0000000000000000"
#define HEADER_MAX  (100U << 20) /* as the reference implementation has it */

static const struct {
    enum lk_dtype dtype;
    const char *name;
} types[] = {{LK_F32, "F32"}, {LK_F64, "F64"}, {LK_BF16, "BF16"}, {LK_F16, "F16"},
             {LK_I64, "I64"}, {LK_I32, "I32"}, {LK_U8, "U8"}};

static const char *type_name(enum lk_dtype t)
{
    for (size_t i = 0; i < LK_COUNT(types); i++)
        if (types[i].dtype == t)
            return types[i].name;
    return "";
}

/* Return where the header has the digits of the checksum, or NULL. */
static char *find_checksum(char *header, size_t bytes)
{
    static const char key[] = "\"" CHECKSUM "\"";
    char *at = memmem(header, bytes, key, strlen(key)), *end = header + bytes;

    at = at ? memchr(at + strlen(key), '"', (size_t)(end - at) - strlen(key)) : NULL;
    return at && end - at > DIGITS ? at + 1 : NULL;
}

/* Return the checksum of the image with zeros in its place. */
static uint64_t sum_up(const struct lk_tensor_file *f)
{
    char kept[DIGITS];
    uint32_t last = 0;
    uint64_t sum;

    memcpy(kept, f->checksum, DIGITS);
    memcpy(f->checksum, NO_CHECKSUM, DIGITS);
    sum = lk_checksum((const uint32_t *)(const void *)f->image, f->bytes / sizeof last);
    memcpy(&last, f->image + f->bytes / sizeof last * sizeof last, f->bytes % sizeof last);
    memcpy(f->checksum, kept, DIGITS);
    return sum + lk_checksum_word(last, f->bytes / sizeof last);
}

/* ---- Writing ---- */

static enum lk_status write_header(const struct lk_tensor_file *f, char **out, size_t *out_bytes)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    struct lk_json_out *o;
    size_t offset = 0;

    LK_TRY(lk_writer_open_memory(out, out_bytes, &w));
    LK_TRY(lk_json_out_begin(w, &o));
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_object(o, METADATA);
    lk_json_out_text(o, CHECKSUM, NO_CHECKSUM);
    for (size_t i = 0; i < f->n_texts; i++)
        lk_json_out_text(o, f->texts[i].key, f->texts[i].value);
    lk_json_out_close(o);
    for (size_t i = 0; i < f->n_rows; i++) {
        const struct lk_tensor_row *r = &f->rows[i];

        lk_json_out_object(o, r->name);
        lk_json_out_text(o, "dtype", type_name(r->dtype));
        lk_json_out_array(o, "shape");
        lk_json_out_uint(o, NULL, r->elems);
        lk_json_out_close(o);
        lk_json_out_array(o, "data_offsets");
        lk_json_out_uint(o, NULL, offset);
        offset += r->elems * lk_dtype_bytes(r->dtype);
        lk_json_out_uint(o, NULL, offset);
        lk_json_out_close(o);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    LK_TRY(lk_json_out_end(o));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_tensor_file_lay_out(struct lk_tensor_file *f, const struct lk_tensor_text *texts,
                                      size_t n_texts, const struct lk_tensor_row *rows,
                                      size_t n_rows)
{
    enum lk_status st = LK_OK;
    char *header = NULL;
    size_t header_bytes = 0, padded, data = 0;
    uint64_t length;

    LK_TRY(lk_array_grow(&f->rows, &f->rows_capacity, n_rows, sizeof *f->rows));
    memcpy(f->rows, rows, n_rows * sizeof *rows);
    f->n_rows = n_rows;
    free(f->texts);
    f->texts = NULL;
    f->n_texts = 0;
    LK_TRY(lk_alloc(&f->texts, n_texts, sizeof *f->texts));
    if (n_texts)
        memcpy(f->texts, texts, n_texts * sizeof *texts);
    f->n_texts = n_texts;
    LK_TRY(write_header(f, &header, &header_bytes));
    for (size_t i = 0; i < n_rows; i++)
        data += rows[i].elems * lk_dtype_bytes(rows[i].dtype);
    length = padded = (header_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    LK_TRY(lk_array_grow(&f->image, &f->capacity, LENGTH_BYTES + padded + data, 1));
    f->bytes = LENGTH_BYTES + padded + data;
    memcpy(f->image, &length, LENGTH_BYTES);
    memset(f->image + LENGTH_BYTES, ' ', padded);
    memcpy(f->image + LENGTH_BYTES, header, header_bytes);
    f->checksum = find_checksum(f->image + LENGTH_BYTES, header_bytes);
    if (!f->checksum)
        LK_TRY(lk_fail(LK_EINTERNAL, "a header of tensors without checksum"));
    data = LENGTH_BYTES + padded;
    for (size_t i = 0; i < n_rows; i++) {
        f->rows[i].data = f->image + data;
        data += rows[i].elems * lk_dtype_bytes(rows[i].dtype);
    }
out:
    free(header);
    return st;
}

void lk_tensor_file_seal(struct lk_tensor_file *f)
{
    char digits[DIGITS + 1];

    snprintf(digits, sizeof digits, "%016" PRIx64, sum_up(f));
    memcpy(f->checksum, digits, DIGITS);
}

enum lk_status lk_tensor_file_write(const struct lk_tensor_file *f, const char *path)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;

    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(lk_writer_put(w, f->image, f->bytes));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}

/* ---- Reading ---- */

static enum lk_status read_texts(struct lk_json *root, struct lk_tensor_file *f)
{
    struct lk_json *texts;

    LK_PASS(lk_json_object(root, METADATA, &texts));
    LK_PASS(lk_alloc(&f->texts, lk_json_count(texts), sizeof *f->texts));
    for (size_t i = 0; i < lk_json_count(texts); i++) {
        const char *key, *value;

        LK_PASS(lk_json_as_text(lk_json_member(texts, i, &key), &value));
        snprintf(f->texts[i].key, sizeof f->texts[i].key, "%s", key);
        snprintf(f->texts[i].value, sizeof f->texts[i].value, "%s", value);
        f->n_texts++;
    }
    return LK_OK;
}

/* Read a tensor's entry; its data begin at *offset behind the header, and *offset moves on. */
static enum lk_status read_row(struct lk_json *v, const char *name, size_t data_bytes,
                               struct lk_tensor_row *row, size_t *offset)
{
    struct lk_json *shape, *places;
    const char *type;
    int64_t n, from, to;
    size_t i = 0;

    LK_PASS(lk_json_expect(v, LK_JSON_OBJECT));
    LK_PASS(lk_json_text(v, "dtype", &type));
    while (i < LK_COUNT(types) && strcmp(types[i].name, type) != 0)
        i++;
    if (i == LK_COUNT(types))
        return lk_json_error(v, "type '%s' is none of a tensor here", type);
    LK_PASS(lk_json_array(v, "shape", &shape));
    LK_PASS(lk_json_array(v, "data_offsets", &places));
    LK_PASS(lk_json_end(v));
    if (lk_json_count(places) != 2)
        return lk_json_error(v, "data_offsets has not two numbers");
    LK_PASS(lk_json_as_int(lk_json_item(places, 0), 0, INT64_MAX, &from));
    LK_PASS(lk_json_as_int(lk_json_item(places, 1), from, INT64_MAX, &to));
    row->dtype = types[i].dtype;
    row->elems = 1;
    for (i = 0; i < lk_json_count(shape); i++) {
        LK_PASS(lk_json_as_int(lk_json_item(shape, i), 0, INT64_MAX, &n));
        if (n && row->elems > data_bytes / (size_t)n)
            return lk_json_error(v, "its shape is larger than the file");
        row->elems *= (size_t)n;
    }
    if ((size_t)from != *offset || (size_t)to > data_bytes ||
        (size_t)(to - from) != row->elems * lk_dtype_bytes(row->dtype))
        return lk_json_error(v, "data_offsets are not those of its type and shape");
    *offset = (size_t)to;
    snprintf(row->name, sizeof row->name, "%s", name);
    return LK_OK;
}

static enum lk_status read_rows(struct lk_json *root, size_t header, struct lk_tensor_file *f)
{
    size_t data_bytes = f->bytes - header, offset = 0;

    LK_PASS(lk_array_grow(&f->rows, &f->rows_capacity, lk_json_count(root), sizeof *f->rows));
    for (size_t i = 0; i < lk_json_count(root); i++) {
        struct lk_tensor_row *row = &f->rows[f->n_rows];
        const char *name;
        struct lk_json *v = lk_json_member(root, i, &name);

        if (!strcmp(name, METADATA))
            continue;
        row->data = f->image + header + offset;
        LK_PASS(read_row(v, name, data_bytes, row, &offset));
        f->n_rows++;
    }
    return offset == data_bytes
               ? LK_OK
               : lk_json_error(root, "its tensors have %zu bytes, the file has %zu", offset,
                               data_bytes);
}

/* Read what comes before the data: it may be damaged, so nothing of it is trusted. */
static enum lk_status read_header(const char *path, struct lk_tensor_file *f,
                                  struct lk_json_doc **doc)
{
    uint64_t length = 0;

    if (f->bytes >= LENGTH_BYTES)
        memcpy(&length, f->image, LENGTH_BYTES);
    if (f->bytes < LENGTH_BYTES || length > HEADER_MAX || length > f->bytes - LENGTH_BYTES)
        return lk_fail(LK_EPARSE, "%s: is no safetensors file, or is cut off", path);
    f->checksum = find_checksum(f->image + LENGTH_BYTES, (size_t)length);
    if (!f->checksum)
        return lk_fail(LK_EPARSE, "%s: has no checksum: this program did not write it", path);
    LK_PASS(lk_json_parse(path, f->image + LENGTH_BYTES, (size_t)length, doc));
    LK_PASS(lk_json_expect(lk_json_root(*doc), LK_JSON_OBJECT));
    LK_PASS(read_texts(lk_json_root(*doc), f));
    return read_rows(lk_json_root(*doc), LENGTH_BYTES + (size_t)length, f);
}

enum lk_status lk_tensor_file_read(const char *path, struct lk_tensor_file *out)
{
    enum lk_status st = LK_OK;
    struct lk_tensor_file f = {0};
    struct lk_json_doc *doc = NULL;
    char digits[DIGITS + 1];

    LK_TRY(lk_file_read_max(path, SIZE_MAX / 2, &f.image, &f.bytes));
    LK_TRY(read_header(path, &f, &doc));
    snprintf(digits, sizeof digits, "%016" PRIx64, sum_up(&f));
    if (memcmp(digits, f.checksum, DIGITS) != 0)
        LK_TRY(lk_fail(LK_EPARSE, "%s: is damaged: its checksum is %s, not %.*s", path, digits,
                       DIGITS, f.checksum));
    *out = f;
    f = (struct lk_tensor_file){0};
out:
    lk_json_free(doc);
    lk_tensor_file_fini(&f);
    return st;
}

const char *lk_tensor_file_text(const struct lk_tensor_file *f, const char *key)
{
    for (size_t i = 0; i < f->n_texts; i++)
        if (!strcmp(f->texts[i].key, key))
            return f->texts[i].value;
    return NULL;
}

const struct lk_tensor_row *lk_tensor_file_row(const struct lk_tensor_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_rows; i++)
        if (!strcmp(f->rows[i].name, name))
            return &f->rows[i];
    return NULL;
}

void lk_tensor_file_fini(struct lk_tensor_file *f)
{
    free(f->image);
    free(f->rows);
    free(f->texts);
    *f = (struct lk_tensor_file){0};
}
