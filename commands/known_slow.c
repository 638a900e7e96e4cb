#include "commands/known_slow.h"

#include "base/array.h"
#include "base/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum lk_status check(const struct lk_cluster *c, int at, bool link)
{
    if (link && c->nodes && at >= c->nodes)
        return lk_fail(LK_EUSAGE, "node %d: cluster %s has %d, from 0", at, c->name, c->nodes);
    for (size_t i = 0; i < c->n_slow; i++)
        if ((link ? c->slow[i].node : c->slow[i].rank) == at &&
            lk_quantity_known(link ? &c->slow[i].link : &c->slow[i].compute))
            return lk_fail(LK_EUSAGE, "%s %d is known already", link ? "node" : "rank", at);
    return LK_OK;
}

static enum lk_status add(struct lk_cluster *c, const char *word, bool link, const char *option)
{
    enum lk_status st = LK_OK;
    size_t capacity = c->n_slow;
    struct lk_cluster_slow *e;
    double factor;
    int64_t at;

    LK_TRY(lk_parse_factor_at(word, LK_RANKS_MAX - 1, &at, &factor));
    LK_TRY(check(c, (int)at, link));
    LK_TRY(lk_array_grow(&c->slow, &capacity, c->n_slow + 1, sizeof *c->slow));
    e = &c->slow[c->n_slow++];
    *e = (struct lk_cluster_slow){.rank = link ? -1 : (int)at, .node = link ? (int)at : -1};
    e->compute = e->link = lk_quantity_none();
    LK_TRY(lk_quantity_set(link ? &e->link : &e->compute, factor, NAN, NAN, 0, "--%s", option));
out:
    return st;
}

static enum lk_status add_list(struct lk_cluster *c, const char *text, bool link,
                               const char *option)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *word;

    if (!text)
        return LK_OK;
    LK_TRY(lk_strdup(&copy, text));
    for (rest = copy; (word = strsep(&rest, ","));)
        LK_TRY(add(c, word, link, option));
out:
    free(copy);
    return lk_fail_context(st, "--%s=%s", option, text);
}

enum lk_status known_slow_add(struct lk_cluster *c, const char *ranks, const char *links)
{
    enum lk_status st = LK_OK;

    LK_TRY(add_list(c, ranks, false, "slow-rank"));
    LK_TRY(add_list(c, links, true, "slow-link"));
out:
    return st;
}
