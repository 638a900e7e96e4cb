/* Names of files, and lists of them, for base/file.h. */
#include "base/array.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum lk_status lk_path_join(char **out, const char *dir, const char *name)
{
    size_t n = strlen(dir);

    return lk_asprintf(out, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name);
}

bool lk_ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text);
    size_t m = strlen(suffix);

    return n >= m && !strcmp(text + n - m, suffix);
}

enum lk_status lk_names_add(char ***names, size_t *n, size_t *capacity, const char *name)
{
    LK_PASS(lk_array_grow(names, capacity, *n + 1, sizeof **names));
    LK_PASS(lk_strdup(&(*names)[*n], name));
    ++*n;
    return LK_OK;
}

void lk_names_free(char **names, size_t n)
{
    if (!names)
        return;
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}
