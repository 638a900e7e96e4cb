/* JSON Schema of artefacts; see the header. */
#include "base/member_schema.h"

#include <string.h>

#define QUANTITY_REF "#/$defs/quantity"

/* Depth of records within records: more are a mistake in the rows. */
enum { DEPTH_MAX = 16 };

struct context {
    struct lk_json_out *o;
    bool inherits;   /* objects of the file may lack what they inherit */
    bool quantities; /* some member is one */
    int depth;
    enum lk_status st;
};

/* Write "type": one, or it and null. */
static void put_type(struct lk_json_out *o, const char *type, bool nullable)
{
    if (!nullable) {
        lk_json_out_text(o, "type", type);
        return;
    }
    lk_json_out_compact(o);
    lk_json_out_array(o, "type");
    lk_json_out_text(o, NULL, type);
    lk_json_out_text(o, NULL, "null");
    lk_json_out_close(o);
}

/* Write the bounds of a number. */
static void put_range(struct lk_json_out *o, const struct lk_member *m)
{
    const bool is_integer = m->kind <= LK_KIND_UINT;

    if (m->range == LK_RANGE_ABOVE_0)
        lk_json_out_int(o, "exclusiveMinimum", 0);
    else if (m->range == LK_RANGE_FROM_1)
        lk_json_out_int(o, "minimum", 1);
    else if (m->range == LK_RANGE_SHARE || is_integer)
        lk_json_out_int(o, "minimum", is_integer ? m->min : 0);
    if (m->range == LK_RANGE_SHARE)
        lk_json_out_int(o, "maximum", 1);
    else if (is_integer && m->max)
        lk_json_out_int(o, "maximum", m->max);
}

static void put_words(struct lk_json_out *o, const struct lk_words *words, bool nullable)
{
    lk_json_out_compact(o);
    lk_json_out_array(o, "enum");
    for (size_t i = 0; i < words->n; i++)
        lk_json_out_text(o, NULL, words->names[i]);
    if (nullable)
        lk_json_out_null(o, NULL);
    lk_json_out_close(o);
}

static void put_quantity(struct lk_json_out *o, bool nullable)
{
    if (!nullable) {
        lk_json_out_text(o, "$ref", QUANTITY_REF);
        return;
    }
    lk_json_out_compact(o);
    lk_json_out_array(o, "anyOf");
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "$ref", QUANTITY_REF);
    lk_json_out_close(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "type", "null");
    lk_json_out_close(o);
    lk_json_out_close(o);
}

/* Write an array whose items have a type of JSON. */
static void put_array(struct lk_json_out *o, const char *item, bool null_items, bool nullable)
{
    put_type(o, "array", nullable);
    lk_json_out_compact(o);
    lk_json_out_object(o, "items");
    put_type(o, item, null_items);
    lk_json_out_close(o);
}

/* Write an object of texts by any name. */
static void put_texts_by_name(struct lk_json_out *o, bool nullable)
{
    put_type(o, "object", nullable);
    lk_json_out_compact(o);
    lk_json_out_object(o, "additionalProperties");
    lk_json_out_text(o, "type", "string");
    lk_json_out_close(o);
}

/* Write a member that has functions of its own, by the words that docs/files.md has for it. */
static void put_own(struct context *c, const char *what, bool nullable)
{
    if (!strcmp(what, "list of integers"))
        put_array(c->o, "integer", false, nullable);
    else if (!strcmp(what, "texts"))
        put_array(c->o, "string", false, nullable);
    else if (!strcmp(what, "texts by name"))
        put_texts_by_name(c->o, nullable);
    else if (!strcmp(what, "object"))
        put_type(c->o, "object", nullable);
    else
        c->st = lk_fail(LK_EINTERNAL, "no schema is known for '%s'", what);
}

static void put_members(struct context *c, const struct lk_record *r, bool inherits);

/* Write an object that is a record. */
static void put_object(struct context *c, const struct lk_record *r, bool nullable, bool inherits)
{
    put_type(c->o, "object", nullable);
    put_members(c, r, inherits);
}

