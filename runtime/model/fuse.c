/* What a step fuses: its words; see the header. */
#include "runtime/model/fuse.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

const struct lk_words lk_fusion_words = LK_WORDS("a fusion", LK_FUSE_LIST);

#define AUTO          "auto"
#define NONE          "none"
#define NAME(f, name) name,
static const char *const words[] = {AUTO, NONE, LK_FUSE_LIST(NAME)};
#undef NAME
const struct lk_words lk_fuse_words = {"a fusion, auto or none", words, LK_COUNT(words)};

enum lk_status lk_fuse_parse(const char *text, struct lk_fuse *out)
{
    struct lk_fuse f = {0};
    char *copy = NULL, *rest, *word;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < LK_FUSE_COUNT && !strcmp(text, AUTO); i++)
        f.wish[i] = LK_FUSE_AUTO;
    LK_TRY(lk_strdup(&copy, text));
    rest = strcmp(text, AUTO) != 0 && strcmp(text, NONE) != 0 ? copy : NULL;
    while ((word = lk_list_next(&rest))) {
        enum lk_fusion which;

        if (lk_words_find(&lk_fusion_words, word, &which) != LK_OK)
            LK_TRY(lk_fail(LK_EUSAGE, "%s, or '" AUTO "' or '" NONE "' alone", lk_error_text()));
        f.wish[which] = LK_FUSE_YES;
    }
    *out = f;
out:
    free(copy);
    return st;
}
