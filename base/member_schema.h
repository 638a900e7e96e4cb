/* Write the JSON Schema (draft 2020-12) of an artefact from its rows (base/member.h). */
#ifndef LK_BASE_MEMBER_SCHEMA_H
#define LK_BASE_MEMBER_SCHEMA_H

#include "base/file.h"
#include "base/member.h"
#include "base/status.h"

#define LK_SCHEMA_DRAFT "https://json-schema.org/draft/2020-12/schema"

/*
 * Write the schema of a whole file. It allows what the reader does, but for what records check by
 * functions, comments, and members that a file inherits from its "base": those are not required.
 */
enum lk_status lk_schema_of_record(const struct lk_record *r, struct lk_writer *w);

#endif
