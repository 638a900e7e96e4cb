/* Large JSON files are walked: items, members, errors, and windows of the file. */
#include "base/array.h"
#include "base/json.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

static char *path;

static void put(const char *text, size_t n)
{
    free(path);
    path = scratch_put("x.json", text, n);
}

static void tear_down(void)
{
    free(path);
    path = NULL;
    scratch_tear_down();
}

struct walked {
    int items;
    int64_t sum;
    char members[128];
};

static enum lk_status walk_item(void *ctx, struct lk_json *v)
{
    enum lk_status st = LK_OK;
    struct walked *w = ctx;
    int64_t n = 0;

    LK_TRY(lk_json_int(v, "n", 0, 1000000, &n));
    LK_TRY(lk_json_end(v));
    w->items++;
    w->sum += n;
out:
    return st;
}

static enum lk_status walk_member(void *ctx, const char *key, struct lk_json *v)
{
    struct walked *w = ctx;

    if (!strcmp(key, "refuse"))
        return lk_json_error(v, "refused");
    strcat(strcat(w->members, key), " ");
    return LK_OK;
}

static const struct lk_json_walk walk = {.array = "rows", .item = walk_item, .member = walk_member};

static const struct {
    const char *text, *error;
    int items;
    int64_t sum;
    const char *members;
} walks[] = {
    {"{\"a\": 1, \"rows\": [{\"n\": 1}, {\"n\": 2}], \"b\": {\"rows\": [3]}}", NULL, 2, 3, "a b "},
    {"{\"rows\": []}", NULL, 0, 0, ""},
    {"{\"a\": [1]}", NULL, 0, 0, "a "},
    {"{\"rows\": [{\"n\": 1},\n{\"n\": \"x\"}]}", ":2: rows[1].n: expected a number", 1, 1, ""},
    {"{\"rows\": [{\"n\": 1, \"m\": 2}]}", ":1: rows[0].m: unknown key", 0, 0, ""},
    {"{\"rows\": [{\"n\": 1, \"n\": 2}]}", ":1: rows[0].n: duplicate key", 0, 0, ""},
    {"{\"rows\": [],\n\"rows\": []}", ":2: rows: duplicate key", 0, 0, ""},
    {"{\"rows\": 5}", ":1: rows: expected an array, got a number", 0, 0, ""},
    {"{\"rows\": {}}", ":1: rows: expected an array, got an object", 0, 0, ""},
    {"[1, 2]", ":1: expected an object, got an array", 0, 0, ""},
    {"\"text\"", ":1: expected an object, got a string", 0, 0, ""},
    {"{\"a\": {\"x\": 1},\n\"refuse\": 1}", ":2: refuse: refused", 0, 0, "a "},
    {"{\"rows\": [7]}", ":1: rows[0]: expected an object, got a number", 0, 0, ""},
    {"{\"rows\": [{\"n\": 1}", ":1: rows: the text ends too early: expected ',' or ']'", 1, 1, ""},
};

START_TEST(walks_give_items_and_members)
{
    struct walked w = {0};
    enum lk_status st;

    put(walks[_i].text, strlen(walks[_i].text));
    st = lk_json_walk(path, &walk, &w);
    ck_assert_msg((st == LK_OK) == !walks[_i].error, "%s: %s", walks[_i].text, lk_error_text());
    if (walks[_i].error)
        ck_assert_msg(strstr(lk_error_text(), walks[_i].error) == lk_error_text() + strlen(path),
                      "%s", lk_error_text());
    ck_assert_int_eq(w.items, walks[_i].items);
    ck_assert_int_eq(w.sum, walks[_i].sum);
    ck_assert_str_eq(w.members, walks[_i].members);
}
END_TEST

/* A file is read by windows of 1 MiB: its end may fall on any byte of a value or comment. */
START_TEST(windows_end_anywhere)
{
    enum { WINDOW = 1 << 20 };
    static const char begin[] = "{\"rows\": [",
                      end[] =
                          "{\"n\": 12},// a\n/* b\n**/ {\"\\u006e\": 3}, {\"n\" :4}\n], \"x\": 1}";
    const size_t n = WINDOW + sizeof end;
    char *text = malloc(n);

    ck_assert_ptr_nonnull(text);
    for (size_t before = 0; before < sizeof end; before++) {
        struct walked w = {0};

        memset(text, ' ', n);
        memcpy(text, begin, sizeof begin - 1);
        memcpy(text + WINDOW - before, end, sizeof end - 1);
        put(text, WINDOW - before + sizeof end - 1);
        ck_assert_msg(lk_json_walk(path, &walk, &w) == LK_OK, "%s", lk_error_text());
        ck_assert_int_eq(w.items, 3);
        ck_assert_int_eq(w.sum, 19);
        ck_assert_str_eq(w.members, "x ");
        text[WINDOW - before + sizeof end - 2] = 'y'; /* instead of the last brace */
        put(text, WINDOW - before + sizeof end - 1);
        ck_assert_int_eq(lk_json_walk(path, &walk, &(struct walked){0}), LK_EPARSE);
        ck_assert_msg(strstr(lk_error_text(), ":4: x: '1y' is no value") != NULL, "%s",
                      lk_error_text());
    }
    free(text);
}
END_TEST

START_TEST(strings_of_files_are_limited)
{
    const size_t n = (17 << 20) + 9;
    char *text = malloc(n);

    ck_assert_ptr_nonnull(text);
    memset(text, 'x', n);
    memcpy(text, "{\"a\":\n\"", 8);
    memcpy(text + n - 2, "\"}", 2);
    put(text, n);
    ck_assert_int_eq(lk_json_walk(path, &walk, &(struct walked){0}), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), ":2: a: a string of more than 16 MiB"));
    free(text);
}
END_TEST

SUITE(json_walk, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, tear_down);
    tcase_add_loop_test(t, walks_give_items_and_members, 0, (int)LK_COUNT(walks));
    tcase_add_test(t, windows_end_anywhere);
    tcase_add_test(t, strings_of_files_are_limited);
}
