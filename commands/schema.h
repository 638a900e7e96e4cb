/* JSON Schemas of what the program writes: artefacts, and pages in JSON. */
#ifndef LK_COMMANDS_SCHEMA_H
#define LK_COMMANDS_SCHEMA_H

#include "base/status.h"
#include "commands/command.h"

/*
 * Run `lockstep help --schema NAME`: print the schema of NAME to standard output. words are those
 * behind --schema; all is the list of commands. LK_EUSAGE lists the names there are.
 */
enum lk_status lk_schema_run(const struct lk_command *const *all, int n, const char *const *words);

#endif
