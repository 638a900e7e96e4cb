/* Compare sequences of collectives. Divisions: items, progress, one number, groups, blame. */
#include "profiler/import/sequences.h"

#include "base/array.h"
#include "facts/coll.h"

#include <stdlib.h>
#include <string.h>

/* ---- Items ---- */

static enum lk_status intern(struct lk_sequences *s, const struct lk_events *e, uint32_t name,
                             uint32_t *out)
{
    const char *text = lk_events_text(e, name);

    return lk_events_name(&s->texts, text, strlen(text), out);
}

/* Remember the members of the groups, as the first file that knows them says. */
static enum lk_status add_members(struct lk_sequences *s, const struct lk_events *e)
{
    for (size_t i = 0; i < e->n_groups; i++) {
        const struct lk_event_group *g = &e->groups[i];
        uint32_t name;

        LK_PASS(intern(s, e, g->name, &name));
        while (s->n_members <= name) {
            LK_PASS(lk_array_grow(&s->members, &s->members_capacity, s->n_members + 1,
                                  sizeof *s->members));
            s->members[s->n_members++] = (struct lk_rank_list){0};
        }
        for (size_t k = s->members[name].n ? g->n : 0; k < g->n; k++)
            LK_PASS(lk_rank_list_add(&s->members[name], e->ranks[g->first + k]));
    }
    return LK_OK;
}

/* Fail if a rank has collectives of a group that it is no member of: its number is wrong. */
static enum lk_status check_member(const struct lk_sequences *s, uint32_t group, int rank)
{
    const struct lk_rank_list *members = group < s->n_members ? &s->members[group] : NULL;
    char list[96];

    if (!members || !members->n || lk_rank_list_has(members, rank))
        return LK_OK;
    return lk_fail(LK_EPARSE,
                   "is taken for rank %d's, but has collectives of group %s, of ranks %s: say in "
                   "its name which rank it is (PREFIX_rank%d)",
                   rank, lk_events_text(&s->texts, group),
                   lk_rank_list_text(members->at, members->n, list, sizeof list), members->at[0]);
}

static enum lk_status add_item(struct lk_sequences *s, int rank, const struct lk_events *e,
                               const struct lk_import_event *x)
{
    const struct lk_event_detail *c = &e->details[x->detail - 1];
    struct lk_sequence_item item = {.number = c->sequence,
                                    .elements = c->elements,
                                    .at_ns = x->start_ns,
                                    .rank = rank,
                                    .place = x->detail,
                                    .dtype = (uint8_t)(c->dtype_known ? c->dtype + 1 : 0),
                                    .state = c->state};

    LK_PASS(intern(s, e, c->group, &item.group));
    LK_PASS(check_member(s, item.group, rank));
    LK_PASS(intern(s, e, c->function, &item.function));
    LK_PASS(lk_array_grow(&s->items, &s->items_capacity, s->n_items + 1, sizeof item));
    s->items[s->n_items++] = item;
    return LK_OK;
}

enum lk_status lk_sequences_add(struct lk_sequences *s, int rank, const struct lk_events *e)
{
    if (!e->n_groups && !e->n_details)
        return LK_OK;
    if (!s->texts.n_slots)
        LK_PASS(lk_events_init(&s->texts, NULL));
    LK_PASS(add_members(s, e));
    for (size_t i = 0; i < e->n_events; i++) {
        const struct lk_import_event *x = &e->events[i];

        if (x->kind == LK_EVENT_ENQUEUE && x->detail && e->details[x->detail - 1].sequence)
            LK_PASS(add_item(s, rank, e, x));
    }
    LK_PASS(lk_rank_list_add(&s->ranks, rank));
    return e->source.lost ? lk_rank_list_add(&s->lossy, rank) : LK_OK;
}

void lk_sequences_fini(struct lk_sequences *s)
{
    for (size_t i = 0; i < s->n_members; i++)
        lk_rank_list_fini(&s->members[i]);
    free(s->members);
    free(s->items);
    lk_rank_list_fini(&s->ranks);
    lk_rank_list_fini(&s->lossy);
    lk_events_fini(&s->texts);
    *s = (struct lk_sequences){0};
}

static int compare(uint64_t a, uint64_t b)
{
    return LK_ORDER(a, b);
}

static int item_order(const void *a, const void *b)
{
    const struct lk_sequence_item *x = a, *y = b;
    int d = compare(x->group, y->group);

    d = d ? d : compare(x->number, y->number);
    d = d ? d : compare((uint64_t)x->rank, (uint64_t)y->rank);
    return d ? d : compare(x->place, y->place);
}

