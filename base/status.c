/* Status codes and the per-thread error text. */
#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The only mutable global of this file: each thread has its own last failure. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
static _Thread_local struct lk_saved_error_ last_error;

static const struct {
    const char *text;
    int exit_code;
} status_rows[] = {
#define LK_STATUS_ROW_(name, text, code) [name] = {text, code},
    LK_STATUS_LIST(LK_STATUS_ROW_)
#undef LK_STATUS_ROW_
};

/* Return true at a character that changes the direction in which text is shown: U+200E, U+200F,
 * U+202A to U+202E, U+2066 to U+2069. */
static bool turns(const unsigned char *p)
{
    if (p[0] != 0xE2 || (p[1] != 0x80 && p[1] != 0x81))
        return false;
    if (p[1] == 0x81)
        return p[2] >= 0xA6 && p[2] <= 0xA9;
    return p[2] == 0x8E || p[2] == 0x8F || (p[2] >= 0xAA && p[2] <= 0xAE);
}

char *lk_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if ((*p < ' ' && *p != '\n' && *p != '\t') || *p == 0x7F)
            *p = '?';
        else if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0) /* U+0080 to U+009F */
            p[0] = p[1] = '?';
        else if (turns(p))
            p[0] = p[1] = p[2] = '?';
    return text;
}

enum lk_status lk_fail_(enum lk_status code, const char *fmt, ...)
{
    char text[sizeof last_error.text]; /* the arguments may point into last_error.text */
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    lk_printable(text);
    memcpy(last_error.text, text, sizeof text);
    last_error.exit_code = 0;
    return code;
}

enum lk_status lk_fail_context(enum lk_status st, const char *fmt, ...)
{
    char text[sizeof last_error.text];
    va_list ap;
    int n;

    if (st == LK_OK)
        return st;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text)
        return st;
    if (snprintf(text + n, sizeof text - (size_t)n, ": %s", last_error.text) < 0)
        return st;
    lk_printable(text);
    memcpy(last_error.text, text, sizeof text);
    return st;
}

const char *lk_error_text(void)
{
    return last_error.text;
}

const char *lk_status_text(enum lk_status st)
{
    return status_rows[st].text;
}

int lk_status_exit_code(enum lk_status st)
{
    return st == LK_EREPORTED && last_error.exit_code ? last_error.exit_code
                                                      : status_rows[st].exit_code;
}

enum lk_status lk_fail_exit(int code)
{
    last_error.exit_code = code;
    return code ? LK_EREPORTED : LK_OK;
}

void lk_error_save_(struct lk_saved_error_ *out)
{
    *out = last_error;
}

void lk_error_restore_(const struct lk_saved_error_ *in)
{
    last_error = *in;
}
