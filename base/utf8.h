/* Read UTF-8 that may hold other bytes, and part it into lines. */
#ifndef LK_BASE_UTF8_H
#define LK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return the bytes of the valid UTF-8 sequence at s (Unicode table 3-7); 0 when there is none. A
 * NUL is a sequence of one byte. pre: s is NUL-terminated. */
size_t lk_utf8_bytes(const char *s);
/* Return the bytes of the character at s and set *c to it; of what is no UTF-8 one byte, as U+FFFD.
 * pre: s is NUL-terminated. */
size_t lk_utf8_next(const char *s, uint32_t *c);
/* Return whether a character can be shown: it is no control character, no noncharacter, and turns
 * neither lines nor the direction of the text around it (U+202E). */
bool lk_utf8_is_shown(uint32_t c);
/*
 * Return how many bytes of a text are its first line, of which `fit` bytes have room, and set *skip
 * to where the next line starts. A line ends at a line break or a blank, or within a word that is
 * longer. pre: `fit` bytes are whole characters.
 */
size_t lk_utf8_line(const char *text, size_t fit, size_t *skip);

#endif
