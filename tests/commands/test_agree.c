/* Ranks that were given other options, or other files, are told before they train. */
#include "base/array.h"
#include "base/file.h"
#include "commands/command.h"
#include "commands/run_options.h"
#include "runtime/rendezvous/agree.h"
#include "tests/rigs/foreign.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODEL                                                                                      \
    "--model=mlp --layers=1 --channels=16 --context=8 --vocab=256 --no-pin --steps=4 --warmup=1 "  \
    "--timeout=60s "

enum { RANKS = 3 };

/* ---- One rank of three is started with other words ---- */

static const struct {
    const char *all, *odd; /* options of all, and of the odd one besides; %s: the scratch folder */
    int rank;              /* of the odd one */
    const char *says;
} cases[] = {
    {"", "--optimizer=sgd", 1, "--optimizer is sgd on rank 1 (host "},
    {"", "--optimizer=sgd", 1, ", adamw on ranks 0 and 2 (host "},
    {"", "--learning-rate=0.002", 2, "--learning-rate is 0.002 on rank 2 (host "},
    {"", "--seed=5", 0, "--seed is 5 on rank 0 (host "},
    {"", "-b4", 1, "--local-batch is 4 on rank 1 (host "},
    {"", "-a2", 1, "--accumulation is 2 on rank 1 (host "},
    {"", "--no-trace", 2, "--trace is no on rank 2 (host "},
    {"--data=%s/same", "", 0, NULL},
    {"", "--data=%s/same", 1, ", not given on ranks 0 and 2 (host "},
    {"", "-v --log=info", 1, NULL},
};

static void fill_in(char *to, size_t size, const char *text)
{
    const char *at = strstr(text, "%s");

    if (at)
        snprintf(to, size, "%.*s%s%s", (int)(at - text), text, scratch_dir, at + 2);
    else
        snprintf(to, size, "%s", text);
}

static void start(struct program *p, const char *all, const char *odd, int odd_rank)
{
    char words[RANKS][1024], common[300], own[300];
    const char *each[RANKS];

    fill_in(common, sizeof common, all);
    fill_in(own, sizeof own, odd);
    for (int r = 0; r < RANKS; r++) {
        snprintf(words[r], sizeof words[r], "run --out=%s/run " MODEL "%s %s", scratch_dir, common,
                 r == odd_rank ? own : "");
        each[r] = words[r];
    }
    foreign_run(p, RANKS, each);
}

static void put_data(const char *name, char last)
{
    char text[4096];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = last;
    free(scratch_put(name, text, sizeof text));
}

START_TEST(options_that_differ_are_named)
{
    struct program p[RANKS];
    const char *says = cases[_i].says;

    put_data("same", 'x');
    start(p, cases[_i].all, cases[_i].odd, cases[_i].rank);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg((p[r].code == 0) == !says, "rank %d: %s", r, p[r].err);
        if (says)
            ck_assert_msg(strstr(p[r].err, says) != NULL, "rank %d: %s", r, p[r].err);
        program_fini(&p[r]);
    }
}
END_TEST

/* The contents of a file count, not its path. */
START_TEST(contents_are_compared)
{
    char words[2][1024];
    const char *each[2] = {words[0], words[1]};
    struct program p[2];
    bool equal = _i == 0;

    put_data("a", 'x');
    put_data("b", equal ? 'x' : 'y');
    for (int r = 0; r < 2; r++)
        snprintf(words[r], sizeof words[r], "run --out=%s/run --data=%s/%s " MODEL, scratch_dir,
                 scratch_dir, r ? "b" : "a");
    foreign_run(p, 2, each);
    for (int r = 0; r < 2; r++) {
        ck_assert_msg((p[r].code == 0) == equal, "rank %d: %s", r, p[r].err);
        if (!equal)
            ck_assert_msg(strstr(p[r].err, "--data is 4096 bytes with checksum ") != NULL,
                          "rank %d: %s", r, p[r].err);
        program_fini(&p[r]);
    }
}
END_TEST

/* An option that nobody thought of must agree: those that may differ are these. */
START_TEST(a_new_option_must_agree)
{
    static const char *const differ[] = {"force", "format", "table",      "verbose",
                                         "quiet", "log",    "secret-file"};
    size_t n = 0;

    for (const struct lk_option *row = run_rows; row->name; row++) {
        bool known = false;

        for (size_t i = 0; i < LK_COUNT(differ); i++)
            known = known || !strcmp(differ[i], row->name);
        ck_assert_msg(row->may_differ == known, "--%s", row->name);
        n += known;
    }
    ck_assert_uint_eq(n, LK_COUNT(differ));
}
END_TEST

/* ---- A bit flips in one rank ---- */

