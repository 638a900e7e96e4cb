/* Slurm's lists, and the address of a node whose name is not a host's. */
#include "runtime/rendezvous/rank_env.h"
#include "runtime/rendezvous/slurm.h"

#include "base/array.h"
#include "base/clock.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A name that no resolver may know (RFC 6761), and addresses of documentation. */
#define NODE "gpu-c1.invalid"

/* Let `scontrol` be this script; the real one is out of reach. */
static void have_scontrol(const char *script)
{
    char *path = scratch_put("scontrol", script, strlen(script)), *search = NULL;

    ck_assert_int_eq(chmod(path, 0700), 0);
    must(lk_asprintf(&search, "%s:/bin", scratch_dir));
    ck_assert_int_eq(setenv("PATH", search, 1), 0);
    free(search);
    free(path);
}

#define SHOW "#!/bin/sh\n[ \"$*\" = '-o show node " NODE "' ] || exit 9\n"
static const struct {
    const char *node, *aliases, *scontrol; /* NULL: none */
    const char *want;                      /* the address; or, of a failure, a part of its text */
    bool fails;
} addresses[] = {
    {"localhost", "localhost:192.0.2.9:h", SHOW "echo NodeName=x NodeAddr=192.0.2.7", "localhost",
     false},
    {NODE, "a:192.0.2.1:a," NODE ":192.0.2.2:b", NULL, "192.0.2.2", false},
    {NODE, NODE ":[2001:db8::1]:b,c:192.0.2.1:c", NULL, "2001:db8::1", false},
    {NODE, "x" NODE ":192.0.2.1:a," NODE "x:192.0.2.1:a",
     SHOW "echo NodeName=x Arch=x86_64 NodeAddr=192.0.2.7 NodeHostName=x", "192.0.2.7", false},
    {NODE, NULL, SHOW "echo 'NodeName=x NodeAddr=192.0.2.7'", "192.0.2.7", false},
    {NODE, NULL, SHOW "echo 'NodeName=x NodeAddr=other.invalid'", "cannot resolve 'other.invalid'",
     true},
    {NODE, NULL, SHOW "echo 'slurm_load_node error: Invalid node' >&2; exit 1",
     "no NodeAddr in 'slurm_load_node error: Invalid node'", true},
    {NODE, "c:192.0.2.1:c", "#!/no/such/shell\n", "SLURM_NODE_ALIASES is 'c:192.0.2.1:c'", true},
    {NODE, NULL, NULL,
     "no address of Slurm's node " NODE ": MASTER_ADDR is not set; by name: ", true},
    {NODE, NULL, NULL, "SLURM_NODE_ALIASES is not set; scontrol -o show node: No such file", true},
};

START_TEST(the_address_of_a_node)
{
    char address[256] = "";
    enum lk_status st;

    clearenv();
    if (addresses[_i].scontrol)
        have_scontrol(addresses[_i].scontrol);
    else
        ck_assert_int_eq(setenv("PATH", scratch_dir, 1), 0);
    if (addresses[_i].aliases)
        ck_assert_int_eq(setenv("SLURM_NODE_ALIASES", addresses[_i].aliases, 1), 0);
    st = lk_slurm_address(addresses[_i].node, WAIT_PLENTY_NS, address, sizeof address);
    if (addresses[_i].fails) {
        ck_assert_int_eq(st, LK_EIO);
        ck_assert_msg(strstr(lk_error_text(), addresses[_i].want) != NULL, "%s", lk_error_text());
    } else {
        ck_assert_msg(st == LK_OK, "%s", lk_error_text());
        ck_assert_str_eq(address, addresses[_i].want);
    }
}
END_TEST

/* A controller that does not answer holds nobody up, and no process is left. */
START_TEST(scontrol_that_hangs_is_ended)
{
    char address[256];

    clearenv();
    have_scontrol("#!/bin/sh\nexec /bin/sleep 1000\n");
    ck_assert_int_eq(lk_slurm_address(NODE, 50 * LK_NS_PER_MS, address, sizeof address), LK_EIO);
    ck_assert_msg(strstr(lk_error_text(), "deadline passed") != NULL, "%s", lk_error_text());
}
END_TEST

/* Ranks of a step whose first node has no address of that name meet by the one that Slurm has. */
START_TEST(a_step_meets_at_the_nodes_address)
{
    static const char *const step[] = {"SLURM_PROCID=0",  "SLURM_STEP_ID=0",
                                       "SLURM_NTASKS=1",  "SLURM_LOCALID=0",
                                       "SLURM_JOB_ID=77", ("SLURM_JOB_NODELIST=" NODE)};
    struct lk_rank_env e;
    struct lk_store_server *server = NULL;
    struct lk_store *store = NULL;

    clearenv();
    for (size_t i = 0; i < LK_COUNT(step); i++)
        ck_assert_int_eq(putenv((char *)(uintptr_t)step[i]), 0);
    have_scontrol(SHOW "echo 'NodeName=x NodeAddr=127.0.0.1 Port=1'");
    must(lk_rank_env_read(&e));
    ck_assert_str_eq(e.master_addr, NODE);
    must(lk_rank_env_connect(&e, NULL, WAIT_PLENTY_NS, &server, &store));
    lk_store_close(store);
    lk_store_server_stop(server, 0);
}
END_TEST

SUITE(slurm, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, the_address_of_a_node, 0, (int)LK_COUNT(addresses));
    tcase_add_test(c, scontrol_that_hangs_is_ended);
    tcase_add_test(c, a_step_meets_at_the_nodes_address);
}
