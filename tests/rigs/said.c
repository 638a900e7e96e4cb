/* Words in outputs; see the header. */
#include "tests/rigs/said.h"

#include "base/array.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool begins(const char *text, const char *words)
{
    for (; *words; text++, words++) {
        bool blank = isspace((unsigned char)*words);

        if (blank ? !isspace((unsigned char)*text) : *text != *words)
            return false;
        while (blank && isspace((unsigned char)text[1]))
            text++;
        while (blank && isspace((unsigned char)words[1]))
            words++;
    }
    return true;
}

const char *said(const char *text, const char *words)
{
    for (; *text; text++)
        if (begins(text, words))
            return text;
    return NULL;
}

const char *forecast_says(const struct lk_forecast *f, const char *text)
{
    const struct {
        char *const *lines;
        size_t n;
    } lists[] = {{f->answer, f->n_answer},
                 {f->warnings, f->n_warnings},
                 {f->assumed, f->n_assumed},
                 {f->notes, f->n_notes}};

    for (size_t k = 0; k < LK_COUNT(lists); k++)
        for (size_t i = 0; i < lists[k].n; i++)
            if (strstr(lists[k].lines[i], text))
                return lists[k].lines[i];
    return NULL;
}
