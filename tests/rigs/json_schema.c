/* A validator of JSON Schema; see the header. */
#include "tests/rigs/json_schema.h"

#include "base/array.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One check of a value by a keyword of a schema. */
struct check {
    struct lk_json *root, *schema, *keyword, *v;
    char *why;
    size_t size;
};

static const char *text_of(struct lk_json *v)
{
    const char *text = NULL;

    ck_assert_int_eq(lk_json_as_text(v, &text), LK_OK);
    return text;
}

static double number_of(struct lk_json *v)
{
    double x = 0;

    ck_assert_int_eq(lk_json_as_number(v, &x), LK_OK);
    return x;
}

static bool bool_of(struct lk_json *v)
{
    bool b = false;

    ck_assert_int_eq(lk_json_as_bool(v, &b), LK_OK);
    return b;
}

static bool wrong(const struct check *c, const char *what)
{
    snprintf(c->why, c->size, "line %zu: %s", lk_json_line(c->v), what);
    return false;
}

/* Return a member without the reader's wish for it, or NULL. */
static struct lk_json *member_of(struct lk_json *obj, const char *key)
{
    const char *name;
    struct lk_json *v;

    for (size_t i = 0; (v = lk_json_member(obj, i, &name)); i++)
        if (!strcmp(name, key))
            return v;
    return NULL;
}

static bool equal(struct lk_json *a, struct lk_json *b)
{
    if (lk_json_type(a) != lk_json_type(b))
        return false;
    if (lk_json_type(a) == LK_JSON_STRING)
        return !strcmp(text_of(a), text_of(b));
    if (lk_json_type(a) == LK_JSON_NUMBER)
        return number_of(a) == number_of(b);
    return lk_json_type(a) == LK_JSON_NULL;
}

static bool has_type(struct lk_json *v, const char *type)
{
    static const struct {
        const char *name;
        enum lk_json_type type;
    } types[] = {{"null", LK_JSON_NULL},     {"boolean", LK_JSON_BOOL}, {"number", LK_JSON_NUMBER},
                 {"string", LK_JSON_STRING}, {"array", LK_JSON_ARRAY},  {"object", LK_JSON_OBJECT}};

    if (!strcmp(type, "integer"))
        return lk_json_type(v) == LK_JSON_NUMBER && number_of(v) == floor(number_of(v));
    for (size_t i = 0; i < LK_COUNT(types); i++)
        if (!strcmp(type, types[i].name))
            return lk_json_type(v) == types[i].type;
    ck_abort_msg("no type of JSON is called %s", type);
}

static bool check_type(const struct check *c)
{
    if (lk_json_type(c->keyword) == LK_JSON_STRING)
        return has_type(c->v, text_of(c->keyword)) || wrong(c, text_of(c->keyword));
    for (size_t i = 0; i < lk_json_count(c->keyword); i++)
        if (has_type(c->v, text_of(lk_json_item(c->keyword, i))))
            return true;
    return wrong(c, "none of the types");
}

static bool check_const(const struct check *c)
{
    return equal(c->keyword, c->v) || wrong(c, "not the constant");
}

static bool check_enum(const struct check *c)
{
    for (size_t i = 0; i < lk_json_count(c->keyword); i++)
        if (equal(lk_json_item(c->keyword, i), c->v))
            return true;
    return wrong(c, lk_json_type(c->v) == LK_JSON_STRING ? text_of(c->v) : "not of the enum");
}

static bool check_properties(const struct check *c)
{
    const char *key;
    struct lk_json *schema, *v;

    if (lk_json_type(c->v) != LK_JSON_OBJECT)
        return true;
    for (size_t i = 0; (schema = lk_json_member(c->keyword, i, &key)); i++)
        if ((v = member_of(c->v, key)) && !json_schema_holds(c->root, schema, v, c->why, c->size))
            return false;
    return true;
}

static bool check_required(const struct check *c)
{
    for (size_t i = 0; lk_json_type(c->v) == LK_JSON_OBJECT && i < lk_json_count(c->keyword); i++)
        if (!member_of(c->v, text_of(lk_json_item(c->keyword, i))))
            return wrong(c, text_of(lk_json_item(c->keyword, i)));
    return true;
}