/* ---- Progress ---- */

/* How far a rank has come in a group. */
struct progress {
    int rank;
    uint64_t first, newest; /* numbers in its file; 0: none, and none was lost */
    uint64_t completed;     /* the newest that has completed */
    uint64_t open;          /* the first enqueued that has not; 0: none */
};

/* The ranks of a group whose files are here, ascending; a group's items. */
struct group {
    const struct lk_sequences *s;
    size_t begin, end;
    struct progress *at;
    size_t n, capacity;
};

static struct progress *progress_of(const struct group *g, int rank)
{
    size_t lo;

    LK_BISECT(lo, g->n, g->at[lo].rank < rank);
    return &g->at[lo];
}

/* List the ranks that have items in the group, and those of its members that have none, although
 * their files are here and lost nothing. */
static enum lk_status list_ranks(struct group *g)
{
    const struct lk_sequences *s = g->s;
    const struct lk_rank_list *members = NULL;
    struct lk_rank_list list = {0};
    enum lk_status st = LK_OK;

    if (s->items[g->begin].group < s->n_members)
        members = &s->members[s->items[g->begin].group];
    for (size_t i = 0; members && i < members->n; i++)
        if (lk_rank_list_has(&s->ranks, members->at[i]) &&
            !lk_rank_list_has(&s->lossy, members->at[i]))
            LK_TRY(lk_rank_list_add(&list, members->at[i]));
    for (size_t i = g->begin; i < g->end; i++)
        LK_TRY(lk_rank_list_add(&list, s->items[i].rank));
    g->n = 0;
    LK_TRY(lk_array_grow(&g->at, &g->capacity, list.n, sizeof *g->at));
    for (; g->n < list.n; g->n++)
        g->at[g->n] = (struct progress){.rank = list.at[g->n]};
out:
    lk_rank_list_fini(&list);
    return st;
}

/* Tell whether a rank waits in a number, whose last item on it is x. */
static bool waits(const struct group *g, const struct lk_sequence_item *x)
{
    return x->number > progress_of(g, x->rank)->completed &&
           (x->state == LK_COLLECTIVE_SCHEDULED || x->state == LK_COLLECTIVE_STARTED);
}

static enum lk_status measure(struct group *g)
{
    LK_PASS(list_ranks(g));
    for (size_t i = g->begin; i < g->end; i++) {
        const struct lk_sequence_item *x = &g->s->items[i];
        struct progress *p = progress_of(g, x->rank);

        p->first = p->first ? p->first : x->number;
        p->newest = x->number;
        if (x->state == LK_COLLECTIVE_COMPLETED)
            p->completed = x->number;
    }
    for (size_t i = g->end; i-- > g->begin;) /* backwards: the first is set last */
        if (waits(g, &g->s->items[i]))
            progress_of(g, g->s->items[i].rank)->open = g->s->items[i].number;
    return LK_OK;
}

/* ---- One number ---- */

/* A number's items. */
struct step {
    size_t begin, end;
    uint64_t number;
};

/* Return the end of the items of one rank that begin at i. */
static size_t end_of_rank(const struct lk_sequences *s, const struct step *x, size_t i)
{
    size_t end = i;

    while (end < x->end && s->items[end].rank == s->items[i].rank)
        end++;
    return end;
}

/* Return true for a function whose sizes are the same on all ranks. */
static bool is_symmetric(const char *function)
{
    enum lk_coll coll;

    return !lk_coll_find(function, strlen(function), &coll) || lk_coll_equal(coll);
}

static bool same(const struct lk_sequences *s, const struct lk_sequence_item *a,
                 const struct lk_sequence_item *b)
{
    return a->function == b->function && (a->dtype == b->dtype || !a->dtype || !b->dtype) &&
           (a->elements == b->elements || !a->elements || !b->elements ||
            !is_symmetric(lk_events_text(&s->texts, a->function)));
}

/* Return true if the items of a number may be not all of those that the rank coalesced: some may be
 * lost, or not have been enqueued yet. */
static bool may_lack(const struct group *g, const struct step *x, int rank)
{
    const struct progress *p = progress_of(g, rank);

    return p->newest == x->number ||
           (p->first == x->number && lk_rank_list_has(&g->s->lossy, rank));
}

