/*
 * Lists of lines that people read: a growing array of texts, its length and its capacity. The
 * owner frees the texts and the array.
 */
#ifndef LK_BASE_LINES_H
#define LK_BASE_LINES_H

#include "base/status.h"

#include <stdarg.h>
#include <stddef.h>

/* As lk_printable, and replace line feeds and tabs by blanks: a name that has one adds no line to
 * an answer, and no row to a table. Return text. */
char *lk_one_line(char *text);

/* Append a formatted line; control characters in it, e.g. of a job's name, become '?', line feeds
 * blanks. */
enum lk_status lk_lines_add(char ***lines, size_t *n, size_t *capacity, const char *fmt,
                            va_list args) __attribute__((format(printf, 4, 0)));

/* Begin a text with a capital letter, as a sentence does, unless its first word is a file's name:
 * one with a dot, a slash or a low line in it. Return text. */
char *lk_lines_capital(char *text);

/* Define a function (printf style) that appends to the list `member` of a struct, whose length is
 * n_member and whose capacity member_capacity. */
#define LK_LINES_ADDER(function, type, member)                                                     \
    enum lk_status function(type *owner, const char *fmt, ...)                                     \
    {                                                                                              \
        enum lk_status st;                                                                         \
        va_list args;                                                                              \
                                                                                                   \
        va_start(args, fmt);                                                                       \
        st = lk_lines_add(&owner->member, &owner->n_##member, &owner->member##_capacity, fmt,      \
                          args);                                                                   \
        va_end(args);                                                                              \
        return st;                                                                                 \
    }

#endif
