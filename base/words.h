/*
 * Words of an enum: the names that files and the command line use for its values. A list of words
 * is one X-macro, whose entries begin with the value and its name:
 *
 *     #define LK_LINK_LIST(X) X(LK_LINK_INTRA, "intra") X(LK_LINK_INTER, "inter")
 *
 *     enum lk_link { LK_LINK_LIST(LK_WORD_VALUE) LK_LINK_COUNT };
 *
 *     const struct lk_words lk_link_words = LK_WORDS("a link", LK_LINK_LIST);
 *
 * Values begin at 0 and leave nothing out, so that names[value] is the name of a value.
 */
#ifndef LK_BASE_WORDS_H
#define LK_BASE_WORDS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_words {
    const char *what;         /* names one of them in messages: "a dtype" */
    const char *const *names; /* by value, n of them */
    size_t n;
};

/* An entry as a value of its enum, and as an item of an array of names. Both take any number of
 * further columns. */
#define LK_WORD_VALUE(...)              LK_WORD_VALUE_(__VA_ARGS__, 0)
#define LK_WORD_VALUE_(value, ...)      value,
#define LK_WORD_NAME(...)               LK_WORD_NAME_(__VA_ARGS__, 0)
#define LK_WORD_NAME_(value, name, ...) [value] = (name),
#define LK_WORDS(what_, list)                                                                      \
    {                                                                                              \
        .what = (what_), .names = (const char *const[]){list(LK_WORD_NAME)},                       \
        .n = sizeof((const char *const[]){list(LK_WORD_NAME)}) / sizeof(const char *)              \
    }

/* An entry's third column, after value and name, as an item of an array by value. */
#define LK_WORD_THIRD(...)                      LK_WORD_THIRD_(__VA_ARGS__, 0)
#define LK_WORD_THIRD_(value, name, third, ...) [value] = (third),
/* Declare PREFIX_words, which one source defines by LK_WORDS, and the function PREFIX_name, which
 * returns the name of a value. */
#define LK_WORDS_DECLARE(prefix, type)                                                             \
    extern const struct lk_words prefix##_words;                                                   \
    static inline const char *prefix##_name(type value)                                            \
    {                                                                                              \
        return prefix##_words.names[value];                                                        \
    }                                                                                              \
    struct lk_words

/*
 * Find the value that a person calls `name`: by its own name, ignoring case, or by another spelling
 * of the same type of number, such as bf16 for bfloat16. Return false if there is none.
 */
bool lk_words_match(const struct lk_words *w, const char *name, int *out);
/*
 * Set *out_enum, a variable of the enum, to the value that lk_words_match finds. LK_EPARSE lists
 * the words: "'float' is not a dtype (known: float32 float16)".
 */
enum lk_status lk_words_find(const struct lk_words *w, const char *name, void *out_enum);
/* Write " float32 float16" to buf, cut to its size, and return buf. */
const char *lk_words_list(const struct lk_words *w, char *buf, size_t size);
/* Take the next item of a list that is separated by commas, which is cut up, without the blanks
 * around it; *rest begins as the list, and NULL ends it. An empty item is "". */
char *lk_list_next(char **rest);
/* Return the nearest of n words by edit distance, for "did you mean", or NULL when none is near. */
const char *lk_words_nearest(const char *word, const char *const *words, size_t n);

#endif