/* Return how the items of two ranks, from a and b on, differ: the offset of the first two that do,
 * SIZE_MAX: in none. */
static size_t difference(const struct group *g, const struct step *x, size_t a, size_t b)
{
    const struct lk_sequences *s = g->s;
    size_t n_a = end_of_rank(s, x, a) - a, n_b = end_of_rank(s, x, b) - b;
    size_t n = n_a < n_b ? n_a : n_b;

    if (n_a != n_b && (may_lack(g, x, s->items[a].rank) || may_lack(g, x, s->items[b].rank)))
        return SIZE_MAX;
    for (size_t i = 0; i < n; i++)
        if (!same(s, &s->items[a + i], &s->items[b + i]))
            return i;
    return n_a == n_b ? SIZE_MAX : n - 1;
}

/* Return the first item of the rank with which most ranks agree, among the first few kinds. */
static size_t most_common(const struct group *g, const struct step *x)
{
    enum { KINDS = 8 };
    size_t kinds[KINDS], counts[KINDS], n = 0, best = 0;

    for (size_t i = x->begin; i < x->end; i = end_of_rank(g->s, x, i)) {
        size_t k = 0;

        while (k < n && difference(g, x, kinds[k], i) != SIZE_MAX)
            k++;
        if (k == KINDS)
            continue;
        if (k == n) {
            kinds[n] = i;
            counts[n++] = 0;
        }
        counts[k]++;
        best = counts[k] > counts[best] ? k : best;
    }
    return kinds[best];
}

/* Find the ranks that do not what most do. */
static enum lk_status find_differing(const struct group *g, const struct step *x,
                                     struct lk_sequence_finding *f, bool *found)
{
    const struct lk_sequences *s = g->s;
    size_t common = most_common(g, x);

    *found = false;
    for (size_t i = x->begin; i < x->end; i = end_of_rank(s, x, i)) {
        size_t at = difference(g, x, common, i);

        LK_PASS(lk_rank_list_add(at == SIZE_MAX ? &f->others : &f->ranks, s->items[i].rank));
        if (at == SIZE_MAX || *found)
            continue;
        *found = true;
        f->kind = LK_SEQUENCE_DIFFERS;
        f->item = common + at;
        f->differs = i + at;
    }
    return LK_OK;
}

/* Return true if a rank waits in a later number than this one: the group's life went on. */
static bool is_passed(const struct group *g, uint64_t number)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->at[i].completed >= number && g->at[i].open > number)
            return true;
    return false;
}

/* Find the ranks that wait in a number, and those that have not joined it or, if all have, those on
 * which it has completed. *behind: some have not joined. */
static enum lk_status find_waiting(const struct group *g, const struct step *x,
                                   struct lk_sequence_finding *f, bool *found, bool *behind)
{
    const struct lk_sequences *s = g->s;
    struct lk_rank_list done = {0}, waiting = {0}, absent = {0};
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < g->n; i++)
        if (g->at[i].newest < x->number)
            LK_TRY(lk_rank_list_add(&absent, g->at[i].rank));
    for (size_t i = x->begin, end; i < x->end; i = end) {
        end = end_of_rank(s, x, i);
        LK_TRY(lk_rank_list_add(waits(g, &s->items[end - 1]) ? &waiting : &done, s->items[i].rank));
    }
    *behind = absent.n > 0;
    *found = waiting.n > 0;
    if (!*found)
        goto out;
    f->kind = absent.n                  ? LK_SEQUENCE_NOT_JOINED
              : is_passed(g, x->number) ? LK_SEQUENCE_STUCK
                                        : LK_SEQUENCE_NOT_COMPLETED;
    f->item = x->begin;
    f->ranks = absent.n ? absent : waiting;
    f->others = absent.n ? waiting : done;
    if (absent.n)
        absent = (struct lk_rank_list){0};
    else
        done = (struct lk_rank_list){0};
    waiting = (struct lk_rank_list){0};
out:
    lk_rank_list_fini(&done);
    lk_rank_list_fini(&waiting);
    lk_rank_list_fini(&absent);
    return st;
}

static void finding_fini(struct lk_sequence_finding *f)
{
    lk_rank_list_fini(&f->ranks);
    lk_rank_list_fini(&f->others);
    lk_rank_list_fini(&f->roots);
}

/* ---- Groups ---- */

