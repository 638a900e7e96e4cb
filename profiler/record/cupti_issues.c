#include "profiler/record/cupti_issues.h"

#include "base/array.h"

#include <stdlib.h>

/* CUPTI counts calls, so the low bits of neighbours differ; blocks of threads share the high ones.
 */
static uint32_t *chain_of(const struct lk_cupti_issues *t, uint32_t correlation)
{
    const uint32_t golden = 2654435769U; /* 2^32 over the golden ratio: Knuth, TAOCP 3, 6.4 */
    enum { BITS = 18 };

    _Static_assert(LK_CUPTI_ISSUES == 1 << BITS, "a chain for each entry");
    return &t->chains[correlation * golden >> (32 - BITS)];
}

enum lk_status lk_cupti_issues_init(struct lk_cupti_issues *t)
{
    *t = (struct lk_cupti_issues){0};
    LK_PASS(lk_alloc(&t->ring, LK_CUPTI_ISSUES, sizeof *t->ring));
    return lk_alloc(&t->chains, LK_CUPTI_ISSUES, sizeof *t->chains);
}

void lk_cupti_issues_fini(struct lk_cupti_issues *t)
{
    free(t->ring);
    free(t->chains);
    *t = (struct lk_cupti_issues){0};
}

static struct lk_cupti_issue_entry *find(const struct lk_cupti_issues *t, uint32_t correlation)
{
    uint32_t at = *chain_of(t, correlation);

    while (at && t->ring[at - 1].correlation != correlation)
        at = t->ring[at - 1].next;
    return at ? &t->ring[at - 1] : NULL;
}

const struct lk_cupti_issue_entry *lk_cupti_issues_find(const struct lk_cupti_issues *t,
                                                        uint32_t correlation)
{
    return find(t, correlation);
}

static void unlink_oldest(struct lk_cupti_issues *t, uint32_t place)
{
    uint32_t *from = chain_of(t, t->ring[place].correlation);

    while (*from != place + 1)
        from = &t->ring[*from - 1].next;
    *from = t->ring[place].next;
}

/* Return the call's entry, a new one if need be. */
static struct lk_cupti_issue_entry *entry(struct lk_cupti_issues *t, uint32_t correlation)
{
    struct lk_cupti_issue_entry *e = find(t, correlation);
    uint32_t place = (uint32_t)(t->n % LK_CUPTI_ISSUES), *chain;

    if (e)
        return e;
    if (t->n >= LK_CUPTI_ISSUES)
        unlink_oldest(t, place);
    chain = chain_of(t, correlation);
    t->ring[place] = (struct lk_cupti_issue_entry){.correlation = correlation, .next = *chain};
    *chain = place + 1;
    t->n++;
    return &t->ring[place];
}

void lk_cupti_issues_put(struct lk_cupti_issues *t, uint32_t correlation, enum lk_cupti_call call,
                         uint64_t id)
{
    struct lk_cupti_issue_entry *e = entry(t, correlation);

    e->call = call;
    e->id = id;
}

void lk_cupti_issues_time(struct lk_cupti_issues *t, uint32_t correlation, uint64_t start_ns,
                          uint64_t end_ns)
{
    struct lk_cupti_issue_entry *e = entry(t, correlation);
    uint64_t took = end_ns > start_ns ? end_ns - start_ns : 0;

    if (e->called_ns && e->called_ns <= start_ns)
        return;
    e->called_ns = start_ns;
    e->call_ns = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
}
