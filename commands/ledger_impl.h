/* commands/ledger.c and commands/ledger_score.c share these functions. */
#ifndef LK_COMMANDS_LEDGER_IMPL_H
#define LK_COMMANDS_LEDGER_IMPL_H

#include "base/status.h"

#include <stdint.h>

#define LEDGER_ENV  "LOCKSTEP_LEDGER"
#define LEDGER_NONE "none"

enum { LEDGER_DATE_BYTES = 24 };

/* Write a time as lines have it, "2026-11-28T08:40:00Z", which sorts as times do. */
void ledger_date(uint64_t epoch_ns, char out[LEDGER_DATE_BYTES]);
/* Return the version and the commit of this program; static storage. */
const char *ledger_program(void);
/* Set the folder that a file or folder lies in, or is; the caller frees it. */
enum lk_status ledger_folder(const char *path, char **out);
/* Return the last part of a path; it points into the path. */
const char *ledger_base(const char *path);

#endif
