/* JSON Schemas of what the program writes; see the header. docs/schemas/ has them as files. */
#include "commands/schema.h"

#include "base/array.h"
#include "base/member_schema.h"
#include "commands/run_grid.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "facts/ledger.h"
#include "reports/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const struct lk_record *record; /* NULL: the page */
} schemas[] = {
    {"page", NULL},
    {"job", &lk_job_record},
    {"cluster", &lk_cluster_record},
    {"forecast", &lk_forecast_record},
    {"ledger", &lk_ledger_record},
    {"run", &run_index_record},
    {"result", &run_result_record},
};

/* ---- The page ---- */

#define TEXT  "{'type': 'string'}"
#define TEXTS "{'type': 'array', 'items': " TEXT "}"

/* The schema's text, with ' for ": before what it says of commands, of one, and behind. */
static const char head[] = "{\n"
                           "  '$schema': '" LK_SCHEMA_DRAFT "',\n"
                           "  'title': '" LK_PAGE_SCHEMA "',\n"
                           "  'type': 'object',\n"
                           "  'allOf': [";
static const char command_head[] =
    "%s\n"
    "    {\n"
    "      'if': {'properties': {'command': {'const': '%s'}}},\n"
    "      'then': {'properties': {'tables': {'items': {'properties': {'name': {'enum': [";
static const char command_tail[] = "]}}}}}}\n"
                                   "    }";
static const char tail[] =
    "\n"
    "  ],\n"
    "  'properties': {\n"
    "    'schema': {'const': '" LK_PAGE_SCHEMA "'},\n"
    "    'version': {'const': %d},\n"
    "    'command': " TEXT ",\n"
    "    'command_line': " TEXT ",\n"
    "    'lockstep': " TEXT ",\n"
    "    'answer': " TEXTS ",\n"
    "    'contradictions': " TEXTS ",\n"
    "    'notes': " TEXTS ",\n"
    "    'values': {'type': 'array', 'items': {\n"
    "      'type': 'object',\n"
    "      'properties': {\n"
    "        'name': " TEXT ",\n"
    "        'labels': {'type': 'object', 'additionalProperties': " TEXT "},\n"
    "        'unit': " TEXT ",\n"
    "        'value': {'type': ['number', 'null']}\n" /* null: infinite */
    "      },\n"
    "      'required': ['name', 'labels', 'unit', 'value'],\n"
    "      'additionalProperties': false\n"
    "    }},\n"
    "    'tables': {'type': 'array', 'items': {\n"
    "      'type': 'object',\n"
    "      'properties': {\n"
    "        'name': " TEXT ",\n"
    "        'title': " TEXT ",\n"
    "        'columns': {'type': 'array', 'items': {\n"
    "          'type': 'object',\n"
    "          'properties': {'name': " TEXT ", 'unit': " TEXT "},\n"
    "          'required': ['name', 'unit'],\n"
    "          'additionalProperties': false\n"
    "        }},\n"
    "        'rows': {'type': 'array', 'items': {\n"
    "          'type': 'object',\n"
    "          'additionalProperties': {'type': ['number', 'string', 'null']}\n"
    "        }},\n"
    "        'notes': " TEXTS "\n"
    "      },\n"
    "      'required': ['name', 'title', 'columns', 'rows', 'notes'],\n"
    "      'additionalProperties': false\n"
    "    }}\n"
    "  },\n"
    "  'required': ['schema', 'version', 'command', 'command_line', 'lockstep', 'answer', "
    "'contradictions', 'notes', 'values', 'tables'],\n"
    "  'additionalProperties': false\n"
    "}\n";

/* Write printf text, with " for '. */
__attribute__((format(printf, 2, 3))) static enum lk_status put(struct lk_writer *w,
                                                                const char *format, ...)
{
    char text[4096];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return n < (int)sizeof text ? lk_writer_put(w, text, (size_t)n)
                                : lk_fail(LK_EINTERNAL, "a part of the schema is too long");
}

/* Write the schema of pages: those of a command have its tables alone. */
static enum lk_status put_page(const struct lk_command *const *all, struct lk_writer *w)
{
    const char *comma = "";

    LK_PASS(put(w, "%s", head));
    for (size_t i = 0; all[i]; i++) {
        if (!all[i]->tables)
            continue;
        LK_PASS(put(w, command_head, comma, all[i]->name));
        for (size_t k = 0; all[i]->tables[k]; k++)
            LK_PASS(put(w, "%s'%s'", k ? ", " : "", all[i]->tables[k]));
        LK_PASS(put(w, "%s", command_tail));
        comma = ",";
    }
    return put(w, tail, LK_PAGE_VERSION);
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
        LK_TRY(lk_fail(LK_EUSAGE, "usage: lockstep help --schema page|job|cluster|forecast|ledger|"
                                  "run|result"));
    LK_TRY(lk_writer_open("-", false, &w));
    LK_TRY(schemas[i].record ? lk_schema_of_record(schemas[i].record, w) : put_page(all, w));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}
