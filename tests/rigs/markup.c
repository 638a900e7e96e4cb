/* A small checker of markup; see the header. */
#include "tests/rigs/markup.h"

#include "base/utf8.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, NAME_MAX_ = 24 };

struct open {
    char names[DEPTH_MAX][NAME_MAX_];
    size_t n;
};

static void check_bytes(const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = lk_utf8_bytes(p);

        ck_assert_msg(n, "no UTF-8 at byte %zu", (size_t)(p - text));
        ck_assert_msg((unsigned char)*p >= 0x20 || *p == '\n', "a control character at: %.40s", p);
        ck_assert_msg(strncmp(p, "\xe2\x80\xae", 3) != 0, "U+202E at: %.40s", p);
        p += n;
    }
}

static void check_entity(const char *p)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(p, known[i], strlen(known[i])))
            return;
    ck_abort_msg("no entity: %.40s", p);
}

/* Check attributes; return the '>' or "/>" of the tag. */
static const char *check_attributes(const char *p)
{
    for (;;) {
        size_t n;

        p += strspn(p, " \n");
        if (*p == '>' || (*p == '/' && p[1] == '>'))
            return p;
        n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-:");
        ck_assert_msg(n, "no attribute: %.60s", p);
        p += n;
        if (*p != '=') /* HTML has some without a value */
            continue;
        ck_assert_msg(p[1] == '"', "a value without quotes: %.60s", p);
        for (p += 2; *p != '"'; p++) {
            ck_assert_msg(*p && *p != '<', "'<' within a value: %.60s", p);
            if (*p == '&')
                check_entity(p);
        }
        p++;
        ck_assert_msg(*p == ' ' || *p == '\n' || *p == '>' || *p == '/', "two attributes: %.60s",
                      p);
    }
}

/* Read a tag; return where it ends. */
static const char *check_tag(const char *p, struct open *o)
{
    const bool closes = p[1] == '/';
    const char *name = p + 1 + closes;
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");

    ck_assert_msg(n && n < NAME_MAX_, "no element: %.60s", p);
    if (closes) {
        ck_assert_msg(o->n && !strncmp(o->names[o->n - 1], name, n) && !o->names[o->n - 1][n],
                      "<%s> is open at: %.60s", o->n ? o->names[o->n - 1] : "", p);
        ck_assert_int_eq(name[n], '>');
        o->n--;
        return name + n + 1;
    }
    p = check_attributes(name + n);
    if (*p == '/')
        return p + 2;
    if ((n == 6 && !strncmp(name, "script", n)) || (n == 5 && !strncmp(name, "style", n))) {
        p = strstr(p, *name == 's' && n == 6 ? "</script>" : "</style>");
        ck_assert_ptr_nonnull(p);
        return strchr(p, '>') + 1;
    }
    ck_assert_uint_lt(o->n, DEPTH_MAX);
    memcpy(o->names[o->n], name, n);
    o->names[o->n++][n] = '\0';
    return p + 1;
}

void markup_check(const char *text)
{
    struct open *o = calloc(1, sizeof *o);
    const char *p = text;

    ck_assert_ptr_nonnull(o);
    check_bytes(text);
    if (!strncmp(p, "<!doctype html>", 15))
        p += 15;
    while (*p) {
        if (*p == '<') {
            p = check_tag(p, o);
            continue;
        }
        if (*p == '&')
            check_entity(p);
        ck_assert_msg(*p != '>', "a '>' in text: %.60s", p);
        p++;
    }
    ck_assert_msg(!o->n, "<%s> does not end", o->n ? o->names[o->n - 1] : "");
    free(o);
}

size_t markup_count(const char *text, const char *name)
{
    char tag[NAME_MAX_ + 2];
    size_t n = 0, length;

    snprintf(tag, sizeof tag, "<%s", name);
    length = strlen(tag);
    for (const char *p = text; (p = strstr(p, tag)); p += length)
        n += p[length] == ' ' || p[length] == '>' || p[length] == '/' || p[length] == '\n';
    return n;
}
