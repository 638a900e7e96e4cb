/* UTF-8: what is a character, what can be shown, and where lines end. */
#include "base/utf8.h"
#include "tests/rigs/suite.h"

static const struct {
    const char *text;
    size_t bytes;
    uint32_t c;
    bool shown;
} characters[] = {
    {"a", 1, 'a', true},
    {"\xe2\x82\xac", 3, 0x20ac, true},      /* the euro */
    {"\xf0\x9f\x98\x80", 4, 0x1f600, true}, /* a face */
    {"\xc3", 1, 0xfffd, true},              /* half a character */
    {"\xc0\xaf", 1, 0xfffd, true},          /* a slash in two bytes */
    {"\xed\xa0\x80", 1, 0xfffd, true},      /* half a surrogate pair */
    {"\n", 1, '\n', false},
    {"\x7f", 1, 0x7f, false},
    {"\xc2\x85", 2, 0x85, false},       /* a control character beyond ASCII */
    {"\xe2\x80\xae", 3, 0x202e, false}, /* turns the direction of text */
    {"\xe2\x80\xa8", 3, 0x2028, false}, /* a line's end in JavaScript */
    {"\xef\xbf\xbf", 3, 0xffff, false},
};

START_TEST(characters_are_told)
{
    uint32_t c;

    ck_assert_uint_eq(lk_utf8_next(characters[_i].text, &c), characters[_i].bytes);
    ck_assert_uint_eq(c, characters[_i].c);
    ck_assert_int_eq(lk_utf8_is_shown(c), characters[_i].shown);
}
END_TEST

static const struct {
    const char *text;
    size_t fit, line, skip;
} lines[] = {
    {"one two", 5, 3, 4}, /* the word that has no room begins the next line */
    {"one two", 3, 3, 4}, /* the blank itself has no room */
    {"one two", 7, 7, 7},
    {"one\ntwo", 7, 3, 4},
    {"one", 2, 2, 2},          /* a word that is longer than a line is parted */
    {"\xe2\x82\xac", 0, 3, 3}, /* and a character is not */
    {" one", 2, 2, 2},         /* a blank in front is no line */
    {"", 5, 0, 0},
};

START_TEST(lines_end_at_blanks)
{
    size_t skip;

    ck_assert_uint_eq(lk_utf8_line(lines[_i].text, lines[_i].fit, &skip), lines[_i].line);
    ck_assert_uint_eq(skip, lines[_i].skip);
}
END_TEST

SUITE(utf8, tests)
{
    tcase_add_loop_test(tests, characters_are_told, 0, sizeof characters / sizeof *characters);
    tcase_add_loop_test(tests, lines_end_at_blanks, 0, sizeof lines / sizeof *lines);
}