static void put_value(struct context *c, const struct lk_member *m)
{
    const bool optional = m->need > LK_NEED_NULLABLE;
    const bool nullable = optional || m->need == LK_NEED_NULLABLE;

    switch (m->kind) {
    case LK_KIND_INT:
    case LK_KIND_INT64:
    case LK_KIND_UINT:
        put_type(c->o, "integer", optional);
        put_range(c->o, m);
        break;
    case LK_KIND_BOOL:
    case LK_KIND_TRISTATE:
        put_type(c->o, "boolean", optional);
        break;
    case LK_KIND_NUMBER:
        put_type(c->o, "number", nullable);
        put_range(c->o, m);
        break;
    case LK_KIND_TEXT:
    case LK_KIND_CHARS:
        put_type(c->o, "string", optional);
        break;
    case LK_KIND_WORD:
        put_words(c->o, m->words, optional);
        break;
    case LK_KIND_QUANTITY:
        put_quantity(c->o, optional);
        c->quantities = true;
        break;
    case LK_KIND_OBJECT:
    case LK_KIND_GROUP:
        put_object(c, m->of, optional, c->inherits);
        break;
    case LK_KIND_LIST:
        put_type(c->o, "array", optional);
        lk_json_out_object(c->o, "items");
        put_object(c, m->of, false, false);
        lk_json_out_close(c->o);
        break;
    case LK_KIND_NUMBERS:
    case LK_KIND_PER_GPU:
        put_array(c->o, "number", m->need == LK_NEED_NULLABLE, optional);
        break;
    case LK_KIND_TEXTS:
        put_array(c->o, "string", false, optional);
        break;
    case LK_KIND_PAIRS:
        put_texts_by_name(c->o, optional);
        break;
    case LK_KIND_OWN:
        put_own(c, m->own->what, optional);
        break;
    case LK_KIND_COUNT:
        break;
    }
    if (m->need == LK_NEED_FILLED)
        lk_json_out_int(c->o, "minItems", 1);
}

/* Write the members of a record: all that there are, and those that must be there. */
static void put_members(struct context *c, const struct lk_record *r, bool inherits)
{
    if (++c->depth > DEPTH_MAX) {
        c->st = lk_fail(LK_EINTERNAL, "records within records, %d deep", DEPTH_MAX);
        return;
    }
    lk_json_out_object(c->o, "properties");
    if (r->schema) {
        lk_json_out_compact(c->o);
        lk_json_out_object(c->o, "schema");
        lk_json_out_text(c->o, "const", r->schema);
        lk_json_out_close(c->o);
        lk_json_out_compact(c->o);
        lk_json_out_object(c->o, "version");
        lk_json_out_text(c->o, "type", "integer");
        lk_json_out_int(c->o, "minimum", 1);
        lk_json_out_int(c->o, "maximum", r->version);
        lk_json_out_close(c->o);
    }
    for (const struct lk_member *m = r->rows; m->key; m++) {
        lk_json_out_object(c->o, m->key);
        lk_json_out_text(c->o, "description", m->help);
        put_value(c, m);
        lk_json_out_close(c->o);
    }
    lk_json_out_close(c->o);
    lk_json_out_compact(c->o);
    lk_json_out_array(c->o, "required");
    if (r->schema) {
        lk_json_out_text(c->o, NULL, "schema");
        lk_json_out_text(c->o, NULL, "version");
    }
    for (const struct lk_member *m = r->rows; m->key; m++)
        if (m->need <= LK_NEED_NULLABLE && !inherits)
            lk_json_out_text(c->o, NULL, m->key);
    lk_json_out_close(c->o);
    lk_json_out_bool(c->o, "additionalProperties", false);
    c->depth--;
}

/* Write what a quantity is (lk_quantity_read). */
static void put_definitions(struct lk_json_out *o)
{
    static const struct {
        const char *key, *type, *help;
    } members[] = {{"value", "number", "the estimate, in the unit"},
                   {"unit", "string", "any unit of the dimension"},
                   {"lo", "number", "its 90 % interval, from"},
                   {"hi", "number", "to"},
                   {"n", "integer", "samples behind it"},
                   {"source", "string", "where it is from"}};
    static const char *const required[] = {"value", "unit", "source"};

    lk_json_out_object(o, "$defs");
    lk_json_out_object(o, "quantity");
    lk_json_out_text(o, "type", "object");
    lk_json_out_object(o, "properties");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const bool is_text = !strcmp(members[i].type, "string");

        lk_json_out_compact(o);
        lk_json_out_object(o, members[i].key);
        put_type(o, members[i].type, !is_text && i > 0);
        if (!is_text)
            lk_json_out_int(o, "minimum", 0);
        lk_json_out_text(o, "description", members[i].help);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_compact(o);
    lk_json_out_array(o, "required");
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        lk_json_out_text(o, NULL, required[i]);
    lk_json_out_close(o);
    lk_json_out_bool(o, "additionalProperties", false);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

enum lk_status lk_schema_of_record(const struct lk_record *r, struct lk_writer *w)
{
    struct context c = {.inherits = r->find_base != NULL};
    enum lk_status st;

    LK_PASS(lk_json_out_begin(w, &c.o));
    lk_json_out_object(c.o, NULL);
    lk_json_out_text(c.o, "$schema", LK_SCHEMA_DRAFT);
    lk_json_out_text(c.o, "title", r->schema);
    put_object(&c, r, false, c.inherits);
    if (c.quantities)
        put_definitions(c.o);
    lk_json_out_close(c.o);
    st = c.st;
    LK_KEEP(lk_json_out_end(c.o));
    return st;
}
