/* Words of an enum; see the header. */
#include "base/words.h"

#include <stdio.h>
#include <string.h>

const char *lk_words_list(const struct lk_words *w, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < w->n && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, " %s", w->names[i]);
    return buf;
}

enum lk_status lk_words_find(const struct lk_words *w, const char *name, void *out_enum)
{
    char known[256];

    for (size_t i = 0; i < w->n; i++)
        if (!strcmp(w->names[i], name)) {
            const int value = (int)i; /* as large as an enum */

            memcpy(out_enum, &value, sizeof value);
            return LK_OK;
        }
    return lk_fail(LK_EPARSE, "'%.60s' is not %s (known:%s)", name, w->what,
                   lk_words_list(w, known, sizeof known));
}
