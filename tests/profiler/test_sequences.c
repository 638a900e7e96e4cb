/* Sequences of collectives: the first number of a group that differs, or that waits. */
#include "profiler/import/sequences.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/*
 * Rank r's collectives: "FIRST:WORDS", a word a collective with numbers from FIRST on. A letter is
 * the function (r: all_reduce of 100 floats, g: all_gather, t: all_to_all, f: all_reduce of
 * float64), a digit more of them, the sign behind it the state: nothing, completed; '~' started;
 * '?' scheduled. "+": coalesced with the one before.
 */
struct text {
    const char *of_rank[4];
    enum lk_sequence_kind kind;
    uint64_t number; /* 0: nothing is found */
    const char *ranks, *others;
};

static const struct text rows[] = {
    {{"1: r r g r", "1: r r g r", "1: r r g r", "1: r r g r"}, 0, 0, "", ""},
    /* Files that begin elsewhere, and were written at different moments. */
    {{"1: r r g r", "3: g r r", "2: r g", "4: r"}, 0, 0, "", ""},
    {{"1: r r g r?", "1: r r g", "1: r r g r?", "1: r r g r? r?"},
     LK_SEQUENCE_NOT_JOINED,
     4,
     "1",
     "0, 2-3"},
    {{"1: r r g r?", "1: r r", "1: r r g? r?", "1: r r g? r?"},
     LK_SEQUENCE_NOT_JOINED,
     3,
     "1",
     "2-3"},
    /* Those of rank 0 have completed although the file says so of a later one only. */
    {{"1: r r? g", "1: r r g", "1: r r g", "1: r r g"}, 0, 0, "", ""},
    {{"1: r r~ g?", "1: r r~ g?", "1: r r? g?", "1: r r g?"},
     LK_SEQUENCE_NOT_COMPLETED,
     2,
     "0-2",
     "3"},
    {{"1: r r", "1: r g", "1: r r", "1: r r"}, LK_SEQUENCE_DIFFERS, 2, "1", "0, 2-3"},
    {{"1: r r", "1: r f", "1: r f", "1: r f"}, LK_SEQUENCE_DIFFERS, 2, "0", "1-3"},
    {{"1: r1 r", "1: r1 r2", "1: r1 r3", "1: r1 r3"}, LK_SEQUENCE_DIFFERS, 2, "0-1", "2-3"},
    /* What differs comes before what waits for it. */
    {{"1: r g? r?", "1: r r? g?", "1: r r? r?", "1: r r?"}, LK_SEQUENCE_DIFFERS, 2, "0", "1-3"},
    /* Sizes of all_to_all may differ. */
    {{"1: r t1", "1: r t2", "1: r t3", "1: r t4"}, 0, 0, "", ""},
    /* Coalesced ones have the state of the last. */
    {{"1: g? +g2? +r r", "1: g? +g2? +r r", "1: g? +g2? +r r", "1: g? +g2? +r r"}, 0, 0, "", ""},
    {{"1: g? +g2? +r r", "1: g? +g2? +r r", "1: g? +g3? +r r", "1: g? +g2? +r r"},
     LK_SEQUENCE_DIFFERS,
     1,
     "2",
     "0-1, 3"},
    {{"1: g? +r r", "1: g? +g2? +r r", "1: g? +g2? +r r", "1: g? +g2? +r r"},
     LK_SEQUENCE_DIFFERS,
     1,
     "0",
     "1-3"},
    /* The ring has lost the first of them, or not all are enqueued yet. */
    {{"1- +r r", "1: g? +r r", "1: g? +r r", "1: g? +r r"}, 0, 0, "", ""},
    {{"1: r g?", "1: r g? +r?", "1: r g? +r?", "1: r g? +r?"},
     LK_SEQUENCE_NOT_COMPLETED,
     2,
     "0-3",
     ""},
    /* A rank without any, and one that lost them. */
    {{"1: r?", "1:", "1: r?", "1: r?"}, LK_SEQUENCE_NOT_JOINED, 1, "1", "0, 2-3"},
    {{"1: r?", "1-", "1: r?", "1: r?"}, LK_SEQUENCE_NOT_COMPLETED, 1, "0, 2-3", ""},
};

static enum lk_status name(struct lk_events *e, const char *text, uint32_t *out)
{
    return lk_events_name(e, text, strlen(text), out);
}

