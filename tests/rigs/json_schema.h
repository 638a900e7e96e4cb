/*
 * A validator of JSON Schema for the keywords that the program's schemas use. It does not share
 * code with what writes them, and fails the test on a keyword that it does not know.
 */
#ifndef LK_TESTS_JSON_SCHEMA_H
#define LK_TESTS_JSON_SCHEMA_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* Return true if v is as the schema says; else why has the place and the first thing wrong. `root`
 * is the whole schema, for references. */
bool json_schema_holds(struct lk_json *root, struct lk_json *schema, struct lk_json *v, char *why,
                       size_t size);

#endif
