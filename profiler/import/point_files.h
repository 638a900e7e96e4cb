/* The files of a folder that have measured collectives: NCCL Inspector writes one a process. */
#ifndef LK_PROFILER_IMPORT_POINT_FILES_H
#define LK_PROFILER_IMPORT_POINT_FILES_H

#include "base/status.h"

#include <stddef.h>

/* List the files of a run: paths that are files as they are, of folders what Inspector wrote into
 * them. *out and its strings are freed by lk_names_free. LK_EIO; LK_EPARSE: a folder has none. */
enum lk_status lk_point_files(const char *const *paths, size_t n, char ***out, size_t *out_n);

#endif