/* Set function, size and state of a word, and return what is behind it. */
static const char *read_word(const char *at, struct lk_events *e, struct lk_event_detail *c)
{
    static const char letters[] = "rgtf";
    static const char *const functions[] = {"all_reduce", "all_gather", "all_to_all", "all_reduce"};
    size_t i = (size_t)(strchr(letters, *at) - letters);

    *c = (struct lk_event_detail){.elements = 100,
                                  .sequence = c->sequence,
                                  .dtype = *at == 'f' ? LK_F64 : LK_F32,
                                  .dtype_known = true,
                                  .state = LK_COLLECTIVE_COMPLETED};
    must(name(e, functions[i], &c->function));
    must(name(e, "g", &c->group));
    at++;
    if (*at >= '0' && *at <= '9')
        c->elements += (uint64_t)(*at++ - '0');
    if (*at == '~' || *at == '?')
        c->state = *at++ == '~' ? LK_COLLECTIVE_STARTED : LK_COLLECTIVE_SCHEDULED;
    return at;
}

static void add_rank(struct lk_sequences *s, int rank, const char *text)
{
    static const int members[] = {0, 1, 2, 3};
    struct lk_event_detail c = {.sequence = (uint64_t)(text[0] - '1')};
    struct lk_import_event x = {.kind = LK_EVENT_ENQUEUE};
    struct lk_events e;

    must(lk_events_init(&e, NULL));
    must(name(&e, "g", &c.group));
    must(lk_events_group(&e, c.group, members, 4));
    e.source.lost = text[1] == '-';
    for (const char *at = text + 2; *at;) {
        at += *at == ' ';
        c.sequence += *at == '+' ? c.sequence == 0 : 1;
        at = read_word(at + (*at == '+'), &e, &c);
        must(lk_events_detail(&e, &c, &x.detail));
        must(lk_events_add(&e, &x));
        x.start_ns++;
    }
    must(lk_sequences_add(s, rank, &e));
    lk_events_fini(&e);
}

START_TEST(first_is_found)
{
    const struct text *row = &rows[_i];
    struct lk_sequence_findings f;
    struct lk_sequences s = {0};
    struct lk_table *t = NULL;
    char buf[64];

    for (int rank = 3; rank >= 0; rank--)
        add_rank(&s, rank, row->of_rank[rank]);
    must(lk_sequences_find(&s, &f));
    ck_assert_uint_eq(f.n_groups, 1);
    ck_assert_uint_eq(f.n, row->number > 0);
    if (f.n) {
        ck_assert_int_eq(f.at[0].kind, row->kind);
        ck_assert_uint_eq(f.at[0].number, row->number);
        ck_assert_str_eq(lk_rank_list_text(f.at[0].ranks.at, f.at[0].ranks.n, buf, sizeof buf),
                         row->ranks);
        ck_assert_str_eq(lk_rank_list_text(f.at[0].others.at, f.at[0].others.n, buf, sizeof buf),
                         row->others);
    }
    must(lk_sequences_table(&s, &t));
    ck_assert_uint_eq(t->n_rows, f.n);
    lk_table_destroy(t);
    lk_sequence_findings_fini(&f);
    lk_sequences_fini(&s);
}
END_TEST

START_TEST(missing_files_are_named)
{
    struct lk_sequences s = {0};
    struct lk_table *t = NULL;

    must(lk_sequences_table(&s, &t));
    ck_assert_ptr_null(t);
    add_rank(&s, 0, "1: r?");
    add_rank(&s, 2, "1: r?");
    must(lk_sequences_table(&s, &t));
    ck_assert_str_eq(lk_table_cell(t, 0, "found")->text, "not completed on");
    ck_assert_uint_eq(t->n_notes, 3);
    ck_assert_str_eq(t->notes[1], "no file of ranks 1, 3 is here: others may wait for them");
    lk_table_destroy(t);
    lk_sequences_fini(&s);
}
END_TEST

START_TEST(lists_of_ranks)
{
    static const char *const texts[] = {"[3, 0, 1, 2, 7, 3]", "", "x", "[5",
                                        "99999999999999999999"};
    static const char *const shown[] = {"0-3, 7", "", "", "5", ""};
    struct lk_rank_list list = {0};
    char buf[64], small[8];

    must(lk_rank_list_parse(&list, texts[_i], strlen(texts[_i])));
    ck_assert_str_eq(lk_rank_list_text(list.at, list.n, buf, sizeof buf), shown[_i]);
    ck_assert_str_eq(lk_rank_list_text(list.at, list.n, small, sizeof small),
                     _i == 0 ? "0-3..." : shown[_i]);
    lk_rank_list_fini(&list);
}
END_TEST

SUITE(sequences, t)
{
    tcase_add_loop_test(t, first_is_found, 0, LK_COUNT(rows));
    tcase_add_test(t, missing_files_are_named);
    tcase_add_loop_test(t, lists_of_ranks, 0, 5);
}
