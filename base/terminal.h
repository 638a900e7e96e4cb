/* The terminal, as far as it is known. */
#ifndef LK_BASE_TERMINAL_H
#define LK_BASE_TERMINAL_H

#include <stddef.h>

/* Return the columns of the terminal that a descriptor is; 0: it is none, or does not say. */
size_t lk_terminal_columns(int fd);

#endif
