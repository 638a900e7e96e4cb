/* Check that markup is well-formed, as an XML parser would: SVG, and pages that are written so. */
#ifndef LK_TESTS_RIGS_MARKUP_H
#define LK_TESTS_RIGS_MARKUP_H

#include <stddef.h>

/*
 * Fail the test unless each element ends where it has to, attributes are quoted, `&` begins one of
 * the five entities or a number, and the text is UTF-8 without control characters or characters
 * that turn its direction. What is in <script> and <style> is not looked at.
 */
void markup_check(const char *text);
/* Return how many elements of a name there are. */
size_t markup_count(const char *text, const char *name);

#endif
