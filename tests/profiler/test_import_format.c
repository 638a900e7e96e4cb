/* Files that are told by their content, but not read: the message says what they are, and what to
 * give instead. */
#include "profiler/import/format.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *text, *says;
    size_t skip; /* bytes of 'x' before the text */
} files[] = {
    {"a.tar", "ustar  ", "looks like an archive: unpack it", 257},
    {"a.tar.gz", "ustar", "looks like an archive: unpack it", 257},
    {"a.zip", "PK\3\4\24", "looks like an archive: unpack it", 0},
    {"a.nsys-rep", "\x7fNSYS", "looks like a report of Nsight Systems: nsys export", 0},
    {"a.pftrace", "\n\xc0", "looks like a Perfetto trace: traceconv json", 0},
    {"a.xplane.pb", "\n\xc0", "looks like an XPlane of JAX: JAX writes", 0},
    {"ops.parquet", "PAR1\25", "looks like a Parquet file: of a table", 0},
    {"a.pkl", "\x80\4\x95\3", "looks like a Python pickle: of pickles", 0},
    {"README", "# A text", "is no trace that is known", 0},
    {"empty", "", "is no trace that is known", 0},
};

START_TEST(what_is_not_read_is_named)
{
    size_t n = strlen(files[_i].text);
    const struct lk_format *format;
    char text[512], *path;

    memset(text, 'x', files[_i].skip);
    memcpy(text + files[_i].skip, files[_i].text, n);
    path = scratch_put(files[_i].name, text, files[_i].skip + n);
    must(lk_format_of(path, &format));
    ck_assert(!format || !format->read);
    ck_assert_int_ne(lk_format_refuse(path, format), LK_OK);
    ck_assert_msg(strstr(lk_error_text(), files[_i].says) != NULL, "%s", lk_error_text());
    free(path);
}
END_TEST

SUITE(import_format, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, what_is_not_read_is_named, 0, (int)LK_COUNT(files));
}
