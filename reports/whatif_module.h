/*
 * The forecast as a module of WebAssembly, and the script that runs it, for pages in which a reader
 * changes settings (page/). They lie in the program where it was built with them.
 */
#ifndef LK_REPORTS_WHATIF_MODULE_H
#define LK_REPORTS_WHATIF_MODULE_H

#include <stddef.h>

struct lk_whatif_module {
    const unsigned char *gz; /* the module, gzipped; NULL: there is none */
    size_t gz_size;
    const char *model, *script; /* JavaScript: that runs the module, and the page's panel */
    const char *style;          /* CSS, of the panel */
    const char *missing;        /* why there is none, a sentence; NULL: there is one */
};

/* Return what the program has. */
struct lk_whatif_module lk_whatif_module(void);

#endif
