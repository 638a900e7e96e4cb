/*
 * Labels say what a value of a page is of: gpus="64",local_batch="4". They are written as
 * Prometheus' text format has them: in a value, a backslash stands before a backslash and a quote,
 * and \n for a line break.
 */
#ifndef LK_BASE_LABEL_H
#define LK_BASE_LABEL_H

#include "base/member.h"
#include "base/status.h"

#include <stddef.h>

/* Append a label to *labels, which is NULL or owned by the caller, and replaced. Letters of the key
 * become small, and what no key may have becomes '_'. */
enum lk_status lk_label_add(char **labels, const char *key, const char *value_fmt, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * Read labels up to the end of a text or to a closing brace, and append them to *labels; *at moves
 * there. Quotes may be left out, and blanks may stand between. LK_EUSAGE begins with the text
 * `whole`. The caller frees the labels after a failure, too.
 */
enum lk_status lk_labels_read(const char *whole, const char **at, struct lk_pair **labels,
                              size_t *n);
/* Return the value of a key, or NULL. */
const char *lk_labels_find(const struct lk_pair *labels, size_t n, const char *key);
void lk_labels_free(struct lk_pair *labels, size_t n); /* NULL is legal */

#endif
