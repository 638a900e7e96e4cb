/* Finding shared libraries: by the loader, in the user's folders, and the
 * error if there is none. */
#include "base/array.h"
#include "base/library.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct functions {
    double (*cosine)(double);
    double (*power)(double, double);
};

static const struct lk_library_symbol symbols[] = {{"cos", offsetof(struct functions, cosine)},
                                                   {"pow", offsetof(struct functions, power)}};

static const char *const files[] = {"liblockstep-nowhere.so.7", "libm.so.6", NULL};
static const struct lk_library_spec math = {
    .name = "math", .files = files, .symbols = symbols, .n_symbols = LK_COUNT(symbols)};

START_TEST(table_is_filled)
{
    struct functions call = {0};
    struct lk_library *l = NULL;

    ck_assert_int_eq(lk_library_open(&math, &call, &l), LK_OK);
    ck_assert_double_eq(call.cosine(0), 1);
    ck_assert_double_eq(call.power(2, 3), 8);
    ck_assert_ptr_nonnull(strstr(lk_library_path(l), "/libm.so.6"));
    lk_library_close(l);
    lk_library_close(NULL);
}
END_TEST

START_TEST(absence_is_explained)
{
    static const char *const nowhere[] = {"liblockstep-nowhere.so.7", NULL};
    struct lk_library_spec spec = math;
    struct functions call = {0};
    struct lk_library *l = NULL;

    spec.files = nowhere;
    ck_assert_int_eq(lk_library_open(&spec, &call, &l), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "math (liblockstep-nowhere.so.7)"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "LOCKSTEP_LIBRARY_PATH"));
    ck_assert_ptr_null(l);
}
END_TEST

START_TEST(lacking_function_is_named)
{
    static const struct lk_library_symbol more[] = {{"cos", 0}, {"lockstep_no_such_function", 8}};
    struct lk_library_spec spec = math;
    struct functions call = {0};
    struct lk_library *l = NULL;

    spec.symbols = more;
    ck_assert_int_eq(lk_library_open(&spec, &call, &l), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "lacks lockstep_no_such_function"));
    ck_assert(!call.cosine);
}
END_TEST

/* Only the last of the user's folders has the file, under a name that the loader does not know. */
START_TEST(users_folders_are_searched)
{
    static const char *const nowhere[] = {"liblockstep-nowhere.so.7", NULL};
    struct lk_library_spec spec = math;
    struct functions call = {0};
    struct lk_library *l = NULL;
    char real_path[1024], folders[1024];
    char *dir = scratch_create(), *link = scratch_path(dir, "liblockstep-nowhere.so.7");

    ck_assert_int_eq(lk_library_open(&math, &call, &l), LK_OK);
    snprintf(real_path, sizeof real_path, "%s", lk_library_path(l));
    lk_library_close(l);
    ck_assert_int_eq(symlink(real_path, link), 0);
    snprintf(folders, sizeof folders, "/nowhere::%s", dir);
    ck_assert_int_eq(setenv("LOCKSTEP_LIBRARY_PATH", folders, 1), 0);
    spec.files = nowhere;
    ck_assert_int_eq(lk_library_open(&spec, &call, &l), LK_OK);
    ck_assert_double_eq(call.cosine(0), 1);
    lk_library_close(l);
    unsetenv("LOCKSTEP_LIBRARY_PATH");
    free(link);
    scratch_remove(dir);
}
END_TEST

/* PATH has a link to a link to the python3 of an environment that is not activated; its
 * packages contain the file. */
START_TEST(packages_of_the_python_in_path_are_searched)
{
    static const char *const nowhere[] = {"liblockstep-nowhere.so.7", NULL};
    struct lk_library_spec spec = math;
    struct functions call = {0};
    struct lk_library *l = NULL;
    char real_path[1024], command[4096];
    char *dir = scratch_create();

    ck_assert_int_eq(lk_library_open(&math, &call, &l), LK_OK);
    snprintf(real_path, sizeof real_path, "%s", lk_library_path(l));
    lk_library_close(l);
    snprintf(command, sizeof command,
             "cd '%s' && mkdir -p a b env/bin env/lib/python3.12/site-packages/nvidia/cu13/lib && "
             "ln -s /bin/sh env/bin/python3 && ln -s ../env/bin/python3 b/python3 && "
             "ln -s '%s/b/python3' a/python3 && "
             "ln -s '%s' env/lib/python3.12/site-packages/nvidia/cu13/lib/%s",
             dir, dir, real_path, nowhere[0]);
    ck_assert_int_eq(system(command), 0);
    spec.files = nowhere;
    snprintf(command, sizeof command, "/nowhere::%s/a:/usr/bin", dir);
    ck_assert_int_eq(setenv("PATH", command, 1), 0);
    ck_assert_msg(lk_library_open(&spec, &call, &l) == LK_OK, "%s", lk_error_text());
    ck_assert_double_eq(call.cosine(0), 1);
    lk_library_close(l);
    /* Another python3 comes first, which has no packages. */
    snprintf(command, sizeof command, "/usr/bin:%s/a", dir);
    ck_assert_int_eq(setenv("PATH", command, 1), 0);
    if (access("/usr/bin/python3", X_OK) == 0)
        ck_assert_int_eq(lk_library_open(&spec, &call, &l), LK_EUNSUPPORTED);
    ck_assert_int_eq(setenv("PATH", "/bin:/usr/bin", 1), 0);
    scratch_remove(dir);
}
END_TEST

SUITE(library, tc)
{
    tcase_add_test(tc, table_is_filled);
    tcase_add_test(tc, absence_is_explained);
    tcase_add_test(tc, lacking_function_is_named);
    tcase_add_test(tc, users_folders_are_searched);
    tcase_add_test(tc, packages_of_the_python_in_path_are_searched);
}
