/* Sequences of collectives: the first number of a group that differs, or that waits. */
#include "profiler/import/sequences.h"

#include "base/array.h"
#include "base/rng.h"
#include "profiler/import/file_rank.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
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
     LK_SEQUENCE_STUCK, /* rank 3 is past it, so all have joined */
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

/*
 * A made hang: 12 ranks in groups of 4 neighbours and in groups of 3 that are 4 apart, each with
 * collectives of both in turn. A rank's GPU runs them in order, its host is at most `ahead` in
 * front of it: 1 where it waits for each. A culprit's host stops at a random place, or its GPU does
 * not end a collective that the others do.
 */
enum { RANKS = 12, ROUNDS = 40, HANGS = 400 };

struct hang {
    bool stuck;
    int ahead;
    int culprits[2], n_culprits;
    int stop[RANKS]; /* how many collectives the host enqueues, or the GPU ends, at most */
    int enqueued[RANKS], ended[RANKS];
    int lost[RANKS]; /* the oldest ones, which the ring has overwritten */
};

static int group_of(int rank, int k)
{
    return k % 2 ? 3 + rank % 4 : rank / 4;
}

/* Return true if all members of the group have reached its collective k. */
static bool all_started(const struct hang *h, int group, int k)
{
    for (int r = 0; r < RANKS; r++)
        if (group_of(r, k) == group && (h->enqueued[r] <= k || h->ended[r] < k))
            return false;
    return true;
}

static bool advance(struct hang *h, int r)
{
    int host = h->stuck ? ROUNDS : h->stop[r], gpu = h->stuck ? h->stop[r] : ROUNDS;
    int k = h->ended[r], most = k + h->ahead < host ? k + h->ahead : host;
    bool moved = h->enqueued[r] < most;

    h->enqueued[r] = moved ? most : h->enqueued[r];
    if (k < h->enqueued[r] && k < gpu && all_started(h, group_of(r, k), k)) {
        h->ended[r]++;
        moved = true;
    }
    return moved;
}

static void make_hang(struct hang *h, struct lk_rng *g)
{
    bool moved = true;

    *h = (struct hang){.stuck = lk_rng_below(g, 2), .n_culprits = 1};
    h->ahead = 1 + (int)lk_rng_below(g, 6);
    h->n_culprits += !h->stuck && lk_rng_below(g, 2);
    for (int r = 0; r < RANKS; r++) {
        h->stop[r] = ROUNDS;
        h->lost[r] = lk_rng_below(g, 2) ? (int)lk_rng_below(g, 4) : 0;
    }
    for (int i = 0; i < h->n_culprits; i++) {
        h->culprits[i] = (int)lk_rng_below(g, RANKS);
        h->stop[h->culprits[i]] = 8 + (int)lk_rng_below(g, ROUNDS - 16);
    }
    while (moved) {
        moved = false;
        for (int r = 0; r < RANKS; r++)
            moved = advance(h, r) || moved;
    }
}

/* Write what the rank's recorder has of the hang. */
static void record(const struct hang *h, int rank, struct lk_sequences *s)
{
    struct lk_event_detail c = {.elements = 100, .dtype = LK_F32, .dtype_known = true};
    struct lk_import_event x = {.kind = LK_EVENT_ENQUEUE};
    struct lk_events e;
    char label[16];
    int members[RANKS], n;

    must(lk_events_init(&e, NULL));
    must(name(&e, "all_reduce", &c.function));
    for (int k = 0; k < 2; k++) {
        n = 0;
        for (int r = 0; r < RANKS; r++)
            if (group_of(r, k) == group_of(rank, k))
                members[n++] = r;
        snprintf(label, sizeof label, "g%d", group_of(rank, k));
        must(name(&e, label, &c.group));
        must(lk_events_group(&e, c.group, members, (size_t)n));
    }
    e.source.lost = h->lost[rank] > 0;
    for (int k = h->lost[rank]; k < h->enqueued[rank]; k++) {
        snprintf(label, sizeof label, "g%d", group_of(rank, k));
        must(name(&e, label, &c.group));
        c.sequence = (uint64_t)(k / 2 + 1);
        c.state = k < h->ended[rank] ? LK_COLLECTIVE_COMPLETED : LK_COLLECTIVE_SCHEDULED;
        must(lk_events_detail(&e, &c, &x.detail));
        x.start_ns = k * 100 + rank;
        must(lk_events_add(&e, &x));
    }
    must(lk_sequences_add(s, rank, &e));
    lk_events_fini(&e);
}

