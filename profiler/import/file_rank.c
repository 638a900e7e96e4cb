#include "profiler/import/file_rank.h"

#include "base/array.h"
#include "facts/bounds.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *lk_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Return the number that begins at a text, or -1. */
static int number_at(const char *text)
{
    long v;

    if (*text < '0' || *text > '9')
        return -1;
    v = strtol(text, NULL, 10);
    return v < LK_RANKS_MAX ? (int)v : -1;
}

int lk_file_number(const char *path)
{
    static const char *const endings[] = {".gz", ".et", ".json"};
    const char *name = lk_file_name(path);
    size_t n = strlen(name), digits = 0;

    for (size_t i = 0; i < LK_COUNT(endings); i++) {
        size_t m = strlen(endings[i]);

        if (n > m && !memcmp(name + n - m, endings[i], m))
            n -= m;
    }
    while (digits < n && name[n - digits - 1] >= '0' && name[n - digits - 1] <= '9')
        digits++;
    return digits < n && name[n - digits - 1] == '.' ? number_at(name + n - digits) : -1;
}

int lk_file_rank(const char *path)
{
    const char *name = lk_file_name(path), *found = NULL;

    for (const char *p = name; (p = strstr(p, "rank")) != NULL; p++)
        found = p;
    return found ? number_at(found + 4 + strspn(found + 4, "_-.")) : -1;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Return the number in which a name differs from another one, or -1: they differ otherwise, or not.
 * *at: which number of the name it is, from 0. */
static int differing_number(const char *name, const char *other, int *at)
{
    int found = -1, i = 0;

    while (*name || *other) {
        size_t n, m;

        if (!is_digit(*name) || !is_digit(*other)) {
            if (*name++ != *other++)
                return -1;
            continue;
        }
        n = strspn(name, "0123456789");
        m = strspn(other, "0123456789");
        if (n != m || memcmp(name, other, n)) {
            if (found >= 0)
                return -1;
            found = number_at(name);
            *at = i;
        }
        name += n;
        other += m;
        i++;
    }
    return found;
}

/* Set the numbers in which each name differs from the first, if it is the same one in all. */
static bool set_differing(const char *const *paths, size_t n, int *out)
{
    const char *first = lk_file_name(paths[0]);
    int at = -1;

    for (size_t i = 1; i < n; i++) {
        int here = -1;

        out[i] = differing_number(lk_file_name(paths[i]), first, &here);
        if (out[i] < 0 || (i > 1 && here != at))
            return false;
        at = here;
    }
    if (n > 1)
        out[0] = differing_number(first, lk_file_name(paths[1]), &at);
    return n > 1 && out[0] >= 0;
}

void lk_file_ranks(const char *const *paths, size_t n, int *out)
{
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        out[i] = lk_file_rank(paths[i]);
        all = all && out[i] >= 0;
    }
    if (all || !n || set_differing(paths, n, out))
        return;
    for (size_t i = 0; i < n; i++)
        out[i] = lk_file_rank(paths[i]);
}
