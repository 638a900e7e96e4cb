/* Set-up and probe: what counts as there, and when the build looks again. */
#include "base/array.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/* A header with the right name in another package has none of the library's functions. */
START_TEST(header_alone_is_no_library)
{
    struct shell_result r =
        shell_run(": > %s/zlib.h && C_INCLUDE_PATH=%s LOCKSTEP_NO_INSTALL=1 tools/setup build 2>&1",
                  scratch_dir, scratch_dir);

    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(strstr(r.text, "zlib1g-dev") != NULL, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "install these yourself"));
    r = shell_run("C_INCLUDE_PATH=%s tools/probe %s/probe.mk 2>&1", scratch_dir, scratch_dir);
    ck_assert_int_eq(r.code, 1);
    ck_assert_ptr_nonnull(strstr(r.text, "cannot build without"));
    ck_assert_msg(strstr(r.text, "zlib1g-dev") != NULL, "%s", r.text);
}
END_TEST

/* Set-up reports what is optional and goes on without it. */
START_TEST(optional_things_do_not_stop)
{
    struct shell_result r =
        shell_run(": > %s/cblas.h; C_INCLUDE_PATH=%s LOCKSTEP_NO_INSTALL=1 tools/setup build 2>&1",
                  scratch_dir, scratch_dir);

    ck_assert_msg(r.code == 0, "%s", r.text);
    /* OpenBLAS may be found behind the empty header, in a folder of its own. */
    if (*r.text)
        ck_assert_ptr_nonnull(strstr(r.text, "going on without: openblas"));
}
END_TEST

/* A page's what-if is left out where its compiler is not, or WASM=no; WASM=yes asks for it. */
START_TEST(pages_module_is_optional)
{
    static const char *const found[][2] = {{"WASM=auto", "missing"}, {"WASM=no", "off"}};
    struct shell_result r =
        shell_run("WASM=yes WASM_CC=no-clang tools/probe %s/probe.mk 2>&1", scratch_dir);

    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(strstr(r.text, "WASM=yes, but no-clang makes no WebAssembly here") != NULL, "%s",
                  r.text);
    for (size_t i = 0; i < LK_COUNT(found); i++) {
        r = shell_run("%s WASM_CC=no-clang tools/probe %s/probe.mk 2>&1 && "
                      "grep -x 'PROBE_WASM := %s' %s/probe.mk",
                      found[i][0], scratch_dir, found[i][1], scratch_dir);
        ck_assert_msg(r.code == 0, "%s: %s", found[i][0], r.text);
    }
}
END_TEST

static struct shell_result probe(void)
{
    return shell_run("env -u MAKEFLAGS -u MAKELEVEL PATH=\"%s/bin:$PATH\" make "
                     "--no-print-directory CUDA=no BUILD=%s/b "
                     "%s/b/probe.mk 2>&1",
                     scratch_dir, scratch_dir, scratch_dir);
}

/* A folder on the search path that changed is searched again; objects stay good if nothing else was
 * found. */
START_TEST(probe_follows_what_it_searched)
{
    static const char looks[] = "looking for libraries";
    struct shell_result r;

    ck_assert_int_eq(shell_run("mkdir %s/bin", scratch_dir).code, 0);
    r = probe();
    ck_assert_msg(r.code == 0 && strstr(r.text, looks), "%s", r.text);
    r = probe();
    ck_assert_msg(r.code == 0 && !strstr(r.text, looks), "%s", r.text);
    ck_assert_int_eq(shell_run("cp -p %s/b/probe.flags %s/before && : > %s/bin/new", scratch_dir,
                               scratch_dir, scratch_dir)
                         .code,
                     0);
    r = probe();
    ck_assert_msg(r.code == 0 && strstr(r.text, looks), "%s", r.text);
    ck_assert_int_eq(
        shell_run("[ ! %s/b/probe.flags -nt %s/before ]", scratch_dir, scratch_dir).code, 0);
}
END_TEST

SUITE(setup, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, header_alone_is_no_library);
    tcase_add_test(c, optional_things_do_not_stop);
    tcase_add_test(c, pages_module_is_optional);
    tcase_add_test(c, probe_follows_what_it_searched);
}
