/* Find the files that can be imported. */
#ifndef LK_PROFILER_IMPORT_IMPORT_FILES_H
#define LK_PROFILER_IMPORT_IMPORT_FILES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * List the files that a user named: each a file, or a folder whose trace files it then is. *out and
 * its strings are freed by lk_names_free. LK_EIO; LK_EPARSE names what a file is if it cannot be
 * read, and refuses a run directory of lockstep's own, whatever else is in it.
 */
enum lk_status lk_import_files(const char *const *paths, size_t n, char ***out, size_t *out_n);
/* Return true if the path holds traces of other programs: it is a file, or a folder
 * of files, of a format that is known. */
bool lk_import_is(const char *path);
/* Return true if a file is a trace that can be read. */
bool lk_import_reads(const char *path);

/* List the files of measured collectives that a user named: paths that are files as they are, of
 * folders what Inspector wrote into them. *out and its strings are freed by lk_names_free. LK_EIO;
 * LK_EPARSE: a folder has none. */
enum lk_status lk_point_files(const char *const *paths, size_t n, char ***out, size_t *out_n);

#endif
