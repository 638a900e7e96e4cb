/*
 * Files: whole reads, and writes that leave either the old file or the new one, never half.
 *
 *     struct lk_writer *w = NULL;
 *     LK_TRY(lk_writer_open(path, false, &w));
 *     LK_TRY(lk_writer_printf(w, "%d\n", n));
 *     st = lk_writer_commit(w);
 *     w = NULL;
 * out:
 *     lk_writer_abandon(w);
 *
 * A writer writes to "PATH.tmp.PID", then flushes, checks, closes and renames. A failure at any
 * point (disk full included) removes the temporary file and leaves what was there. A symbolic link
 * stays one, and its target is replaced. A device or a pipe, /dev/null say, is written in place.
 */
#ifndef LK_BASE_FILE_H
#define LK_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * Reads a whole file, gzip or plain, into a NUL-terminated buffer that the caller frees. gzip data
 * that end too early or whose checksum is wrong are LK_EIO.
 */
enum lk_status lk_file_read(const char *path, char **out_text, size_t *out_size);
/* The same, but LK_EPARSE for more than max bytes (unpacked): for readers of what strangers wrote.
 */
enum lk_status lk_file_read_max(const char *path, size_t max, char **out_text, size_t *out_size);

struct lk_writer;
/* Starts a file; gzip when gz. "-" writes to stdout. */
enum lk_status lk_writer_open(const char *path, bool gz, struct lk_writer **out);
/*
 * Starts a writer into memory: commit sets *out_text (NUL-terminated, freed by the caller) and
 * *out_size; abandon leaves them alone. Both outlive the writer.
 */
enum lk_status lk_writer_open_memory(char **out_text, size_t *out_size, struct lk_writer **out);
/* A failed write stays with the writer: commit fails too, whether this result was looked at or not.
 */
enum lk_status lk_writer_put(struct lk_writer *w, const void *data, size_t size);
enum lk_status lk_writer_printf(struct lk_writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Flushes, checks and renames into place; frees w in any case. NULL is legal. */
enum lk_status lk_writer_commit(struct lk_writer *w);
/*
 * Throws the temporary file away and frees w. NULL is legal: call it in `out:`, with w set to NULL
 * after commit.
 */
void lk_writer_abandon(struct lk_writer *w);

/* Makes a directory and its parents; an existing directory is fine. */
enum lk_status lk_mkdirs(const char *path);
/* "a/b" from "a" and "b"; the caller frees it. */
enum lk_status lk_path_join(char **out, const char *dir, const char *name);
bool lk_file_exists(const char *path);
/*
 * Names in a directory that end with `suffix`, sorted; *out and its strings are freed by
 * lk_names_free. A missing directory is LK_EIO.
 */
enum lk_status lk_dir_list(const char *dir, const char *suffix, char ***out, size_t *out_n);
void lk_names_free(char **names, size_t n);

#endif
