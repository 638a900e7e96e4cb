/* JSON Schemas of what the program writes; see the header. docs/schemas/ has them as files. */
#include "commands/schema.h"

#include "base/array.h"
#include "base/member_schema.h"
#include "commands/run_grid.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "reports/page.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const struct lk_record *record; /* NULL: the page */
} schemas[] = {
    {"page", NULL},
    {"job", &lk_job_record},
    {"cluster", &lk_cluster_record},
    {"forecast", &lk_forecast_record},
    {"run", &run_index_record},
    {"result", &run_result_record},
};

/* ---- The page ---- */

static void begin(struct lk_json_out *o, const char *key, const char *type)
{
    lk_json_out_object(o, key);
    lk_json_out_text(o, "type", type);
}

/* Write a member of one type. */
static void put_member(struct lk_json_out *o, const char *key, const char *type)
{
    lk_json_out_compact(o);
    begin(o, key, type);
    lk_json_out_close(o);
}

static void put_const(struct lk_json_out *o, const char *key, const char *value)
{
    lk_json_out_compact(o);
    lk_json_out_object(o, key);
    lk_json_out_text(o, "const", value);
    lk_json_out_close(o);
}

static void put_texts(struct lk_json_out *o, const char *key)
{
    lk_json_out_compact(o);
    begin(o, key, "array");
    put_member(o, "items", "string");
    lk_json_out_close(o);
}

/* Close an object of these members, all of which must be there; a blank stands between them. */
static void end(struct lk_json_out *o, const char *const *required, size_t n)
{
    lk_json_out_close(o); /* the properties */
    lk_json_out_compact(o);
    lk_json_out_array(o, "required");
    for (size_t i = 0; i < n; i++)
        lk_json_out_text(o, NULL, required[i]);
    lk_json_out_close(o);
    lk_json_out_bool(o, "additionalProperties", false);
    lk_json_out_close(o);
}
#define END(o, ...)                                                                                \
    end((o), (const char *const[]){__VA_ARGS__}, LK_COUNT(((const char *const[]){__VA_ARGS__})))

static void put_values(struct lk_json_out *o)
{
    begin(o, "values", "array");
    begin(o, "items", "object");
    lk_json_out_object(o, "properties");
    put_member(o, "name", "string");
    begin(o, "labels", "object");
    put_member(o, "additionalProperties", "string");
    lk_json_out_close(o);
    put_member(o, "unit", "string");
    lk_json_out_compact(o);
    lk_json_out_object(o, "value"); /* null: infinite */
    lk_json_out_array(o, "type");
    lk_json_out_text(o, NULL, "number");
    lk_json_out_text(o, NULL, "null");
    lk_json_out_close(o);
    lk_json_out_close(o);
    END(o, "name", "labels", "unit", "value");
    lk_json_out_close(o);
}

static void put_columns(struct lk_json_out *o)
{
    begin(o, "columns", "array");
    begin(o, "items", "object");
    lk_json_out_object(o, "properties");
    put_member(o, "name", "string");
    put_member(o, "unit", "string");
    END(o, "name", "unit");
    lk_json_out_close(o);
}

/* Write the rows: objects of the columns' names. */
static void put_rows(struct lk_json_out *o)
{
    begin(o, "rows", "array");
    begin(o, "items", "object");
    lk_json_out_compact(o);
    lk_json_out_object(o, "additionalProperties");
    lk_json_out_array(o, "type");
    lk_json_out_text(o, NULL, "number");
    lk_json_out_text(o, NULL, "string");
    lk_json_out_text(o, NULL, "null");
    lk_json_out_close(o);
    lk_json_out_close(o);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

static void put_tables(struct lk_json_out *o)
{
    begin(o, "tables", "array");
    begin(o, "items", "object");
    lk_json_out_object(o, "properties");
    put_member(o, "name", "string");
    put_member(o, "title", "string");
    put_columns(o);
    put_rows(o);
    put_texts(o, "notes");
    END(o, "name", "title", "columns", "rows", "notes");
    lk_json_out_close(o);
}

/* Write that pages of a command have these tables alone. */
static void put_command(struct lk_json_out *o, const struct lk_command *c)
{
    lk_json_out_object(o, NULL);
    lk_json_out_compact(o);
    lk_json_out_object(o, "if");
    lk_json_out_object(o, "properties");
    put_const(o, "command", c->name);
    lk_json_out_close(o);
    lk_json_out_close(o);
    lk_json_out_compact(o);
    lk_json_out_object(o, "then");
    lk_json_out_object(o, "properties");
    lk_json_out_object(o, "tables");
    lk_json_out_object(o, "items");
    lk_json_out_object(o, "properties");
    lk_json_out_object(o, "name");
    lk_json_out_array(o, "enum");
    for (size_t i = 0; c->tables[i]; i++)
        lk_json_out_text(o, NULL, c->tables[i]);
    lk_json_out_close(o);
    for (int depth = 0; depth < 7; depth++) /* name, properties, items, tables, properties, then */
        lk_json_out_close(o);
}

static enum lk_status put_page(const struct lk_command *const *all, struct lk_writer *w)
{
    struct lk_json_out *o;

    LK_PASS(lk_json_out_begin(w, &o));
    lk_schema_begin(o, LK_PAGE_SCHEMA);
    lk_json_out_text(o, "type", "object");
    lk_json_out_array(o, "allOf");
    for (size_t i = 0; all[i]; i++)
        if (all[i]->tables)
            put_command(o, all[i]);
    lk_json_out_close(o);
    lk_json_out_object(o, "properties");
    put_const(o, "schema", LK_PAGE_SCHEMA);
    lk_json_out_compact(o);
    lk_json_out_object(o, "version");
    lk_json_out_int(o, "const", LK_PAGE_VERSION);
    lk_json_out_close(o);
    put_member(o, "command", "string");
    put_member(o, "command_line", "string");
    put_member(o, "lockstep", "string");
    put_texts(o, "answer");
    put_texts(o, "contradictions");
    put_texts(o, "notes");
    put_values(o);
    put_tables(o);
    END(o, "schema", "version", "command", "command_line", "lockstep", "answer", "contradictions",
        "notes", "values", "tables");
    return lk_json_out_end(o);
}

/* ---- All ---- */

enum lk_status lk_schema_run(const struct lk_command *const *all, int n, const char *const *words)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    size_t i = 0;

    while (n == 1 && i < LK_COUNT(schemas) && strcmp(schemas[i].name, words[0]) != 0)
        i++;
    if (n != 1 || i == LK_COUNT(schemas))
        LK_TRY(lk_fail(LK_EUSAGE, "usage: lockstep help --schema page|job|cluster|forecast|run|"
                                  "result"));
    LK_TRY(lk_writer_open("-", false, &w));
    LK_TRY(schemas[i].record ? lk_schema_of_record(schemas[i].record, w) : put_page(all, w));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}
