/* Lists of lines; see the header. */
#include "base/lines.h"

#include "base/array.h"

#include <ctype.h>
#include <stdbool.h>

char *lk_one_line(char *text)
{
    for (char *p = lk_printable(text); *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    return text;
}

enum lk_status lk_lines_add(char ***lines, size_t *n, size_t *capacity, const char *fmt,
                            va_list args)
{
    LK_PASS(lk_array_grow(lines, capacity, *n + 1, sizeof **lines));
    LK_PASS(lk_vasprintf(&(*lines)[*n], fmt, args));
    lk_one_line((*lines)[(*n)++]);
    return LK_OK;
}

static bool is_file_name(const char *word)
{
    for (; *word && !isspace((unsigned char)*word); word++)
        if (*word == '/' || *word == '_' || (*word == '.' && isalnum((unsigned char)word[1])))
            return true;
    return false;
}

char *lk_lines_capital(char *text)
{
    if (*text >= 'a' && *text <= 'z' && !is_file_name(text))
        *text = (char)(*text - 'a' + 'A');
    return text;
}
