/*
 * Find cluster files. A preset is a file of clusters/, which has the cluster's name; it is looked
 * for in ./clusters, beside the program's build folder, and in the installed
 * share/lockstep/clusters.
 */
#ifndef LK_FACTS_PRESET_H
#define LK_FACTS_PRESET_H

#include "base/status.h"

#include <stddef.h>

/*
 * Find the file of a cluster: a path (it has a slash or ends in .json) or a preset's name. A path
 * is relative to the folder of the file `of`, which names it, or with NULL to the current folder.
 * *out is freed by the caller. LK_EIO lists the known presets; a path's file need not exist.
 */
enum lk_status lk_preset_find(const char *of, const char *name, char **out);

/* Find a table of published figures by its file's name: in ./bench/data, beside the program's build
 * folder, or in the installed share/lockstep. *out is freed by the caller; NULL: it is nowhere. */
enum lk_status lk_preset_table_find(const char *file, char **out);

/* List the names of all presets, each once; freed by the caller with lk_names_free. */
enum lk_status lk_preset_names(char ***out, size_t *out_n);

#endif
