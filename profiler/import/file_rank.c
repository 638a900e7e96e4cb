#include "profiler/import/file_rank.h"

#include "base/array.h"
#include "facts/bounds.h"

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
