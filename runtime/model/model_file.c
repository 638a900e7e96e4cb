/*
 * Files of a model's weights: one line of JSON, then float32 little endian, parameters and then
 * buffers:
 *
 *     {"schema": "lockstep.weights", "version": 1,
 *      "parameters": [{"name": "wte.weight", "elems": 12288}, ...],
 *      "buffers": [{"name": "bn1.running_mean", "elems": 64}, ...]}
 *
 * Models without buffers have no such list.
 */
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "runtime/model/model_impl.h"

#include <stdlib.h>
#include <string.h>

#define SCHEMA "lockstep.weights"
enum { VERSION = 1 };

static void write_row(struct lk_json_out *o, const char *name, size_t elems)
{
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "name", name);
    lk_json_out_int(o, "elems", (int64_t)elems);
    lk_json_out_close(o);
}

static enum lk_status write_header(struct lk_writer *w, const struct lk_model *m)
{
    struct lk_json_out *o;

    LK_PASS(lk_json_out_begin(w, &o));
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", SCHEMA);
    lk_json_out_int(o, "version", VERSION);
    lk_json_out_array(o, "parameters");
    for (size_t i = 0; i < m->n_params; i++)
        write_row(o, m->params[i].name, m->params[i].elems);
    lk_json_out_close(o);
    if (m->n_buffers) {
        lk_json_out_array(o, "buffers");
        for (size_t i = 0; i < m->n_buffers; i++)
            write_row(o, m->buffers[i].name, m->buffers[i].elems);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    return lk_json_out_end(o);
}

/* Convert float32 between this machine's byte order and little endian, in place. */
static void to_little_endian(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        unsigned char *to = (unsigned char *)&x[i];

        memcpy(&bits, &x[i], sizeof bits);
        for (int b = 0; b < 4; b++)
            to[b] = (unsigned char)(bits >> 8 * b);
    }
}

static void from_little_endian(float *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0;

        for (int b = 0; b < 4; b++)
            bits |= (uint32_t)from[4 * i + (size_t)b] << 8 * b;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* Return the elements of tensor i: the parameters come first, then the buffers. */
static size_t elems_of(const struct lk_model *m, size_t i)
{
    return i < m->n_params ? m->params[i].elems : m->buffers[i - m->n_params].elems;
}

static const char *name_of(const struct lk_model *m, size_t i)
{
    return i < m->n_params ? m->params[i].name : m->buffers[i - m->n_params].name;
}

/* Allocate a buffer for the largest tensor. */
static enum lk_status alloc_largest(const struct lk_model *m, float **out)
{
    size_t largest = 0;

    for (size_t i = 0; i < m->n_params + m->n_buffers; i++)
        largest = elems_of(m, i) > largest ? elems_of(m, i) : largest;
    return lk_alloc(out, largest, sizeof **out);
}

/* Copy a tensor to a host array of float32, a parameter's exact weights, and wait. */
static enum lk_status download(struct lk_model *m, size_t i, float *to)
{
    const struct lk_param *p = &m->params[i];

    if (i >= m->n_params)
        return lk_model_transfer(m, m->buffers[i - m->n_params].data, lk_model_wide_dtype(m), NULL,
                                 to, elems_of(m, i));
    if (p->master)
        return lk_model_transfer(m, p->master, LK_F32, NULL, to, p->elems);
    return lk_model_transfer(m, p->data, lk_device_real_dtype(m->device), NULL, to, p->elems);
}

static enum lk_status upload(struct lk_model *m, size_t i, const float *from)
{
    if (i < m->n_params)
        return lk_model_upload(m, i, from);
    return lk_model_transfer(m, m->buffers[i - m->n_params].data, lk_model_wide_dtype(m), from,
                             NULL, elems_of(m, i));
}

enum lk_status lk_model_export(struct lk_model *m, const char *path)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;
    float *values = NULL;

    LK_TRY(alloc_largest(m, &values));
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(write_header(w, m));
    for (size_t i = 0; i < m->n_params + m->n_buffers; i++) {
        LK_TRY(download(m, i, values));
        to_little_endian(values, elems_of(m, i));
        LK_TRY(lk_writer_put(w, values, elems_of(m, i) * sizeof *values));
    }
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    free(values);
    return st;
}

static enum lk_status check_row(struct lk_json *row, const char *its, size_t own)
{
    enum lk_status st = LK_OK;
    const char *name;
    int64_t elems;

    LK_TRY(lk_json_text(row, "name", &name));
    LK_TRY(lk_json_int(row, "elems", 0, INT64_MAX, &elems));
    LK_TRY(lk_json_end(row));
    if (strcmp(name, its) != 0 || (uint64_t)elems != own)
        st = lk_json_error(row, "'%s' with %lld elements where the model has '%s' with %zu", name,
                           (long long)elems, its, own);
out:
    return st;
}

/* Check a list of the file against the model's tensors from `first`, n of them. */
static enum lk_status check_list(struct lk_json *list, const char *what, const struct lk_model *m,
                                 size_t first, size_t n)
{
    if (lk_json_count(list) != n)
        return lk_json_error(list, "%zu %s, the model has %zu", lk_json_count(list), what, n);
    for (size_t i = first; i < first + n; i++)
        LK_PASS(check_row(lk_json_item(list, i - first), name_of(m, i), elems_of(m, i)));
    return LK_OK;
}

/* Check that the file's tensors are the model's: names, sizes and order. */
static enum lk_status check_header(struct lk_json *root, const struct lk_model *m)
{
    struct lk_json *params, *buffers = NULL;

    LK_PASS(lk_json_schema(root, SCHEMA, VERSION));
    LK_PASS(lk_json_array(root, "parameters", &params));
    if (m->n_buffers)
        LK_PASS(lk_json_array(root, "buffers", &buffers));
    LK_PASS(lk_json_end(root));
    LK_PASS(check_list(params, "parameters", m, 0, m->n_params));
    return m->n_buffers ? check_list(buffers, "buffers", m, m->n_params, m->n_buffers) : LK_OK;
}

enum lk_status lk_model_import(struct lk_model *m, const char *path)
{
    struct lk_json_doc *doc = NULL;
    enum lk_status st = LK_OK;
    float *values = NULL;
    char *text = NULL;
    const char *data;
    size_t size, header, elems = 0;

    LK_TRY(lk_file_read_max(path, SIZE_MAX, &text, &size));
    data = memchr(text, '\n', size);
    if (!data)
        LK_TRY(lk_fail(LK_EPARSE, "%s: no line of JSON at the start", path));
    header = (size_t)(++data - text);
    LK_TRY(lk_json_parse(path, text, header, &doc));
    LK_TRY(check_header(lk_json_root(doc), m));
    for (size_t i = 0; i < m->n_params + m->n_buffers; i++)
        elems += elems_of(m, i);
    if (size - header != elems * sizeof *values)
        LK_TRY(lk_fail(LK_EPARSE, "%s: %zu bytes of weights, expected %zu", path, size - header,
                       elems * sizeof *values));
    LK_TRY(alloc_largest(m, &values));
    for (size_t i = 0; i < m->n_params + m->n_buffers && !m->described; i++) {
        from_little_endian(values, (const unsigned char *)data, elems_of(m, i));
        data += elems_of(m, i) * sizeof *values;
        LK_TRY(upload(m, i, values));
    }
out:
    free(values);
    lk_json_free(doc);
    free(text);
    return st;
}
