/* Labels; see the header. */
#include "base/label.h"

#include "base/array.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char key_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_";

/* Write a value with its escapes; pre: out has room for twice its bytes and a NUL. */
static void escape(const char *value, char *out)
{
    for (; *value; value++) {
        if (strchr("\\\"\n", *value))
            *out++ = '\\';
        *out++ = *value == '\n' ? 'n' : *value;
    }
    *out = '\0';
}

enum lk_status lk_label_add(char **labels, const char *key, const char *value_fmt, ...)
{
    enum lk_status st = LK_OK;
    char *value = NULL, *escaped = NULL, *name = NULL;
    va_list args;

    va_start(args, value_fmt);
    st = lk_vasprintf(&value, value_fmt, args);
    va_end(args);
    LK_TRY(st);
    LK_TRY(lk_strdup(&name, key));
    for (char *c = name; *c; c++)
        *c = (char)(isalnum((unsigned char)*c) ? tolower((unsigned char)*c) : '_');
    LK_TRY(lk_alloc(&escaped, 2 * strlen(value) + 1, 1));
    escape(value, escaped);
    LK_TRY(lk_text_add(labels, "%s%s=\"%s\"", *labels ? "," : "", name, escaped));
out:
    free(name);
    free(escaped);
    free(value);
    return st;
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* Read a value in quotes, whose first is at s, without its escapes. */
static enum lk_status read_quoted(const char *whole, const char **at, char **out)
{
    const char *s = *at + 1;
    char *to;

    LK_PASS(lk_alloc(out, strlen(s) + 1, 1));
    for (to = *out; *s && *s != '"'; s++) {
        if (*s == '\\' && s[1])
            *to++ = *++s == 'n' ? '\n' : *s;
        else
            *to++ = *s;
    }
    if (*s != '"')
        return lk_fail(LK_EUSAGE, "'%s': a quote is not closed", whole);
    *at = s + 1;
    return LK_OK;
}

/* Read a value without quotes. */
static enum lk_status read_bare(const char **at, char **out)
{
    size_t bytes = strcspn(*at, ",} \t");

    LK_PASS(lk_strndup(out, *at, bytes));
    *at += bytes;
    return LK_OK;
}

/* Read one label; *at moves behind it. */
static enum lk_status read_label(const char *whole, const char **at, struct lk_pair **labels,
                                 size_t *n)
{
    enum lk_status st = LK_OK;
    const char *s = skip_blanks(*at);
    size_t bytes = strspn(s, key_letters);
    char *key = NULL, *value = NULL;

    LK_TRY(lk_strndup(&key, s, bytes));
    s = skip_blanks(s + bytes);
    if (!*key || *s != '=')
        LK_TRY(lk_fail(LK_EUSAGE, "'%s': a label is written gpus=\"64\"", whole));
    s = skip_blanks(s + 1);
    LK_TRY(*s == '"' ? read_quoted(whole, &s, &value) : read_bare(&s, &value));
    LK_TRY(lk_pairs_add(labels, n, key, value));
    *at = skip_blanks(s);
out:
    free(key);
    free(value);
    return st;
}

enum lk_status lk_labels_read(const char *whole, const char **at, struct lk_pair **labels,
                              size_t *n)
{
    *at = skip_blanks(*at);
    while (**at && **at != '}') {
        LK_PASS(read_label(whole, at, labels, n));
        if (**at == ',')
            ++*at;
        else if (**at && **at != '}')
            return lk_fail(LK_EUSAGE, "'%s': labels are separated by commas", whole);
    }
    return LK_OK;
}

const char *lk_labels_find(const struct lk_pair *labels, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(labels[i].key, key))
            return labels[i].value;
    return NULL;
}

void lk_labels_free(struct lk_pair *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(labels[i].key);
        free(labels[i].value);
    }
    free(labels);
}