static bool is_culprit(const struct hang *h, int rank)
{
    return rank == h->culprits[0] || (h->n_culprits > 1 && rank == h->culprits[1]);
}

START_TEST(culprits_of_hangs_are_named_and_nobody_else)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("hangs", 0));

    for (int i = 0; i < (int)cases_or(HANGS); i++) {
        struct lk_sequence_findings f;
        struct lk_sequences s = {0};
        size_t named = 0;
        struct hang h;

        make_hang(&h, &g);
        for (int r = RANKS - 1; r >= 0; r--)
            record(&h, (r + i) % RANKS, &s);
        must(lk_sequences_find(&s, &f));
        ck_assert_uint_gt(f.n, 0);
        ck_assert_int_eq(f.at[0].kind, h.stuck ? LK_SEQUENCE_STUCK : LK_SEQUENCE_NOT_JOINED);
        for (size_t k = 0; k < f.n; k++) {
            const struct lk_rank_list *who = h.stuck ? &f.at[k].ranks : &f.at[k].roots;

            if (f.at[k].kind != f.at[0].kind)
                continue;
            named += who->n;
            for (size_t m = 0; m < who->n; m++)
                ck_assert_msg(is_culprit(&h, who->at[m]), "hang %d: rank %d is named, not %d", i,
                              who->at[m], h.culprits[0]);
        }
        ck_assert_uint_gt(named, 0);
        lk_sequence_findings_fini(&f);
        lk_sequences_fini(&s);
    }
}
END_TEST

/* The same hangs, of which the file of one rank is missing, a culprit's or another's: nobody but a
 * culprit is named; where the culprits' files are here, and the missing rank waited like all
 * others, mostly somebody is. */
START_TEST(nobody_is_named_for_a_missing_rank)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("missing", 0));
    size_t named = 0, cases = 0;

    for (size_t i = 0; i < cases_or(HANGS); i++) {
        struct lk_sequence_findings f;
        struct lk_sequences s = {0};
        struct hang h;
        int missing = (int)lk_rng_below(&g, RANKS);
        bool one = false;

        make_hang(&h, &g);
        missing = i % 4 ? missing : h.culprits[0];
        for (int r = 0; r < RANKS; r++)
            if (r != missing)
                record(&h, r, &s);
        must(lk_sequences_find(&s, &f));
        for (size_t k = 0; k < f.n; k++) {
            const struct lk_rank_list *who =
                f.at[k].kind == LK_SEQUENCE_STUCK ? &f.at[k].ranks : &f.at[k].roots;

            if (f.at[k].kind != f.at[0].kind)
                continue;
            one = one || who->n;
            for (size_t m = 0; m < who->n; m++)
                ck_assert_msg(is_culprit(&h, who->at[m]),
                              "hang %zu without rank %d: rank %d is named, not %d", i, missing,
                              who->at[m], h.culprits[0]);
        }
        cases += !is_culprit(&h, missing);
        named += one && !is_culprit(&h, missing);
        lk_sequence_findings_fini(&f);
        lk_sequences_fini(&s);
    }
    fprintf(stderr, "named in %zu of %zu hangs\n", named, cases);
    ck_assert_uint_gt(2 * named, cases);
}
END_TEST

