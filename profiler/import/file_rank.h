/* Names of files, which may say of which rank they are. */
#ifndef LK_PROFILER_IMPORT_FILE_RANK_H
#define LK_PROFILER_IMPORT_FILE_RANK_H

/* Return the last part of a path, in it. */
const char *lk_file_name(const char *path);
/* Return the number behind the last "rank" of a file's name, or -1. */
int lk_file_rank(const char *path);
/* Return the rank in PREFIX.RANK.et, as Chakra's files are called, or -1. JSON and gzip may follow.
 */
int lk_file_number(const char *path);

#endif