static const struct {
    const char *options;
    int code;
    const char *says[2]; /* NULL: nothing */
} flips[] = {
    {"--check-every=1 --fault=flip:call=2,rank=2",
     1,
     {"the ranks do not agree on the initial parameters: the checksum of layers.0.weight is ",
      " on rank 2 (host "}},
    {"--check-every=1 --fault=flip:call=8,rank=1",
     1,
     {"the ranks do not agree on the parameters after step ", " on rank 1 (host "}},
    {"--fault=flip:call=8,rank=1", /* after the last step, too */
     1,
     {"the ranks do not agree on the parameters after step 4: the checksum of ",
      " on rank 1 (host "}},
    {"--check-every=0 --fault=flip:call=8,rank=1", 0, {NULL, NULL}}, /* in silence */
    {"--check-every=2", 0, {NULL, NULL}},
};

START_TEST(a_flipped_bit_is_found)
{
    struct program p;

    program_run(&p, scratch_dir, flips[_i].code, "run -n3 --out=%s/run " MODEL "%s", scratch_dir,
                flips[_i].options);
    for (int k = 0; k < 2 && flips[_i].says[k]; k++)
        ck_assert_msg(strstr(p.err, flips[_i].says[k]) != NULL, "%s", p.err);
    if (!flips[_i].says[0])
        ck_assert_str_eq(p.err, "");
    program_fini(&p);
}
END_TEST

/* ---- A loss that is not finite ---- */

#define BLOWS_UP                                                                                   \
    "--model=gpt --layers=2 --heads=2 --channels=16 --context=8 --vocab=32 --samples=4096 "        \
    "--no-pin -b2 --steps=60 --warmup=0 --optimizer=sgd --learning-rate=100 "

static const char *const blow_ups[] = {"-n1", "-n2", "-n2 --no-trace", "-n1 --no-trace -a2",
                                       "-n2 --verify-steps=1 --verify --check-every=1"};

START_TEST(a_loss_that_is_not_finite_ends_the_run)
{
    struct program p;

    program_run(&p, scratch_dir, 1, "run --out=%s/run " BLOWS_UP "%s", scratch_dir, blow_ups[_i]);
    ck_assert_msg(strstr(p.err, "rank ") && strstr(p.err, " failed: the loss of step "), "%s",
                  p.err);
    ck_assert_msg(strstr(p.err, " on host ") && strstr(p.err, ": the output of "), "%s", p.err);
    program_fini(&p);
}
END_TEST

/* ---- The folder ---- */

/* A second run does not replace the first one's files. */
START_TEST(a_folder_is_claimed)
{
    char words[2][1024], *before, *after;
    const char *each[2] = {words[0], words[1]};
    struct program p[2];

    for (int r = 0; r < 2; r++)
        snprintf(words[r], sizeof words[r], "run --out=%s/run " MODEL, scratch_dir);
    foreign_run(p, 2, each);
    before = scratch_read(scratch_dir, "run/result.json");
    for (int r = 0; r < 2; r++) {
        ck_assert_msg(p[r].code == 0, "%s", p[r].err);
        program_fini(&p[r]);
    }
    foreign_run(p, 2, each);
    after = scratch_read(scratch_dir, "run/result.json");
    ck_assert_str_eq(before, after);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(p[r].code, 1);
        ck_assert_msg(strstr(p[r].err, "/run: ") && strstr(p[r].err, "not empty"), "%s", p[r].err);
        program_fini(&p[r]);
    }
    free(before);
    free(after);
}
END_TEST

/* Rank 1 writes elsewhere, where rank 0's file is not. */
START_TEST(an_unshared_folder_is_told)
{
    char words[2][1024], path[300];
    const char *each[2] = {words[0], words[1]};
    struct program p[2];

    snprintf(words[0], sizeof words[0], "run --out=%s/run " MODEL, scratch_dir);
    snprintf(words[1], sizeof words[1], "run --out=%s/elsewhere " MODEL, scratch_dir);
    foreign_run(p, 2, each);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(p[r].code, 1);
        ck_assert_msg(strstr(p[r].err, "rank 1 on host ") &&
                          strstr(p[r].err, " does not see rank 0's folder as "),
                      "%s", p[r].err);
        program_fini(&p[r]);
    }
    snprintf(path, sizeof path, "%s/run/.lockstep-claim", scratch_dir);
    ck_assert(!lk_file_exists(path));
}
END_TEST

/* ---- Ranks with a file of a secret ---- */

static const struct {
    const char *of_1; /* rank 1's option; %s: the scratch folder */
    const char *says; /* what rank 1 says; NULL: it gets in */
} secrets[] = {
    {"--secret-file=%s/same", NULL},
    {"--secret-file=%s/other", "this rank's secret is not the run's"},
    {"", "this rank's secret is not the run's"},
    {"--secret-file=%s/missing", "No such file"},
};

