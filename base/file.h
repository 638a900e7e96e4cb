/*
 * Files: whole reads, and atomic writes that leave either the old file or the new one, never half.
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
 * point (disk full included) removes the temporary file and keeps the old one. A symbolic link
 * stays one, and its target is replaced. A device or a pipe, e.g. /dev/null, is written in place.
 */
#ifndef LK_BASE_FILE_H
#define LK_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The most bytes that lk_file_read takes, unpacked: an endless input must not fill the memory. */
#define LK_FILE_MAX ((size_t)1 << 30)
/*
 * Read a whole file, gzip or plain, into a NUL-terminated buffer that the caller frees. LK_EPARSE
 * for more than LK_FILE_MAX bytes, LK_EIO for gzip data that end too early or whose checksum is
 * wrong.
 */
enum lk_status lk_file_read(const char *path, char **out_text, size_t *out_size);
/* Read a whole file as lk_file_read does, but fail with LK_EPARSE for more than max bytes
 * (unpacked): for files from untrusted sources. */
enum lk_status lk_file_read_max(const char *path, size_t max, char **out_text, size_t *out_size);

struct lk_writer;
/* Start a file; gzip when gz. "-" writes to stdout. */
enum lk_status lk_writer_open(const char *path, bool gz, struct lk_writer **out);
/*
 * Start a writer into memory: commit sets *out_text (NUL-terminated, freed by the caller) and
 * *out_size; abandon leaves them alone. Both outlive the writer.
 */
enum lk_status lk_writer_open_memory(char **out_text, size_t *out_size, struct lk_writer **out);
/* Write bytes or printf text. A failed write is remembered: commit then fails too, even if this
 * result was ignored. */
enum lk_status lk_writer_put(struct lk_writer *w, const void *data, size_t size);
enum lk_status lk_writer_printf(struct lk_writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Flush, check and rename into place; frees w in any case. NULL is legal. */
enum lk_status lk_writer_commit(struct lk_writer *w);
/*
 * Remove the temporary file and free w. NULL is legal: call it in `out:`, with w set to NULL after
 * commit.
 */
void lk_writer_abandon(struct lk_writer *w);

/* Set the lines to append to a file that has these bytes; NULL: none. lk_file_extend frees them. */
typedef enum lk_status lk_file_lines(void *user, const char *text, size_t size, char **lines);
/*
 * Append whole lines, which `make` sets by what is there, to a file, which is made if it is not
 * there: all of them, or none after a failure. Processes that append at once wait for each other,
 * so that the lines of one stay together, and nothing is appended while `make` runs. A last line
 * without its end, of a writer that was killed, is ended first. LK_EIO, or what `make` returns.
 */
enum lk_status lk_file_extend(const char *path, lk_file_lines *make, void *user);

/* Make a directory and its parents; an existing directory is fine. */
enum lk_status lk_mkdirs(const char *path);
bool lk_file_exists(const char *path);
/* Return true for a regular file, or a folder; a link counts as its target. */
bool lk_is_file(const char *path);
bool lk_is_folder(const char *path);
/* Fail with LK_EIO for a path that is there, but neither file nor folder: a pipe, a device. Input
 * that is read twice, first to tell what it is, cannot come of one. */
enum lk_status lk_file_check(const char *path);
/*
 * List the names in a directory that end with `suffix`, sorted; *out and its strings are freed by
 * lk_names_free. LK_EIO for a missing directory.
 */
enum lk_status lk_dir_list(const char *dir, const char *suffix, char ***out, size_t *out_n);

/* ---- Names alone; no file is touched (base/path.c) ---- */

/* Join "a" and "b" to "a/b"; the caller frees it. */
enum lk_status lk_path_join(char **out, const char *dir, const char *name);
bool lk_ends_with(const char *text, const char *suffix);
/* Append a copy of a name to a growing list. On failure the list is as it was. */
enum lk_status lk_names_add(char ***names, size_t *n, size_t *capacity, const char *name);
void lk_names_free(char **names, size_t n);

#endif
