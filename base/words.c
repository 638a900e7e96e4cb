/* Words of an enum, and the known word nearest to an unknown one. */
#include "base/words.h"

#include "base/array.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *lk_words_list(const struct lk_words *w, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < w->n && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, " %s", w->names[i]);
    return buf;
}

/* The spellings of each type of number that frameworks and papers use; NULL ends a row. */
static const char *const same[][6] = {
    {"float32", "fp32", "f32", "float", "torch.float32"},
    {"float16", "fp16", "f16", "half", "torch.float16"},
    {"bfloat16", "bf16", "torch.bfloat16"},
    {"float64", "fp64", "f64", "double", "torch.float64"},
    {"float8", "fp8"},
    {"int32", "i32", "torch.int32"},
    {"int64", "i64", "torch.int64"},
    {"uint8", "u8", "torch.uint8"},
};

/* Return the row of `same` that has the word, or NULL. */
static const char *const *spellings_of(const char *word)
{
    for (size_t i = 0; i < LK_COUNT(same); i++)
        for (size_t k = 0; k < LK_COUNT(same[i]) && same[i][k]; k++)
            if (!strcasecmp(same[i][k], word))
                return same[i];
    return NULL;
}

bool lk_words_match(const struct lk_words *w, const char *name, int *out)
{
    const char *const *spellings = spellings_of(name);
    size_t i = 0;

    while (i < w->n && strcmp(w->names[i], name) != 0)
        i++;
    for (size_t k = 0; i == w->n && k < w->n; k++)
        if (!strcasecmp(w->names[k], name))
            i = k;
    for (size_t k = 0; i == w->n && spellings && k < w->n; k++)
        if (spellings_of(w->names[k]) == spellings)
            i = k;
    if (i == w->n)
        return false;
    *out = (int)i; /* as large as an enum */
    return true;
}

enum lk_status lk_words_find(const struct lk_words *w, const char *name, void *out_enum)
{
    char known[256];
    int value;

    if (lk_words_match(w, name, &value)) {
        memcpy(out_enum, &value, sizeof value);
        return LK_OK;
    }
    return lk_fail(LK_EPARSE, "'%.60s' is not %s (known:%s)", name, w->what,
                   lk_words_list(w, known, sizeof known));
}

char *lk_list_next(char **rest)
{
    char *item = strsep(rest, ","), *end;

    if (!item)
        return NULL;
    item += strspn(item, " \t");
    for (end = item + strlen(item); end > item && (end[-1] == ' ' || end[-1] == '\t'); end--)
        end[-1] = '\0';
    return item;
}

/* ---- "Did you mean" ---- */

/* Longer words are not compared: the table of distances is on the stack. */
enum { WORD_MAX = 48 };

/* Return the edit distance by optimal string alignment: insertions, deletions, replacements and
 * swaps of neighbours. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t d[WORD_MAX + 1][WORD_MAX + 1];
    size_t n = strlen(a);
    size_t m = strlen(b);

    if (n > WORD_MAX || m > WORD_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

/*
 * Return the distance from `word` to `candidate`, or SIZE_MAX if it is too large. A prefix of at
 * least three letters is always near, and nearest to the shortest candidate.
 */
static size_t nearness(const char *word, const char *candidate)
{
    size_t n = strlen(word);
    size_t distance = edit_distance(word, candidate);

    if (distance <= 1 + n / 4 && distance < n)
        return distance;
    return n >= 3 && !strncmp(word, candidate, n) ? distance : SIZE_MAX;
}

const char *lk_words_nearest(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;

    for (size_t i = 0; i < n; i++) {
        size_t distance = nearness(word, words[i]);

        if (distance < best_distance) {
            best = words[i];
            best_distance = distance;
        }
    }
    return best;
}
