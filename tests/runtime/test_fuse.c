/* What a step fuses: the words of --fuse. */
#include "base/array.h"
#include "runtime/model/fuse.h"
#include "tests/rigs/suite.h"

static const struct {
    const char *text;
    enum lk_fuse_wish wish[LK_FUSE_COUNT];
} lists[] = {
    {"auto", {LK_FUSE_AUTO, LK_FUSE_AUTO, LK_FUSE_AUTO, LK_FUSE_AUTO}},
    {"none", {LK_FUSE_NO}},
    {"loss", {[LK_FUSE_LOSS] = LK_FUSE_YES}},
    {" gelu, BIAS", {[LK_FUSE_BIAS] = LK_FUSE_YES, [LK_FUSE_GELU] = LK_FUSE_YES}},
    {"optimizer,optimizer", {[LK_FUSE_OPTIMIZER] = LK_FUSE_YES}},
};

START_TEST(lists_are_read)
{
    struct lk_fuse f = {.wish = {LK_FUSE_YES, LK_FUSE_YES, LK_FUSE_YES, LK_FUSE_YES}};

    ck_assert_msg(lk_fuse_parse(lists[_i].text, &f) == LK_OK, "%s", lk_error_text());
    for (size_t k = 0; k < LK_FUSE_COUNT; k++)
        ck_assert_int_eq(f.wish[k], lists[_i].wish[k]);
}
END_TEST

/* A list that is refused leaves what there was. */
START_TEST(others_are_refused)
{
    static const char *const texts[] = {"", "all", "none,loss", "loss,", "loss gelu"};
    struct lk_fuse f = {.wish = {LK_FUSE_YES}};

    ck_assert_int_eq(lk_fuse_parse(texts[_i], &f), LK_EUSAGE);
    ck_assert_int_eq(f.wish[0], LK_FUSE_YES);
}
END_TEST

SUITE(fuse, tc)
{
    tcase_add_loop_test(tc, lists_are_read, 0, (int)LK_COUNT(lists));
    tcase_add_loop_test(tc, others_are_refused, 0, 5);
}