/* Find the first number of a group at which something is wrong. */
static enum lk_status find_in_group(const struct group *g, struct lk_sequence_finding *f,
                                    bool *found)
{
    const struct lk_sequence_item *items = g->s->items;
    bool behind = false;
    struct step x;

    *found = false;
    for (size_t i = g->begin; i < g->end && !*found; i = x.end) {
        x = (struct step){i, i, items[i].number};
        *f = (struct lk_sequence_finding){
            .group = items[i].group, .number = items[i].number, .at_ns = items[i].at_ns};
        for (; x.end < g->end && items[x.end].number == x.number; x.end++)
            f->at_ns = items[x.end].at_ns < f->at_ns ? items[x.end].at_ns : f->at_ns;
        LK_PASS(find_differing(g, &x, f, found));
        if (*found)
            break;
        finding_fini(f);
        /* Once a rank is behind and nobody waits for it, nothing is known of what it did later. */
        if (!behind)
            LK_PASS(find_waiting(g, &x, f, found, &behind));
    }
    return LK_OK;
}

/* ---- Blame ---- */

/* Return true if a member of the group has no file here: it may not have joined what others wait
 * in. */
static bool lacks_member(const struct lk_sequences *s, uint32_t group)
{
    const struct lk_rank_list *members = group < s->n_members ? &s->members[group] : NULL;

    for (size_t i = 0; members && i < members->n; i++)
        if (!lk_rank_list_has(&s->ranks, members->at[i]))
            return true;
    return false;
}

/* List who waits for a rank that has not joined, in any group, or may do so for one whose file is
 * missing. */
static enum lk_status list_waiting(const struct lk_sequences *s,
                                   const struct lk_sequence_findings *f, struct lk_rank_list *out)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct lk_sequence_finding *x = &f->at[i];
        const struct lk_rank_list *who =
            x->kind == LK_SEQUENCE_NOT_JOINED                                   ? &x->others
            : x->kind == LK_SEQUENCE_NOT_COMPLETED && lacks_member(s, x->group) ? &x->ranks
                                                                                : NULL;

        for (size_t k = 0; who && k < who->n; k++)
            LK_PASS(lk_rank_list_add(out, who->at[k]));
    }
    return LK_OK;
}

/* Set the roots: those that others wait for and that wait for nobody. */
static enum lk_status find_roots(const struct lk_sequences *s, struct lk_sequence_findings *f)
{
    struct lk_rank_list waiting = {0};
    enum lk_status st = LK_OK;

    LK_TRY(list_waiting(s, f, &waiting));
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->at[i].ranks.n; k++)
            if (f->at[i].kind == LK_SEQUENCE_NOT_JOINED &&
                !lk_rank_list_has(&waiting, f->at[i].ranks.at[k]))
                LK_TRY(lk_rank_list_add(&f->at[i].roots, f->at[i].ranks.at[k]));
out:
    lk_rank_list_fini(&waiting);
    return st;
}

static int finding_order(const void *a, const void *b)
{
    const struct lk_sequence_finding *x = a, *y = b;
    int d = compare(x->kind, y->kind);

    d = d ? d : compare(!x->roots.n, !y->roots.n);
    d = d ? d : LK_ORDER(x->at_ns, y->at_ns);
    return d ? d : compare(x->group, y->group);
}

enum lk_status lk_sequences_find(struct lk_sequences *s, struct lk_sequence_findings *out)
{
    struct lk_sequence_finding f = {0};
    struct group g = {.s = s};
    enum lk_status st = LK_OK;
    bool found;

    *out = (struct lk_sequence_findings){0};
    if (s->n_items)
        qsort(s->items, s->n_items, sizeof *s->items, item_order);
    while (g.end < s->n_items) {
        g.begin = g.end;
        while (g.end < s->n_items && s->items[g.end].group == s->items[g.begin].group)
            g.end++;
        LK_TRY(measure(&g));
        LK_TRY(find_in_group(&g, &f, &found));
        out->n_groups++;
        if (!found)
            continue;
        LK_TRY(lk_array_grow(&out->at, &out->capacity, out->n + 1, sizeof f));
        out->at[out->n++] = f;
        f = (struct lk_sequence_finding){0};
    }
    LK_TRY(find_roots(s, out));
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, finding_order);
out:
    finding_fini(&f);
    free(g.at);
    return st;
}

void lk_sequence_findings_fini(struct lk_sequence_findings *f)
{
    for (size_t i = 0; i < f->n; i++)
        finding_fini(&f->at[i]);
    free(f->at);
    *f = (struct lk_sequence_findings){0};
}
