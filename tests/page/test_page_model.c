/* The module of WebAssembly against the program: tests/page/equal.js asks both the same. */
#include "reports/whatif_module.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MODULE LK_BUILD_DIR "/page/lockstep.wasm"

/* Return false, and skip the test, where the module or what runs it is not there. */
static bool can_run(void)
{
    const char *missing = lk_whatif_module().missing;

    if (missing)
        skip("%s", missing);
    else if (shell_run("command -v node").code)
        skip("no node to run the page's module");
    else
        return true;
    return false;
}

/* The page's answers are the program's: every number within 1e-9, every text the same. */
START_TEST(module_answers_as_the_program)
{
    struct shell_result r;
    unsigned commands, refused;
    unsigned long numbers;

    if (!can_run())
        return;
    r = shell_run("bench/net_job convnet 100 > %s/convnet.json", scratch_dir);
    ck_assert_int_eq(r.code, 0);
    r = shell_run("mkdir %s/at && node tests/page/equal.js " LK_BUILD_DIR "/lockstep " MODULE
                  " %s/at %s/convnet.json tests/fuzz/corpus/job/full.json -- "
                  "tests/fuzz/corpus/cluster/full.json clusters/dgx-h100.json "
                  "clusters/ethernet-25g.json 2>&1",
                  scratch_dir, scratch_dir, scratch_dir);
    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_msg(sscanf(r.text, "%u commands, %u of them refused; %lu numbers", &commands,
                         &refused, &numbers) == 3,
                  "%s", r.text);
    ck_assert_msg(commands - refused > 50 && refused > 30 && numbers > 10000, "%s", r.text);
}
END_TEST

SUITE(page_model, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, module_answers_as_the_program);
}
