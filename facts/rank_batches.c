/* Local batches of ranks that differ; see the header. */
#include "facts/rank_batches.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Add a group, or more ranks to the last one. */
static enum lk_status add(struct lk_rank_batches *b, int64_t ranks, int64_t batch)
{
    bool same = b->n && b->of[b->n - 1].batch == batch;

    if (ranks < 1 || ranks > INT_MAX - b->ranks || batch < 1 || batch > INT_MAX / 2)
        return lk_fail(LK_EUSAGE, "%lld ranks with a local batch of %lld", (long long)ranks,
                       (long long)batch);
    if (!same && b->n == LK_RANK_BATCHES_MAX)
        return lk_fail(LK_EUSAGE, "more than %d local batches in a row that differ",
                       LK_RANK_BATCHES_MAX);
    b->n += !same;
    b->of[b->n - 1].batch = (int)batch;
    b->of[b->n - 1].ranks += (int)ranks;
    b->ranks += (int)ranks;
    b->most = (int)batch > b->most ? (int)batch : b->most;
    b->sum += ranks * batch;
    return LK_OK;
}

/* Read a number, and move *at behind it. */
static bool number(const char **at, int64_t *out)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0;
}

enum lk_status lk_rank_batches_parse(const char *text, struct lk_rank_batches *out)
{
    struct lk_rank_batches b = {0};
    const char *at = text;
    bool more = true;

    while (more) {
        int64_t ranks = 1, batch = 0;
        bool good = number(&at, &batch);

        if (good && *at == 'x') {
            at++;
            ranks = batch;
            good = number(&at, &batch);
        }
        if (!good || (*at && *at != '+'))
            return lk_fail(LK_EUSAGE,
                           "'%s' is no list of local batches such as 2x8+4, which is 8, 8 and 4",
                           text);
        LK_PASS(add(&b, ranks, batch));
        more = *at == '+';
        at += more;
    }
    *out = b;
    return LK_OK;
}

enum lk_status lk_rank_batches_text(const struct lk_rank_batches *b,
                                    char text[LK_RANK_BATCHES_TEXT])
{
    char out[LK_RANK_BATCHES_TEXT] = "";
    size_t used = 0;

    for (int i = 0; i < b->n; i++) {
        char count[16] = "";
        int n;

        if (b->of[i].ranks > 1)
            snprintf(count, sizeof count, "%dx", b->of[i].ranks);
        n = snprintf(out + used, sizeof out - used, "%s%s%d", i ? "+" : "", count, b->of[i].batch);
        used += (size_t)n;
        if (used >= sizeof out)
            return lk_fail(LK_EUSAGE, "the text of %d groups of local batches is too long", b->n);
    }
    memcpy(text, out, sizeof out);
    return LK_OK;
}

enum lk_status lk_rank_batches_write(const int64_t *v, int n, char text[LK_RANK_BATCHES_TEXT])
{
    struct lk_rank_batches b = {0};

    for (int i = 0; i < n; i++)
        LK_PASS(add(&b, 1, v[i]));
    if (b.n > 1)
        return lk_rank_batches_text(&b, text);
    memset(text, 0, LK_RANK_BATCHES_TEXT);
    return LK_OK;
}

enum lk_status lk_rank_batches_check(const char *text, int ranks, int most)
{
    char canonical[LK_RANK_BATCHES_TEXT];
    struct lk_rank_batches b;

    if (!*text)
        return LK_OK;
    LK_PASS(lk_rank_batches_parse(text, &b));
    LK_PASS(lk_rank_batches_text(&b, canonical));
    if (b.n < 2 || strcmp(text, canonical) != 0)
        return lk_fail(LK_EUSAGE, "'%s': batches of neighbours that are alike are one group", text);
    if (b.ranks != ranks || b.most != most)
        return lk_fail(LK_EUSAGE, "'%s' is of %d GPUs with at most %d samples, not of %d with %d",
                       text, b.ranks, b.most, ranks, most);
    return LK_OK;
}

void lk_rank_batches_list(const char *text, char *out, size_t size)
{
    struct lk_rank_batches b;
    size_t used = 0;

    *out = '\0';
    if (!*text || lk_rank_batches_parse(text, &b) != LK_OK || b.ranks > LK_RANK_BATCHES_MAX)
        return;
    for (int r = 0; r < b.ranks && used < size; r++)
        used += (size_t)snprintf(out + used, size - used, "%s%d", r ? "," : "",
                                 lk_rank_batches_at(&b, r));
    if (used >= size)
        *out = '\0';
}

int lk_rank_batches_at(const struct lk_rank_batches *b, int rank)
{
    int i = 0;

    while (i + 1 < b->n && rank >= b->of[i].ranks)
        rank -= b->of[i++].ranks;
    return b->of[i].batch;
}
