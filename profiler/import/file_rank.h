/* Names of files, which may say of which rank they are. */
#ifndef LK_PROFILER_IMPORT_FILE_RANK_H
#define LK_PROFILER_IMPORT_FILE_RANK_H

#include <stddef.h>

/* Return the last part of a path, in it. */
const char *lk_file_name(const char *path);
/* Return the number behind the last "rank" of a file's name, or -1. */
int lk_file_rank(const char *path);
/* Set the rank that each of n files' names tells: the number behind "rank", where all have one,
 * else the one number in which names that are alike but for it differ; else -1. */
void lk_file_ranks(const char *const *paths, size_t n, int *out);
/* Return the rank in PREFIX.RANK.et, as Chakra's files are called, or -1. JSON and gzip may follow.
 */
int lk_file_number(const char *path);

#endif
