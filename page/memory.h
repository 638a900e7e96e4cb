/* Files of the page's module: texts in memory, under the names that a command's words have. */
#ifndef LK_PAGE_MEMORY_H
#define LK_PAGE_MEMORY_H

#include "base/status.h"

#include <stddef.h>

/* Put a file in place of one with its name. The text ends with a NUL behind its `size` bytes and
 * is owned by the file from now on, after a failure, too. */
enum lk_status page_file_put(const char *name, char *text, size_t size);
/* Return the text of a file, which lives until it is replaced; NULL: there is none. */
const char *page_file_text(const char *name, size_t *size);
/* Remove a file, if there is one. */
void page_file_remove(const char *name);

#endif
