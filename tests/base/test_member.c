/* Structs by rows: every kind is written and read back, refused with its key, and freed. */
#include "base/array.h"
#include "base/file.h"
#include "base/member.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLOR_LIST(X) X(RED, "red") X(GREEN, "green")
enum color { COLOR_LIST(LK_WORD_VALUE) COLORS };
static const struct lk_words color_words = LK_WORDS("a color", COLOR_LIST);

struct item {
    char *name;
};

struct inner {
    int depth;
    bool known;
};

struct all {
    int number_of_gpus, tristate, later;
    int64_t large;
    uint64_t bytes;
    bool flag;
    double ratio, unknown;
    char *text, *missing;
    char letters[4];
    enum color color;
    struct lk_quantity time, assumed;
    struct inner inner, absent;
    struct item *items;
    size_t n_items;
    double *values;
    size_t n_values;
    double *per_gpu;
    char **notes;
    size_t n_notes;
    struct lk_pair *pairs;
    size_t n_pairs;
};

static const struct lk_member item_rows[] = {
    LK_MEMBER(struct item, name, "name", TEXT, REQUIRED, .help = ""), LK_MEMBER_END};
static const struct lk_record item_record = {
    .size = sizeof(struct item), .rows = item_rows, .one_line = true};

static bool inner_known(const void *base)
{
    return ((const struct inner *)base)->known;
}

static enum lk_status check_inner(struct lk_json *v, void *base)
{
    struct inner *i = base;

    i->known = true;
    return i->depth == 7 ? lk_json_error(v, "seven is too deep") : LK_OK;
}

static const struct lk_member inner_rows[] = {
    LK_MEMBER(struct inner, depth, "depth", INT, REQUIRED, .max = 9, .help = ""), LK_MEMBER_END};
static const struct lk_record inner_record = {
    .size = sizeof(struct inner), .rows = inner_rows, .check = check_inner, .given = inner_known};

#define ROW(field, kind, need, ...) LK_MEMBER(struct all, field, #field, kind, need, __VA_ARGS__)
static const struct lk_member group_rows[] = {
    ROW(later, INT, OPTIONAL, .min = -5, .max = 5, .absent = 3), LK_MEMBER_END};
static const struct lk_record group_record = {.size = sizeof(struct all), .rows = group_rows};