START_TEST(a_secret_is_asked_for)
{
    static const char *const names[] = {"own", "same", "other"};
    char words[2][1024], option[300];
    const char *each[2] = {words[0], words[1]};
    const char *says = secrets[_i].says;
    struct program p[2];

    for (size_t i = 0; i < LK_COUNT(names); i++) {
        char *path =
            scratch_put(names[i], i == 2 ? "another secret, of 25" : "a secret of 21 bytes.", 21);

        ck_assert_int_eq(chmod(path, 0600), 0);
        free(path);
    }
    fill_in(option, sizeof option, secrets[_i].of_1);
    snprintf(words[0], sizeof words[0], "run --out=%s/run " MODEL "--secret-file=%s/own",
             scratch_dir, scratch_dir);
    if (says) /* rank 0 waits in vain */
        memcpy(strstr(words[0], "=60s"), "=04s", 4);
    snprintf(words[1], sizeof words[1], "run --out=%s/run " MODEL "%s", scratch_dir, option);
    foreign_run(p, 2, each);
    ck_assert_msg((p[0].code == 0) == !says, "%s", p[0].err);
    ck_assert_msg((p[1].code == 0) == !says, "%s", p[1].err);
    if (says)
        ck_assert_msg(strstr(p[1].err, says) != NULL, "%s", p[1].err);
    program_fini(&p[0]);
    program_fini(&p[1]);
}
END_TEST

/* ---- The comparison ---- */

static void list(struct lk_facts *f, const char *host, const char *const *pairs)
{
    if (host)
        ck_assert_int_eq(lk_facts_add(f, "host", "%s", host), LK_OK);
    for (; *pairs; pairs += 2)
        ck_assert_int_eq(lk_facts_add(f, pairs[0], "%s", pairs[1]), LK_OK);
}

static const struct {
    const char *of[4][7]; /* a rank's host, then names and values */
    const char *says;     /* NULL: equal */
} lists[] = {
    {{{"a", "x", "1"}, {"b", "x", "1"}, {"c", "x", "1"}, {"d", "x", "1"}}, NULL},
    {{{"a", "x", "1"}, {"b", "x", "1"}, {"b", "x", "1"}, {"b", "x", "2"}},
     "x is 2 on rank 3 (host b), 1 on ranks 0 to 2"},
    {{{"a", "x", "1"}, {"a", "x", "1"}, {"b", "x", "2"}, {"b", "x", "2"}},
     "x is 2 on ranks 2 and 3 (host b), 1 on ranks 0 and 1 (host a)"},
    {{{"a", "x", "1", "y", "3"}, {"a", "x", "1"}, {"a", "x", "1"}, {"a", "x", "1"}},
     "y is 3 on rank 0 (host a), not there on ranks 1 to 3 (host a)"},
    {{{"a", "x", "1"}, {"a", "x", "1", "y", "\n\x1b[1m"}, {"a", "x", "1"}, {"a", "x", "1"}},
     "y is ??[1m on rank 1 (host a), not there on ranks 0, 2 and 3 (host a)"},
    {{{"a", "x", ""}, {"a", "x", "1"}, {"a", "x", "1"}, {"a", "x", "1"}},
     "x is not given on rank 0 (host a), 1 on ranks 1 to 3 (host a)"},
};

START_TEST(the_odd_one_is_named)
{
    struct lk_facts f[4] = {{0}};
    char text[512] = "";

    for (int r = 0; r < 4; r++)
        list(&f[r], lists[_i].of[r][0], &lists[_i].of[r][1]);
    ck_assert(lk_facts_compare(f, 4, text, sizeof text) == (lists[_i].says != NULL));
    if (lists[_i].says)
        ck_assert_str_eq(text, lists[_i].says);
    for (int r = 0; r < 4; r++)
        lk_facts_fini(&f[r]);
}
END_TEST

/* A list that another program sent ends anywhere. */
START_TEST(a_cut_list_is_read_to_its_end)
{
    struct lk_facts f[2] = {{0}};
    char text[512];

    list(&f[0], "a", (const char *const[]){"x", "1", "y", "2", NULL});
    list(&f[1], "a", (const char *const[]){"x", "1", "y", "2", NULL});
    for (size_t n = f[0].n; n-- > 0;) {
        struct lk_facts cut = {0};

        if (n)
            ck_assert_int_eq(lk_alloc(&cut.text, n, 1), LK_OK);
        if (n)
            memcpy(cut.text, f[1].text, n);
        cut.n = n;
        ck_assert(lk_facts_compare((const struct lk_facts[]){f[0], cut}, 2, text, sizeof text));
        lk_facts_fini(&cut);
    }
    lk_facts_fini(&f[0]);
    lk_facts_fini(&f[1]);
}
END_TEST

SUITE(agree, c)
{
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, options_that_differ_are_named, 0, LK_COUNT(cases));
    tcase_add_loop_test(c, contents_are_compared, 0, 2);
    tcase_add_loop_test(c, a_flipped_bit_is_found, 0, LK_COUNT(flips));
    tcase_add_loop_test(c, a_loss_that_is_not_finite_ends_the_run, 0, LK_COUNT(blow_ups));
    tcase_add_test(c, a_folder_is_claimed);
    tcase_add_test(c, an_unshared_folder_is_told);
    tcase_add_loop_test(c, a_secret_is_asked_for, 0, LK_COUNT(secrets));
    tcase_add_test(c, a_new_option_must_agree);
    tcase_add_loop_test(c, the_odd_one_is_named, 0, LK_COUNT(lists));
    tcase_add_test(c, a_cut_list_is_read_to_its_end);
}
