#include "profiler/import/pickle_value.h"

#include <stdlib.h>
#include <string.h>

void lk_pickle_fini(struct lk_pickle *p)
{
    free(p->values);
    free(p->items);
    free(p->texts);
    *p = (struct lk_pickle){0};
}

const struct lk_pickle_value *lk_pickle_root(const struct lk_pickle *p)
{
    return &p->values[p->root];
}

/* Return the value at a place of the items, and count the visit. */
static const struct lk_pickle_value *visit(struct lk_pickle *p, size_t at)
{
    if (!p->visits_left)
        return NULL;
    p->visits_left--;
    return &p->values[p->items[at]];
}

const struct lk_pickle_value *lk_pickle_item(struct lk_pickle *p, const struct lk_pickle_value *v,
                                             uint32_t i)
{
    return v && v->type == LK_PICKLE_LIST && i < v->n ? visit(p, (size_t)v->first + i) : NULL;
}

const struct lk_pickle_value *lk_pickle_pair(struct lk_pickle *p, const struct lk_pickle_value *v,
                                             uint32_t i, const struct lk_pickle_value **key)
{
    if (!v || v->type != LK_PICKLE_DICT || i >= v->n)
        return NULL;
    *key = &p->values[p->items[(size_t)v->first + 2 * (size_t)i]];
    return visit(p, (size_t)v->first + 2 * (size_t)i + 1);
}

const struct lk_pickle_value *lk_pickle_member(struct lk_pickle *p, const struct lk_pickle_value *v,
                                               const char *key)
{
    const struct lk_pickle_value *found = NULL, *value, *name;
    size_t n = strlen(key);

    for (uint32_t i = 0; (value = lk_pickle_pair(p, v, i, &name)) != NULL; i++) {
        const char *text = name->n == n ? lk_pickle_text(p, name) : NULL;

        if (text && !memcmp(text, key, n))
            found = value;
    }
    return found;
}

const char *lk_pickle_text(struct lk_pickle *p, const struct lk_pickle_value *v)
{
    if (!v || v->type != LK_PICKLE_TEXT)
        return NULL;
    if (p->visits_left <= v->n) {
        p->visits_left = 0;
        return NULL;
    }
    p->visits_left -= v->n;
    return p->texts + v->first;
}