START_TEST(a_rank_outside_its_group_is_an_error)
{
    struct lk_sequences s = {0};
    struct lk_event_detail c = {.sequence = 1};
    struct lk_import_event x = {.kind = LK_EVENT_ENQUEUE};
    struct lk_events e;

    must(lk_events_init(&e, NULL));
    must(name(&e, "g", &c.group));
    must(lk_events_group(&e, c.group, (int[]){2, 3}, 2));
    must(lk_events_detail(&e, &c, &x.detail));
    must(lk_events_add(&e, &x));
    ck_assert_int_eq(lk_sequences_add(&s, 4, &e), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank 4's"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "of ranks 2-3"));
    lk_sequences_fini(&s);
    lk_events_fini(&e);
}
END_TEST

/* Names of files, and the rank that each tells; -1: it does not. */
static const struct {
    const char *names[4];
    int ranks[4];
} names[] = {
    {{"a/_dump_2", "a/_dump_10", "a/_dump_0"}, {2, 10, 0}},
    {{"nccl_trace_rank_10", "nccl_trace_rank_9"}, {10, 9}},
    {{"worker0.pt.trace.json", "worker1.pt.trace.json", "worker11.pt.trace.json"}, {0, 1, 11}},
    {{"8gpu.3.json", "8gpu.12.json"}, {3, 12}},
    {{"h1_p77.json", "h2_p78.json"}, {-1, -1}},
    {{"a1.json", "b2.json"}, {-1, -1}},
    {{"a1b2.json", "a2b2.json", "a1b3.json"}, {-1, -1, -1}},
    {{"left.json", "right.json"}, {-1, -1}},
    {{"rank1.json", "other2.json"}, {1, -1}},
    {{"trace7.json"}, {-1}},
};

/* The names that PyTorch, Kineto, Chakra and their users give to twelve ranks. */
static const struct {
    const char *prefix, *suffix;
    bool padded;
} formats[] = {
    {"nccl_trace_rank_", "", false},
    {"/tmp/job7/nccl_trace_rank_", "", false},
    {"_dump_", "", false},
    {"dump.", "", false},
    {"worker", ".pt.trace.json", false},
    {"worker", ".1700000000000.pt.trace.json.gz", false},
    {"rank", ".json", false},
    {"rank-", "_step_10.json.gz", false},
    {"trace_rank", "_of_12.json", true},
    {"8gpu/run3_", ".json", true},
    {"chakra.", ".et", false},
    {"h100-", "-4711.pt.trace.json", false},
};

/* Each rank's name tells it, in whatever order the files are given. */
START_TEST(formats_tell_twelve_ranks)
{
    struct lk_rng g = lk_rng_init(1, (uint64_t)_i);
    char *paths[RANKS];
    int ranks[RANKS], order[RANKS];

    for (int r = 0; r < RANKS; r++)
        order[r] = r;
    for (int r = RANKS - 1; r > 0; r--) {
        int other = (int)lk_rng_below(&g, (uint64_t)r + 1), rank = order[r];

        order[r] = order[other];
        order[other] = rank;
    }
    for (int r = 0; r < RANKS; r++)
        must(lk_asprintf(&paths[r], formats[_i].padded ? "%s%02d%s" : "%s%d%s", formats[_i].prefix,
                         order[r], formats[_i].suffix));
    lk_file_ranks((const char *const *)paths, RANKS, ranks);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg(ranks[r] == order[r], "%s: %d", paths[r], ranks[r]);
        free(paths[r]);
    }
}
END_TEST

START_TEST(names_tell_ranks)
{
    int ranks[4];
    size_t n = 0;

    while (n < 4 && names[_i].names[n])
        n++;
    lk_file_ranks(names[_i].names, n, ranks);
    for (size_t k = 0; k < n; k++)
        ck_assert_msg(ranks[k] == names[_i].ranks[k], "%s: %d", names[_i].names[k], ranks[k]);
}
END_TEST

SUITE(sequences, t)
{
    tcase_add_test(t, culprits_of_hangs_are_named_and_nobody_else);
    tcase_add_test(t, a_rank_outside_its_group_is_an_error);
    tcase_add_test(t, nobody_is_named_for_a_missing_rank);
    tcase_add_loop_test(t, formats_tell_twelve_ranks, 0, LK_COUNT(formats));
    tcase_add_loop_test(t, names_tell_ranks, 0, LK_COUNT(names));
    tcase_add_loop_test(t, first_is_found, 0, LK_COUNT(rows));
    tcase_add_test(t, missing_files_are_named);
    tcase_add_loop_test(t, lists_of_ranks, 0, 5);
}
