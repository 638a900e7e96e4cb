/* A cluster file inherits from the file or preset that its "base" names. */
#include "base/array.h"
#include "facts/cluster.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "{\"schema\": \"lockstep-cluster\", \"version\": 1,\n"

static void put(const char *name, const char *text)
{
    free(scratch_put(name, text, strlen(text)));
}

static enum lk_status get(const char *name, struct lk_cluster *out)
{
    char *path = scratch_path(scratch_dir, name);
    enum lk_status st = lk_cluster_read(path, out);

    free(path);
    return st;
}

START_TEST(members_are_inherited_or_replaced)
{
    struct lk_cluster c, base;
    char *path = scratch_path(scratch_dir, "written.json");

    put("mine.json", HEAD "\"base\": \"dgx-h100\", \"name\": \"mine\",\n"
                          "\"inter\": {\"bandwidth\": {\"value\": 10, \"unit\": \"GB/s\", "
                          "\"source\": \"ours\"}}}");
    put("again.json", HEAD "\"base\": \"mine.json\", \"gpus_per_node\": 4}");
    ck_assert_msg(get("again.json", &c) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_cluster_read("clusters/dgx-h100.json", &base), LK_OK);
    ck_assert_str_eq(c.name, "mine");
    ck_assert_int_eq(c.gpus_per_node, 4);
    ck_assert(c.preset);
    ck_assert_str_eq(c.gpu, base.gpu);
    /* The quantity is replaced whole, its neighbour stays. */
    ck_assert_double_eq_tol(c.inter.bandwidth_Bps.value, 10e9, 1);
    ck_assert_str_eq(c.inter.bandwidth_Bps.source, "ours");
    ck_assert(!(c.inter.bandwidth_Bps.lo < 10e9));
    ck_assert_double_eq(c.inter.latency_s.value, base.inter.latency_s.value);
    ck_assert_int_eq(c.topology.nics_per_node, base.topology.nics_per_node);

    /* The written file is whole. */
    ck_assert_int_eq(lk_cluster_write(path, &c), LK_OK);
    lk_cluster_fini(&c);
    ck_assert_msg(get("written.json", &c) == LK_OK, "%s", lk_error_text());
    ck_assert_ptr_null(c.base);
    ck_assert_double_eq_tol(c.inter.bandwidth_Bps.value, 10e9, 1);
    lk_cluster_fini(&c);
    lk_cluster_fini(&base);
    free(path);
}
END_TEST

static const struct {
    const char *text, *expect;
} bad[] = {
    {HEAD "\n\"base\": \"dgx-h10\"}",
     "bad.json:3: base: no cluster file and no preset 'dgx-h10'; did you mean 'dgx-h100'?"},
    {HEAD "\"base\": \"nowhere.json\"}", "nowhere.json"},
    {HEAD "\"base\": \"bad.json\"}", "more than 8 files, each the base of another"},
    {HEAD "\"base\": 5}", "bad.json:2: base: expected a string, got a number"},
    {HEAD "\"base\": \"wrong.json\"}", "wrong.json:2: gpus_per_node: "},
    {HEAD "\"base\": \"job.json\"}", "job.json:1: schema: "},
};

START_TEST(bad_bases)
{
    struct lk_cluster c;

    put("bad.json", bad[_i].text);
    put("wrong.json", HEAD "\"gpus_per_node\": -1, \"name\": \"w\", \"preset\": false, "
                           "\"nodes\": 0, \"gpu\": \"g\"}");
    put("job.json", "{\"schema\": \"lockstep-job\", \"version\": 1}");
    ck_assert_int_ne(get("bad.json", &c), LK_OK);
    ck_assert_msg(strstr(lk_error_text(), bad[_i].expect) != NULL, "%s", lk_error_text());
}
END_TEST

SUITE(cluster_base, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, members_are_inherited_or_replaced);
    tcase_add_loop_test(c, bad_bases, 0, LK_COUNT(bad));
}
