/* Show what is wrong in the ranks' sequences of collectives. */
#include "profiler/import/sequences.h"

#include "base/array.h"

#include <stdio.h>

/* A table has the first so many groups; a list of ranks is cut to so many bytes. */
enum { ROWS_MAX = 32, LIST_MAX = 160, WHAT_MAX = 1 << 11 };

/* A finding is shown as these texts. */
struct shown {
    const char *group, *found;
    char what[WHAT_MAX], ranks[LIST_MAX], others[LIST_MAX];
};

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("group",      "group",      LK_DIM_NONE, -1, x->group)                                       \
    X("number",     "number",     LK_DIM_NONE, -1, (double)f->number)                              \
    X("collective", "collective", LK_DIM_NONE, -1, (const char *)x->what)                          \
    X("found",      "found",      LK_DIM_NONE, -1, x->found)                                       \
    X("ranks",      "ranks",      LK_DIM_NONE, -1, (const char *)x->ranks)                         \
    X("others",     "other ranks", LK_DIM_NONE, -1, (const char *)x->others)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

/* Write "25557032 float32". */
static void size_text(const struct lk_sequence_item *i, char *buf, size_t size)
{
    const char *dtype = i->dtype ? lk_dtype_name((enum lk_dtype)(i->dtype - 1)) : "elements";

    if (i->elements)
        snprintf(buf, size, "%llu %s", (unsigned long long)i->elements, dtype);
    else
        snprintf(buf, size, "unknown size");
}

static void describe(const struct lk_sequences *s, const struct lk_sequence_item *i, char *buf,
                     size_t size)
{
    char of[64];

    size_text(i, of, sizeof of);
    snprintf(buf, size, "%s of %s", lk_events_text(&s->texts, i->function), of);
}

static void show(const struct lk_sequences *s, const struct lk_sequence_finding *f,
                 struct shown *out)
{
    static const char *const found[] = {[LK_SEQUENCE_DIFFERS] = "differs on",
                                        [LK_SEQUENCE_STUCK] = "stuck on",
                                        [LK_SEQUENCE_NOT_JOINED] = "not joined by",
                                        [LK_SEQUENCE_NOT_COMPLETED] = "not completed on"};

    out->group = lk_events_text(&s->texts, f->group);
    out->found = found[f->kind];
    describe(s, &s->items[f->item], out->what, sizeof out->what);
    lk_rank_list_text(f->ranks.at, f->ranks.n, out->ranks, sizeof out->ranks);
    lk_rank_list_text(f->others.at, f->others.n, out->others, sizeof out->others);
}

static enum lk_status add_row(struct lk_table *t, const struct lk_sequences *s,
                              const struct lk_sequence_finding *f)
{
    enum lk_status st = LK_OK;
    struct shown buf, *x = &buf;

    show(s, f, x);
    LK_TRY(lk_table_row(t));
    ROWS(LK_TABLE_CELL)
out:
    return st;
}

static const char *plural(const struct lk_rank_list *ranks)
{
    return ranks->n == 1 ? "rank" : "ranks";
}

/* Say what a rank did last, which may be why it is not where others wait. */
static enum lk_status note_last(struct lk_table *t, const struct lk_sequences *s, int rank)
{
    static const char *const states[] = {[LK_COLLECTIVE_SCHEDULED] = "scheduled",
                                         [LK_COLLECTIVE_STARTED] = "started",
                                         [LK_COLLECTIVE_COMPLETED] = "completed"};
    const struct lk_sequence_item *last = NULL;

    for (size_t i = 0; i < s->n_items; i++)
        if (s->items[i].rank == rank && (!last || s->items[i].place > last->place))
            last = &s->items[i];
    if (!last || last->state == LK_COLLECTIVE_STATE_UNKNOWN)
        return LK_OK;
    return lk_table_note(t, "the last collective of rank %d is %s number %llu of group %s: %s",
                         rank, lk_events_text(&s->texts, last->function),
                         (unsigned long long)last->number, lk_events_text(&s->texts, last->group),
                         states[last->state]);
}

/* Say where a number has started that has not completed: TORCH_NCCL_ENABLE_TIMING tells it. */
static enum lk_status note_started(struct lk_table *t, const struct lk_sequences *s,
                                   const struct lk_sequence_finding *f)
{
    struct lk_rank_list started = {0};
    enum lk_status st = LK_OK;
    char text[LIST_MAX];

    for (size_t i = 0; i < s->n_items; i++)
        if (s->items[i].group == f->group && s->items[i].number == f->number &&
            s->items[i].state == LK_COLLECTIVE_STARTED)
            LK_TRY(lk_rank_list_add(&started, s->items[i].rank));
    if (started.n)
        st = lk_table_note(t, "it has started on %s %s", plural(&started),
                           lk_rank_list_text(started.at, started.n, text, sizeof text));
out:
    lk_rank_list_fini(&started);
    return st;
}

static enum lk_status note_differs(struct lk_table *t, const struct lk_sequences *s,
                                   const struct lk_sequence_finding *f, const struct shown *x)
{
    const struct lk_sequence_item *i = &s->items[f->differs];
    char other[WHAT_MAX];

    describe(s, i, other, sizeof other);
    return lk_table_note(t, "number %llu of group %s: %s %s %s %s, but rank %d has %s",
                         (unsigned long long)f->number, x->group, plural(&f->others), x->others,
                         f->others.n == 1 ? "has" : "have", x->what, i->rank, other);
}

