/* JUnit files: a test case for each condition; any text is escaped so that the file is XML. */
#include "base/array.h"
#include "base/file.h"
#include "reports/junit.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/* Write the file of a page with this answer and these conditions; the caller frees its text. */
static char *write(const char *answer, const char *conditions)
{
    char *path = scratch_path(scratch_dir, "junit.xml");
    struct lk_gates g = {0};
    struct lk_page p = {0};
    struct shell_result r;

    ck_assert_int_eq(lk_page_say(&p, "%s", answer), LK_OK);
    ck_assert_int_eq(lk_page_value(&p, "efficiency", "gpus=\"64\"", LK_DIM_NONE, 0.61), LK_OK);
    ck_assert_int_eq(lk_gates_add(&g, conditions), LK_OK);
    ck_assert_int_eq(lk_gates_judge(&g, &p), LK_OK);
    ck_assert_int_eq(lk_junit_write(path, "predict", &g, &p), LK_OK);
    if (shell_run("command -v xmllint > /dev/null").code == 0) {
        r = shell_run("xmllint --noout %s 2>&1", path);
        ck_assert_msg(r.code == 0, "%s", r.text);
    }
    free(path);
    lk_gates_fini(&g);
    lk_page_fini(&p);
    return scratch_read(scratch_dir, "junit.xml");
}

START_TEST(cases_have_their_results)
{
    char *text = write("61 % of linear.", "efficiency<0.5,efficiency{gpus=\"64\"}<0.8,step_s>1");

    ck_assert_str_eq(
        text,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites tests=\"3\" failures=\"1\" errors=\"1\">\n"
        "  <testsuite name=\"lockstep predict\" tests=\"3\" failures=\"1\" errors=\"1\">\n"
        "    <testcase classname=\"lockstep.predict\" name=\"efficiency&lt;0.5\">\n"
        "      <system-out>efficiency{gpus=&quot;64&quot;} is 0.610: not below 0.5</system-out>\n"
        "    </testcase>\n"
        "    <testcase classname=\"lockstep.predict\" "
        "name=\"efficiency{gpus=&quot;64&quot;}&lt;0.8\">\n"
        "      <failure message=\"efficiency{gpus=&quot;64&quot;} is 0.610: below 0.8\">"
        "efficiency{gpus=&quot;64&quot;} is 0.610: below 0.8</failure>\n"
        "    </testcase>\n"
        "    <testcase classname=\"lockstep.predict\" name=\"step_s&gt;1\">\n"
        "      <error message=\"step_s&gt;1: no value &apos;step_s&apos; here; there are: "
        "efficiency\">step_s&gt;1: no value &apos;step_s&apos; here; there are: "
        "efficiency</error>\n"
        "    </testcase>\n"
        "    <system-out>61 % of linear.\n</system-out>\n"
        "  </testsuite>\n"
        "</testsuites>\n");
    free(text);
}
END_TEST

START_TEST(any_text_is_escaped)
{
    static const struct {
        const char *text, *xml;
    } cases[] = {
        {"a<b>&\"c'", "a&lt;b&gt;&amp;&quot;c&apos;"}, {"]]>", "]]&gt;"},
        {"\xff\xc3(", "\xEF\xBF\xBD\xEF\xBF\xBD("},    {"\xEF\xBF\xBE", "\xEF\xBF\xBD"},
        {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},  {"tab\tline\n", "tab line"},
    };

    for (size_t i = 0; i < LK_COUNT(cases); i++) {
        char *text = write(cases[i].text, "efficiency<0.5");

        ck_assert_msg(strstr(text, cases[i].xml) != NULL, "%s is not in %s", cases[i].xml, text);
        free(text);
    }
}
END_TEST

/* An answer has lost its control characters before (base/lines.h); a condition has not. */
START_TEST(control_characters_are_replaced)
{
    char *text = write("\x1b[31m", "efficiency{gpus=\"\x1b[31m\"}<0.5");

    ck_assert_ptr_nonnull(strstr(text, "gpus=&quot;\xEF\xBF\xBD[31m&quot;"));
    ck_assert_ptr_nonnull(strstr(text, "?[31m"));
    ck_assert_ptr_null(strchr(text, '\x1b'));
    free(text);
}
END_TEST

SUITE(junit, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, cases_have_their_results);
    tcase_add_test(c, any_text_is_escaped);
    tcase_add_test(c, control_characters_are_replaced);
}
