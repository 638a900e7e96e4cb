/* Files of weights that runs exported: floats behind a line of text. A failure ends the test. */
#ifndef LK_TESTS_WEIGHTS_H
#define LK_TESTS_WEIGHTS_H

#include <stddef.h>

/* Read the floats; the caller frees them. */
float *weights_read(const char *path, size_t *n);
/* Return by how much two files with as many floats differ at most. */
double weights_apart(const char *a, const char *b);
/* The same of two files in scratch_dir. */
double weights_apart_in_scratch(const char *a, const char *b);

#endif