static const struct lk_member all_rows[] = {
    ROW(number_of_gpus, INT, REQUIRED, .min = 1, .max = 8),
    ROW(tristate, TRISTATE, SPARSE, .help = ""),
    ROW(large, INT64, SPARSE, .min = INT64_MIN),
    ROW(bytes, UINT, REQUIRED, .range = LK_RANGE_ABOVE_0),
    ROW(flag, BOOL, OPTIONAL, .absent = true),
    ROW(ratio, NUMBER, REQUIRED, .range = LK_RANGE_SHARE),
    ROW(unknown, NUMBER, NULLABLE, .range = LK_RANGE_FROM_1),
    ROW(text, TEXT, OPTIONAL, .absent_text = "none"),
    ROW(missing, TEXT, SPARSE, .help = ""),
    ROW(letters, CHARS, SPARSE, .help = ""),
    ROW(color, WORD, OPTIONAL, .words = &color_words),
    ROW(time, QUANTITY, OPTIONAL, .dim = LK_DIM_TIME, .range = LK_RANGE_ABOVE_0),
    ROW(assumed, QUANTITY, ASSUMED, .dim = LK_DIM_TIME),
    ROW(inner, OBJECT, REQUIRED, .of = &inner_record),
    ROW(absent, OBJECT, OPTIONAL, .of = &inner_record),
    LK_MEMBER_GROUP("group", &group_record, ""),
    ROW(items, LIST, FILLED, .of = &item_record, .count = offsetof(struct all, n_items)),
    ROW(values, NUMBERS, NULLABLE, .count = offsetof(struct all, n_values)),
    ROW(per_gpu, PER_GPU, SPARSE, .count = offsetof(struct all, number_of_gpus)),
    ROW(notes, TEXTS, REQUIRED, .count = offsetof(struct all, n_notes)),
    ROW(pairs, PAIRS, SPARSE, .count = offsetof(struct all, n_pairs)),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record all_record = {
    .size = sizeof(struct all), .rows = all_rows, .schema = "all", .version = 2};

static const char full[] = "{\n"
                           "  \"schema\": \"all\",\n"
                           "  \"version\": 2,\n"
                           "  \"number_of_gpus\": 2,\n"
                           "  \"tristate\": false,\n"
                           "  \"large\": -9223372036854775808,\n"
                           "  \"bytes\": 18446744073709551615,\n"
                           "  \"flag\": false,\n"
                           "  \"ratio\": 0.5,\n"
                           "  \"unknown\": null,\n"
                           "  \"text\": \"t\",\n"
                           "  \"missing\": \"m\",\n"
                           "  \"letters\": \"abc\",\n"
                           "  \"color\": \"green\",\n"
                           "  \"time\": {\"value\": 2, \"unit\": \"s\", \"source\": \"x\"},\n"
                           "  \"assumed\": {\"value\": 1, \"unit\": \"s\", \"source\": \"y\"},\n"
                           "  \"inner\": {\n"
                           "    \"depth\": 1\n"
                           "  },\n"
                           "  \"absent\": {\n"
                           "    \"depth\": 2\n"
                           "  },\n"
                           "  \"group\": {\n"
                           "    \"later\": -5\n"
                           "  },\n"
                           "  \"items\": [\n"
                           "    {\"name\": \"i\"},\n"
                           "    {\"name\": \"\"}\n"
                           "  ],\n"
                           "  \"values\": [1.5, null],\n"
                           "  \"per_gpu\": [3, 4],\n"
                           "  \"notes\": [\n"
                           "    \"n\"\n"
                           "  ],\n"
                           "  \"pairs\": {\n"
                           "    \"k\": \"v\"\n"
                           "  }\n"
                           "}\n";
static const char least[] =
    "{\"schema\": \"all\", \"version\": 1, \"number_of_gpus\": 8, \"bytes\": 1,"
    " \"ratio\": 0, \"unknown\": 1, \"inner\": {\"depth\": 0},"
    " \"items\": [{\"name\": \"i\"}], \"values\": [], \"notes\": []}";

static char *dir, *path;

static void make_path(void)
{
    dir = scratch_create();
    path = scratch_path(dir, "all.json");
}

static void remove_path(void)
{
    scratch_remove(dir);
    free(path);
}

static void put(const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(a_full_file_is_written_as_it_was_read)
{
    struct all a;
    char *text;
    size_t size;

    put(full);
    ck_assert_msg(lk_record_load(&all_record, path, &a) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(a.tristate, -1);
    ck_assert_int_eq(a.later, -5);
    ck_assert(isnan(a.unknown) && isnan(a.values[1]));
    ck_assert_int_eq(lk_record_save(&all_record, path, &a), LK_OK);
    lk_record_fini(&all_record, &a);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_str_eq(text, full);
    free(text);
}
END_TEST

START_TEST(absent_members_have_their_values)
{
    struct all a;
    char *text;
    size_t size;

    put(least);
    ck_assert_msg(lk_record_load(&all_record, path, &a) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(a.tristate, 0);
    ck_assert_int_eq(a.later, 0); /* of a group that is absent */
    ck_assert(a.flag);
    ck_assert_str_eq(a.text, "none");
    ck_assert_ptr_null(a.missing);
    ck_assert_int_eq(a.color, RED);
    ck_assert(!lk_quantity_known(&a.time));
    ck_assert_str_eq(a.assumed.source, "assumed: assumed is not given");
    ck_assert(a.inner.known && !a.absent.known);
    ck_assert_ptr_null(a.per_gpu);
    ck_assert_int_eq(lk_record_save(&all_record, path, &a), LK_OK);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_ptr_null(strstr(text, "tristate"));
    ck_assert_ptr_null(strstr(text, "missing"));
    ck_assert_ptr_null(strstr(text, "letters"));
    ck_assert_ptr_null(strstr(text, "absent"));
    ck_assert_ptr_null(strstr(text, "pairs"));
    ck_assert_ptr_nonnull(strstr(text, "\"flag\": true"));
    free(text);
    lk_record_fini(&all_record, &a);
    ck_assert_ptr_null(a.text);
}
END_TEST

/* A change of the full file, and what is said of it. */
static const struct {
    const char *from, *to, *error;
} edits[] = {
    {"\"version\": 2", "\"version\": 3", ":3: version: version 3 was written by a newer"},
    {"_gpus\": 2", "_gpus\": 9", ":4: number_of_gpus: 9 is out of range"},
    {"\"tristate\": false", "\"tristate\": 0",
     ":5: tristate: expected true or false, got a number"},
    {"18446744073709551615", "0", ":7: bytes: must be above 0"},
    {"18446744073709551615", "18446744073709551616",
     ":7: bytes: 18446744073709551616 is out of range"},
    {"0.5", "1.5", ":9: ratio: must be from 0 to 1"},
    {"0.5", "null", ":9: ratio: expected a number, got null"},
    {"\"unknown\": null", "\"unknown\": 0.5", ":10: unknown: must be 1 or more"},
    {"\"unknown\": null", "\"unknwon\": null", ":1: unknown: missing (there is \"unknwon\")"},
    {"abc", "abcd", ":13: letters: longer than 3 bytes"},
    {"green", "gren", ":14: color: unknown word 'gren'; did you mean"},
    {"green", "ultraviolet", ":14: color: unknown word 'ultraviolet' (known: red green)"},
    {"\"value\": 2", "\"value\": 0", ":15: time: must be above 0"},
    {"\"depth\": 1", "\"depth\": 7", ":17: inner: seven is too deep"},
    {"\"depth\": 1", "\"depth\": 7, \"dept\": 1", ":18: inner.dept: unknown key"},
    {"\"later\": -5", "\"later\": -6", ":24: group.later: -6 is out of range"},
    {"[\n    {\"name\": \"i\"},\n    {\"name\": \"\"}\n  ]", "[]", ":26: items: must not be empty"},
    {"{\"name\": \"\"}", "{\"name\": 5}", ":28: items[1].name: expected a string"},
    {"[3, 4]", "[3]", ":31: per_gpu: has 1 entries for 2 GPUs"},
    {"\"k\": \"v\"", "\"k\": 1", ":36: pairs.k: expected a string"},
};

START_TEST(damage_is_refused_with_line_and_key)
{
    struct all a = {.later = 77};
    const char *at = strstr(full, edits[_i].from);
    char text[2048];

    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - full), full, edits[_i].to,
             at + strlen(edits[_i].from));
    put(text);
    ck_assert_int_eq(lk_record_load(&all_record, path, &a), LK_EPARSE);
    ck_assert_msg(
        !strncmp(lk_error_text() + strlen(path), edits[_i].error, strlen(edits[_i].error)), "%s",
        lk_error_text());
    ck_assert_int_eq(a.later, 77); /* as it was */
}
END_TEST

START_TEST(words)
{
    enum color c = RED;
    char list[16];

    ck_assert_int_eq(lk_words_find(&color_words, "green", &c), LK_OK);
    ck_assert_int_eq(c, GREEN);
    ck_assert_int_eq(lk_words_find(&color_words, "blue", &c), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "'blue' is not a color (known: red green)");
    ck_assert_int_eq(c, GREEN);
    ck_assert_str_eq(lk_words_list(&color_words, list, 6), " red ");
}
END_TEST

SUITE(member, t)
{
    tcase_add_checked_fixture(t, make_path, remove_path);
    tcase_add_test(t, a_full_file_is_written_as_it_was_read);
    tcase_add_test(t, absent_members_have_their_values);
    tcase_add_loop_test(t, damage_is_refused_with_line_and_key, 0, (int)LK_COUNT(edits));
    tcase_add_test(t, words);
}
