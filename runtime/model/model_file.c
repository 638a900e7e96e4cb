/*
 * Write and read weights as a file: one line of JSON, then float32 little endian.
 *
 *     {"schema": "lockstep.weights", "version": 1,
 *      "parameters": [{"name": "wte.weight", "elems": 12288}, ...]}
 */
#include "runtime/model/model_impl.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA "lockstep.weights"
enum { VERSION = 1 };

static enum lk_status write_header(struct lk_writer *w, const struct lk_model *m)
{
    struct lk_json_out *o;
    enum lk_status st = lk_json_out_begin(w, &o);

    if (st != LK_OK)
        return st;
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", SCHEMA);
    lk_json_out_int(o, "version", VERSION);
    lk_json_out_array(o, "parameters");
    for (size_t i = 0; i < m->n_params; i++) {
        lk_json_out_object(o, NULL);
        lk_json_out_text(o, "name", m->params[i].name);
        lk_json_out_int(o, "elems", (int64_t)m->params[i].elems);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
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

/* Allocate a buffer for the largest parameter. */
static enum lk_status alloc_largest(const struct lk_model *m, float **out)
{
    size_t largest = 0;

    for (size_t i = 0; i < m->n_params; i++)
        largest = m->params[i].elems > largest ? m->params[i].elems : largest;
    return lk_alloc(out, largest, sizeof **out);
}

enum lk_status lk_model_export(struct lk_model *m, const char *path)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;
    float *values = NULL;

    LK_TRY(alloc_largest(m, &values));
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(write_header(w, m));
    for (size_t i = 0; i < m->n_params; i++) {
        LK_TRY(lk_model_download(m, i, values));
        to_little_endian(values, m->params[i].elems);
        LK_TRY(lk_writer_put(w, values, m->params[i].elems * sizeof *values));
    }
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    free(values);
    return st;
}

static enum lk_status check_row(struct lk_json *row, const struct lk_param *p)
{
    enum lk_status st = LK_OK;
    const char *name;
    int64_t elems;

    LK_TRY(lk_json_text(row, "name", &name));
    LK_TRY(lk_json_int(row, "elems", 0, INT64_MAX, &elems));
    LK_TRY(lk_json_end(row));
    if (strcmp(name, p->name) != 0 || (uint64_t)elems != p->elems)
        st = lk_json_error(row, "'%s' with %lld elements where the model has '%s' with %zu", name,
                           (long long)elems, p->name, p->elems);
out:
    return st;
}

/* Check that the file's parameters are the model's: names, sizes and order. */
static enum lk_status check_header(struct lk_json *root, const struct lk_model *m)
{
    struct lk_json *list;
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_schema(root, SCHEMA, VERSION));
    LK_TRY(lk_json_array(root, "parameters", &list));
    LK_TRY(lk_json_end(root));
    if (lk_json_count(list) != m->n_params)
        return lk_json_error(list, "%zu parameters, the model has %zu", lk_json_count(list),
                             m->n_params);
    for (size_t i = 0; i < m->n_params && st == LK_OK; i++)
        st = check_row(lk_json_item(list, i), &m->params[i]);
out:
    return st;
}

enum lk_status lk_model_import(struct lk_model *m, const char *path)
{
    struct lk_json_doc *doc = NULL;
    enum lk_status st = LK_OK;
    float *values = NULL;
    char *text = NULL;
    const char *data;
    size_t size, header, elems = 0;

    LK_TRY(lk_file_read(path, &text, &size));
    data = memchr(text, '\n', size);
    if (!data) {
        st = lk_fail(LK_EPARSE, "%s: no line of JSON at the start", path);
        goto out;
    }
    header = (size_t)(++data - text);
    LK_TRY(lk_json_parse(path, text, header, &doc));
    LK_TRY(check_header(lk_json_root(doc), m));
    for (size_t i = 0; i < m->n_params; i++)
        elems += m->params[i].elems;
    if (size - header != elems * sizeof *values) {
        st = lk_fail(LK_EPARSE, "%s: %zu bytes of weights, expected %zu", path, size - header,
                     elems * sizeof *values);
        goto out;
    }
    LK_TRY(alloc_largest(m, &values));
    for (size_t i = 0; i < m->n_params; i++) {
        from_little_endian(values, (const unsigned char *)data, m->params[i].elems);
        data += m->params[i].elems * sizeof *values;
        LK_TRY(lk_model_upload(m, i, values));
    }
out:
    free(values);
    lk_json_free(doc);
    free(text);
    return st;
}
