/*
 * docs/gpu.md: its tables of a step's launches and bytes are what build/dry/step_count prints
 * (tests/count/step_count_cuda.c). After a change print them again:
 *
 *     LK_RECORD=1 build/test_lockstep step_count
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(LK_HAVE_CUDA) && defined(LK_HAVE_CUPTI) && defined(LK_HAVE_NCCL) &&                    \
    defined(LK_HAVE_NVTX)

#define PAGE  "docs/gpu.md"
#define BEGIN "<!-- launches, by tests/tools/test_step_count.c -->\n\n"
#define END   "\n<!-- end of launches -->\n"

START_TEST(the_page_has_what_is_counted)
{
    struct shell_result counted = shell_run("%s/dry/step_count 2>&1", LK_BUILD_DIR);
    const char *from, *to;
    struct lk_writer *w;
    char *old, *page;
    size_t size;

    ck_assert_msg(counted.code == 0, "%s", counted.text);
    ck_assert_msg(lk_file_read(PAGE, &old, &size) == LK_OK, "%s", lk_error_text());
    from = strstr(old, BEGIN);
    ck_assert_ptr_nonnull(from);
    to = strstr(from, END);
    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(
        lk_asprintf(&page, "%.*s" BEGIN "%s%s", (int)(from - old), old, counted.text, to), LK_OK);
    if (getenv("LK_RECORD")) {
        ck_assert_int_eq(lk_writer_open(PAGE, false, &w), LK_OK);
        ck_assert_int_eq(lk_writer_put(w, page, strlen(page)), LK_OK);
        ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    } else {
        ck_assert_msg(!strcmp(old, page),
                      PAGE " is not as counted: LK_RECORD=1 build/test_lockstep step_count");
    }
    free(old);
    free(page);
}
END_TEST

SUITE(step_count, tc)
{
    tcase_add_test(tc, the_page_has_what_is_counted);
}

#else

SUITE(step_count, tc)
{
    (void)tc;
    fputs("step_count: skipped: this build lacks CUDA, CUPTI, NCCL or NVTX\n", stderr);
}

#endif
