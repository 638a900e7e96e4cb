/* Write fields of CSV; see base/csv.h. */
#include "base/csv.h"

#include "base/file.h"
#include "base/units.h"

#include <string.h>

bool lk_csv_is_formula(const char *text)
{
    double v;

    return *text && strchr("=+-@", *text) && text[1] &&
           lk_parse_double(text + (*text == '+'), &v) != LK_OK;
}

enum lk_status lk_csv_put_quoted(struct lk_writer *w, const char *text)
{
    LK_PASS(lk_writer_printf(w, "\"%s", lk_csv_is_formula(text) ? "'" : ""));
    for (; *text; text++) {
        if (*text == '"')
            LK_PASS(lk_writer_put(w, "\"\"", 2));
        else
            LK_PASS(lk_writer_put(w, *text == '\n' || *text == '\r' ? " " : text, 1));
    }
    return lk_writer_put(w, "\"", 1);
}

enum lk_status lk_csv_put(struct lk_writer *w, const char *text)
{
    if (strpbrk(text, ",\"\r\n"))
        return lk_csv_put_quoted(w, text);
    return lk_writer_printf(w, "%s%s", lk_csv_is_formula(text) ? "'" : "", text);
}
