/* Tell valid UTF-8 from other bytes. */
#ifndef LK_BASE_UTF8_H
#define LK_BASE_UTF8_H

#include <stddef.h>

/* Return the bytes of the valid UTF-8 sequence at s (Unicode table 3-7); 0 when there is none. A
 * NUL is a sequence of one byte. pre: s is NUL-terminated. */
size_t lk_utf8_bytes(const char *s);

#endif
