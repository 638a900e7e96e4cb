/* Lists of hosts, and the place of each rank on them. */
#include "runtime/rendezvous/hosts.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    size_t n; /* 0: it is refused, with `last` in the text */
    const char *last;
    int slots;
} lists[] = {
    {"a", 1, "a", 1},
    {"a:2,user@b-1.example.org", 2, "user@b-1.example.org", 3},
    {"[2001:db8::1]:4,192.0.2.1:12,[fe80::1%eth0]", 3, "fe80::1%eth0", 17},
    {"", 0, "'' is not the name of a host", 0},
    {"a,", 0, "'' is not the name of a host", 0},
    {"-oProxyCommand=x", 0, "is not the name of a host", 0},
    {"a;b", 0, "'a;b' is not the name of a host", 0},
    {"a b", 0, "is not the name of a host", 0},
    {"a:0", 0, "the slots of a", 0},
    {"a:x", 0, "the slots of a", 0},
    {"[::1", 0, "has no ]", 0},
    {"[::1]x", 0, "is not HOST:SLOTS", 0},
    {"a:2,b,a", 0, "a is there twice", 0},
};

START_TEST(lists_of_hosts)
{
    struct lk_hosts h = {0};
    enum lk_status st = lk_hosts_parse(lists[_i].text, &h);

    ck_assert_int_eq(st, lists[_i].n ? LK_OK : LK_EUSAGE);
    if (st != LK_OK) {
        ck_assert_msg(strstr(lk_error_text(), lists[_i].last) != NULL, "%s", lk_error_text());
        return;
    }
    ck_assert_uint_eq(h.n, lists[_i].n);
    ck_assert_int_eq(h.slots, lists[_i].slots);
    ck_assert_str_eq(h.v[h.n - 1].name, lists[_i].last);
    lk_hosts_fini(&h);
}
END_TEST

START_TEST(ranks_fill_hosts_in_order)
{
    static const struct {
        const char *host;
        int local_rank, local_size;
    } want[] = {{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 1}, {"c", 0, 2}, {"c", 1, 2}};
    struct lk_rank_place p;
    struct lk_hosts h;

    must(lk_hosts_parse("a:2,b,c:4,d:8", &h));
    for (int r = 0; r < (int)LK_COUNT(want); r++) {
        p = lk_hosts_place(&h, r, LK_COUNT(want));
        ck_assert_str_eq(p.host, want[r].host);
        ck_assert_int_eq(p.local_rank, want[r].local_rank);
        ck_assert_int_eq(p.local_size, want[r].local_size);
        ck_assert_int_eq(p.hosts, 3);
    }
    lk_hosts_fini(&h);
    p = lk_hosts_place(NULL, 3, 5);
    ck_assert_ptr_null(p.host);
    ck_assert_int_eq(p.local_rank, 3);
    ck_assert_int_eq(p.local_size, 5);
    ck_assert_int_eq(p.hosts, 1);
}
END_TEST

START_TEST(the_launchers_address)
{
    char address[64];
    struct lk_hosts h;

    unsetenv("MASTER_ADDR");
    must(lk_hosts_parse("user@127.0.0.1", &h));
    must(lk_hosts_address(&h, address, sizeof address));
    ck_assert_str_eq(address, "127.0.0.1");
    lk_hosts_fini(&h);
    must(lk_hosts_parse("no-such-host.invalid", &h));
    ck_assert_int_eq(lk_hosts_address(&h, address, sizeof address), LK_EUSAGE);
    ck_assert_msg(strstr(lk_error_text(), "no-such-host.invalid") &&
                      strstr(lk_error_text(), "set MASTER_ADDR"),
                  "%s", lk_error_text());
    setenv("MASTER_ADDR", "192.0.2.1", 1);
    must(lk_hosts_address(&h, address, sizeof address));
    ck_assert_str_eq(address, "192.0.2.1");
    lk_hosts_fini(&h);
}
END_TEST

SUITE(hosts, c)
{
    tcase_add_loop_test(c, lists_of_hosts, 0, (int)LK_COUNT(lists));
    tcase_add_test(c, ranks_fill_hosts_in_order);
    tcase_add_test(c, the_launchers_address);
}
