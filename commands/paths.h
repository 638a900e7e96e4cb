/* Files that a command's words name: none that is read may be written. */
#ifndef LK_COMMANDS_PATHS_H
#define LK_COMMANDS_PATHS_H

#include "base/option.h"
#include "base/status.h"

#include <stdbool.h>

/*
 * Fail with LK_EUSAGE, naming both, if a file or folder that an option writes is one that the
 * command reads, also by a link or as a preset, or is written by another option, too. The rows'
 * roles say which options read and write; operands are read. In a folder that is read, files of
 * runs and traces count as read. `options` is the struct that the rows filled.
 */
enum lk_status check_paths(const struct lk_option *rows, const void *options,
                           const char *const *operands, int n_operands);

/*
 * Make sure that a folder for results is empty, or not there: results of two runs must not mix.
 * With force, files that lockstep writes to such folders are removed, in the folder and in its runs
 * and traces; if there is any other file, nothing is. LK_EUSAGE names the folder, or that file.
 */
enum lk_status claim_folder(const char *folder, bool force);

#endif