/* Write "all_reduce number 7 of group g (100 float32)". */
static const char *number_text(const struct lk_sequences *s, const struct lk_sequence_finding *f,
                               char *buf, size_t size)
{
    const struct lk_sequence_item *i = &s->items[f->item];
    char of[64];

    size_text(i, of, sizeof of);
    snprintf(buf, size, "%s number %llu of group %s (%s)", lk_events_text(&s->texts, i->function),
             (unsigned long long)f->number, lk_events_text(&s->texts, f->group), of);
    return buf;
}

/* Say who has not joined; without a root these wait for others in their turn. */
static enum lk_status note_not_joined(struct lk_table *t, const struct lk_sequences *s,
                                      const struct lk_sequence_finding *f, const struct shown *x)
{
    const struct lk_rank_list *who = f->roots.n ? &f->roots : &f->ranks;
    char number[WHAT_MAX], ranks[LIST_MAX];

    LK_PASS(lk_table_note(t, "%s %s %s not joined %s, which %s %s %s for%s", plural(who),
                          lk_rank_list_text(who->at, who->n, ranks, sizeof ranks),
                          who->n == 1 ? "has" : "have", number_text(s, f, number, sizeof number),
                          plural(&f->others), x->others, f->others.n == 1 ? "waits" : "wait",
                          f->roots.n ? "" : "; they wait for others in other groups"));
    return note_last(t, s, who->at[0]);
}

/* Say in words what was found. */
static enum lk_status note(struct lk_table *t, const struct lk_sequences *s,
                           const struct lk_sequence_finding *f)
{
    char number[WHAT_MAX];
    struct shown x;

    show(s, f, &x);
    if (f->kind == LK_SEQUENCE_DIFFERS)
        return note_differs(t, s, f, &x);
    if (f->kind == LK_SEQUENCE_NOT_JOINED)
        return note_not_joined(t, s, f, &x);
    number_text(s, f, number, sizeof number);
    if (f->kind == LK_SEQUENCE_STUCK)
        return lk_table_note(t,
                             "%s %s %s stuck in %s: all have joined it, and on %s %s it has "
                             "completed; look at the GPU, and at the thread that watches it",
                             plural(&f->ranks), x.ranks, f->ranks.n == 1 ? "is" : "are", number,
                             plural(&f->others), x.others);
    LK_PASS(lk_table_note(t,
                          "%s: all ranks here have enqueued it, it has not completed on %s %s: "
                          "behind another group's, or a send or receive, so this names nobody",
                          number, plural(&f->ranks), x.ranks));
    return note_started(t, s, f);
}

/* Say what was found first; of ranks that have not joined, all that wait for nobody. */
static enum lk_status note_first(struct lk_table *t, const struct lk_sequences *s,
                                 const struct lk_sequence_findings *f)
{
    LK_PASS(note(t, s, &f->at[0]));
    for (size_t i = 1; i < f->n && i < ROWS_MAX && f->at[i].roots.n; i++)
        if (f->at[0].kind == LK_SEQUENCE_NOT_JOINED)
            LK_PASS(note(t, s, &f->at[i]));
    return LK_OK;
}

/* Name members of groups whose files are not here. */
static enum lk_status note_missing(struct lk_table *t, const struct lk_sequences *s)
{
    struct lk_rank_list missing = {0};
    enum lk_status st = LK_OK;
    char text[LIST_MAX];

    for (size_t i = 0; i < s->n_members; i++)
        for (size_t k = 0; k < s->members[i].n; k++)
            if (!lk_rank_list_has(&s->ranks, s->members[i].at[k]))
                LK_TRY(lk_rank_list_add(&missing, s->members[i].at[k]));
    if (missing.n)
        st = lk_table_note(t, "no file of %s %s is here: others may wait for %s", plural(&missing),
                           lk_rank_list_text(missing.at, missing.n, text, sizeof text),
                           missing.n == 1 ? "it" : "them");
out:
    lk_rank_list_fini(&missing);
    return st;
}

static enum lk_status fill(struct lk_table *t, const struct lk_sequences *s,
                           const struct lk_sequence_findings *f)
{
    for (size_t i = 0; i < f->n && i < ROWS_MAX; i++)
        LK_PASS(add_row(t, s, &f->at[i]));
    if (f->n)
        LK_PASS(note_first(t, s, f));
    LK_PASS(note_missing(t, s));
    if (f->n > ROWS_MAX)
        LK_PASS(lk_table_note(t, "the first %d of %zu groups are shown", ROWS_MAX, f->n));
    return lk_table_note(t, "compared: %zu collectives of %zu %s; groups: %zu, of which %zu agree",
                         s->n_items, s->ranks.n, plural(&s->ranks), f->n_groups,
                         f->n_groups - f->n);
}

enum lk_status lk_sequences_table(struct lk_sequences *s, struct lk_table **out)
{
    struct lk_sequence_findings f = {0};
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;

    *out = NULL;
    if (!s->n_items)
        return LK_OK;
    LK_TRY(lk_sequences_find(s, &f));
    LK_TRY(
        lk_table_create("Sequences of collectives: the first of each group that waits or differs",
                        columns, LK_COUNT(columns), &t));
    LK_TRY(fill(t, s, &f));
    LK_HAND_OVER(out, t);
out:
    lk_sequence_findings_fini(&f);
    lk_table_destroy(t);
    return st;
}
