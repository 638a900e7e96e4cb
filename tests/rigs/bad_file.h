/* Make bad files from a good one, to test every reader of an artefact. */
#ifndef LK_TESTS_BAD_FILE_H
#define LK_TESTS_BAD_FILE_H

#include "base/status.h"

#include <stddef.h>

/* One change to a good text, and the expected error beside the file's name. */
struct bad_file {
    const char *from, *to;
    const char *expect;
};

/* Read a file and discard the result. */
typedef enum lk_status (*bad_file_reader)(const char *path);

/* Write text to a new file in /tmp; path has room for 64 bytes. The caller unlinks it. */
void bad_file_write(const char *text, size_t size, char path[64]);

/* Make the change, read, and check the error: LK_EPARSE, the file's name, ":LINE:", expect. */
void bad_file_check(const char *good, const struct bad_file *bad, bad_file_reader read);

/*
 * Read every truncation of the text (but those that only lack white space) and `mutations` copies
 * with one byte changed. Truncations must be refused; nothing may crash, hang or leak.
 */
void bad_file_torture(const char *good, int mutations, bad_file_reader read);

#endif
