/* Find words in what the program said, and in what a forecast says. */
#ifndef LK_TESTS_SAID_H
#define LK_TESTS_SAID_H

#include "facts/forecast.h"

/* Return where a text has these words, however it is wrapped: any white space stands for a blank.
 * NULL: nowhere. */
const char *said(const char *text, const char *words);
/* Return the answer's sentence, the warning, the assumption or the note with this text; or NULL. */
const char *forecast_says(const struct lk_forecast *f, const char *text);

#endif