static bool check_additional(const struct check *c)
{
    struct lk_json *known = member_of(c->schema, "properties"), *v;
    const char *key;

    if (lk_json_type(c->v) != LK_JSON_OBJECT)
        return true;
    for (size_t i = 0; (v = lk_json_member(c->v, i, &key)); i++) {
        if (known && member_of(known, key))
            continue;
        if (lk_json_type(c->keyword) == LK_JSON_BOOL) {
            if (!bool_of(c->keyword))
                return wrong(c, key);
        } else if (!json_schema_holds(c->root, c->keyword, v, c->why, c->size)) {
            return false;
        }
    }
    return true;
}

static bool check_items(const struct check *c)
{
    for (size_t i = 0; lk_json_type(c->v) == LK_JSON_ARRAY && i < lk_json_count(c->v); i++)
        if (!json_schema_holds(c->root, c->keyword, lk_json_item(c->v, i), c->why, c->size))
            return false;
    return true;
}

static bool check_min_items(const struct check *c)
{
    return lk_json_type(c->v) != LK_JSON_ARRAY ||
           (double)lk_json_count(c->v) >= number_of(c->keyword) || wrong(c, "too few items");
}

static bool check_minimum(const struct check *c)
{
    return lk_json_type(c->v) != LK_JSON_NUMBER || number_of(c->v) >= number_of(c->keyword) ||
           wrong(c, "below the minimum");
}

static bool check_above(const struct check *c)
{
    return lk_json_type(c->v) != LK_JSON_NUMBER || number_of(c->v) > number_of(c->keyword) ||
           wrong(c, "not above the bound");
}

static bool check_maximum(const struct check *c)
{
    return lk_json_type(c->v) != LK_JSON_NUMBER || number_of(c->v) <= number_of(c->keyword) ||
           wrong(c, "above the maximum");
}

static bool check_any(const struct check *c)
{
    for (size_t i = 0; i < lk_json_count(c->keyword); i++)
        if (json_schema_holds(c->root, lk_json_item(c->keyword, i), c->v, c->why, c->size))
            return true;
    return false;
}

static bool check_all(const struct check *c)
{
    for (size_t i = 0; i < lk_json_count(c->keyword); i++)
        if (!json_schema_holds(c->root, lk_json_item(c->keyword, i), c->v, c->why, c->size))
            return false;
    return true;
}

static bool check_if(const struct check *c)
{
    return !json_schema_holds(c->root, c->keyword, c->v, c->why, c->size) ||
           json_schema_holds(c->root, member_of(c->schema, "then"), c->v, c->why, c->size);
}

static bool check_reference(const struct check *c)
{
    static const char prefix[] = "#/$defs/";
    const char *to = text_of(c->keyword);
    struct lk_json *defs = member_of(c->root, "$defs"), *schema;

    ck_assert_msg(!strncmp(to, prefix, strlen(prefix)) && defs, "no reference: %s", to);
    schema = member_of(defs, to + strlen(prefix));
    ck_assert_msg(schema != NULL, "%s is not there", to);
    return json_schema_holds(c->root, schema, c->v, c->why, c->size);
}

bool json_schema_holds(struct lk_json *root, struct lk_json *schema, struct lk_json *v, char *why,
                       size_t size)
{
    static const struct {
        const char *keyword;
        bool (*check)(const struct check *c); /* NULL: it says nothing about a value */
    } keywords[] = {{"$schema", NULL},
                    {"title", NULL},
                    {"description", NULL},
                    {"$defs", NULL},
                    {"then", NULL},
                    {"type", check_type},
                    {"const", check_const},
                    {"enum", check_enum},
                    {"properties", check_properties},
                    {"required", check_required},
                    {"additionalProperties", check_additional},
                    {"items", check_items},
                    {"minItems", check_min_items},
                    {"minimum", check_minimum},
                    {"exclusiveMinimum", check_above},
                    {"maximum", check_maximum},
                    {"anyOf", check_any},
                    {"allOf", check_all},
                    {"if", check_if},
                    {"$ref", check_reference}};
    struct check c = {root, schema, NULL, v, why, size};
    const char *key;

    for (size_t i = 0; (c.keyword = lk_json_member(schema, i, &key)); i++) {
        size_t k = 0;

        while (k < LK_COUNT(keywords) && strcmp(keywords[k].keyword, key) != 0)
            k++;
        ck_assert_msg(k < LK_COUNT(keywords), "the validator has no keyword '%s'", key);
        if (keywords[k].check && !keywords[k].check(&c))
            return false;
    }
    return true;
}
