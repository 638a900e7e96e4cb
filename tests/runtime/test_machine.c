/* Facts about a host, from trees of files as Linux has them. */
#include "runtime/device/machine.h"

#include "base/file.h"
#include "runtime/device/machine_load.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *root;

static void setup(void)
{
    root = scratch_create();
}

static void teardown(void)
{
    scratch_remove(root);
}

/* Make a file, and the folders that contain it. */
static void put(const char *name, const char *text)
{
    char *path = scratch_path(root, name), *slash = strrchr(path, '/');
    FILE *f;

    *slash = '\0';
    ck_assert_int_eq(lk_mkdirs(path), LK_OK);
    *slash = '/';
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

static void put_port(const char *port, const char *layer, const char *rate, const char *state)
{
    char name[128];

    snprintf(name, sizeof name, "sys/class/infiniband/%s/link_layer", port);
    put(name, layer);
    snprintf(name, sizeof name, "sys/class/infiniband/%s/rate", port);
    put(name, rate);
    snprintf(name, sizeof name, "sys/class/infiniband/%s/state", port);
    put(name, state);
}

static const char xeon[] = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
                           "model name\t: Intel(R) Xeon(R) Platinum 8480C\nflags\t\t: fpu\n\n"
                           "processor\t: 1\nvendor_id\t: AuthenticAMD\nmodel name\t: another\n";
static const char epyc[] = "processor\t: 0\nvendor_id\t: AuthenticAMD\n"
                           "model name\t: AMD EPYC 9654 96-Core Processor\n";
static const char grace[] = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\n";

START_TEST(nothing_is_found)
{
    struct lk_machine m;

    lk_machine_find(root, &m);
    ck_assert_int_eq(m.cpu, LK_CPU_UNKNOWN);
    ck_assert_int_eq(m.network, LK_NETWORK_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(m.text[LK_MACHINE_PROCESSOR], " x CPU"));
    ck_assert_str_eq(m.text[LK_MACHINE_NUMA_NODES], "");
    ck_assert_str_eq(m.text[LK_MACHINE_RDMA], "");
    ck_assert_str_eq(m.text[LK_MACHINE_INTERFACES], "");
}
END_TEST

static const struct {
    const char *cpuinfo, *name;
    enum lk_cpu cpu;
} processors[] = {
    {xeon, " x Intel(R) Xeon(R) Platinum 8480C", LK_CPU_INTEL},
    {epyc, " x AMD EPYC 9654 96-Core Processor", LK_CPU_AMD},
    {grace, " x CPU", LK_CPU_ARM},
    {"odd", " x CPU", LK_CPU_UNKNOWN},
};

START_TEST(the_processor)
{
    struct lk_machine m;

    put("proc/cpuinfo", processors[_i].cpuinfo);
    lk_machine_find(root, &m);
    ck_assert_int_eq(m.cpu, processors[_i].cpu);
    ck_assert_msg(strstr(m.text[LK_MACHINE_PROCESSOR], processors[_i].name) != NULL, "%s",
                  m.text[LK_MACHINE_PROCESSOR]);
}
END_TEST

static const struct {
    const char *list, *text;
} nodes[] = {
    {"0\n", "1"}, {"0-1\n", "2"}, {"0-1,4,8-9\n", "5"}, {"\n", ""}, {"none\n", ""}, {"3-1\n", ""},
};

START_TEST(numa_nodes)
{
    struct lk_machine m;

    put("sys/devices/system/node/has_cpu", nodes[_i].list);
    lk_machine_find(root, &m);
    ck_assert_str_eq(m.text[LK_MACHINE_NUMA_NODES], nodes[_i].text);
}
END_TEST

/* Ports of two devices, the resulting facts, and the kind of network. */
static const struct {
    const char *layer[2], *rate[2], *state[2], *text;
    enum lk_network network;
} ports[] = {
    {{"InfiniBand\n", "InfiniBand\n"},
     {"400 Gb/sec (4X NDR)\n", "400 Gb/sec (4X NDR)\n"},
     {"4: ACTIVE\n", "4: ACTIVE\n"},
     "mlx5_0/1 InfiniBand 400 Gb/sec (4X NDR); mlx5_1/1 InfiniBand 400 Gb/sec (4X NDR)",
     LK_NETWORK_INFINIBAND},
    {{"InfiniBand\n", "Ethernet\n"},
     {"400 Gb/sec (4X NDR)\n", "100 Gb/sec (4X EDR)\n"},
     {"4: ACTIVE\n", "4: ACTIVE\n"},
     "mlx5_0/1 InfiniBand 400 Gb/sec (4X NDR); mlx5_1/1 Ethernet 100 Gb/sec (4X EDR)",
     LK_NETWORK_INFINIBAND},
    {{"InfiniBand\n", "Ethernet\n"},
     {"100 Gb/sec (4X EDR)\n", "200 Gb/sec (4X HDR)\n"},
     {"4: ACTIVE\n", "4: ACTIVE\n"},
     "mlx5_0/1 InfiniBand 100 Gb/sec (4X EDR); mlx5_1/1 Ethernet 200 Gb/sec (4X HDR)",
     LK_NETWORK_ROCE},
    {{"InfiniBand\n", "Ethernet\n"},
     {"200 Gb/sec (4X HDR)\n", "200 Gb/sec (4X HDR)\n"},
     {"4: ACTIVE\n", "4: ACTIVE\n"},
     "mlx5_0/1 InfiniBand 200 Gb/sec (4X HDR); mlx5_1/1 Ethernet 200 Gb/sec (4X HDR)",
     LK_NETWORK_UNKNOWN},
    {{"InfiniBand\n", "Ethernet\n"},
     {"400 Gb/sec (4X NDR)\n", "100 Gb/sec (4X EDR)\n"},
     {"1: DOWN\n", "4: ACTIVE\n"},
     "mlx5_0/1 InfiniBand 400 Gb/sec (4X NDR) DOWN; mlx5_1/1 Ethernet 100 Gb/sec (4X EDR)",
     LK_NETWORK_ROCE},
    {{"InfiniBand\n", "InfiniBand\n"},
     {"10 Gb/sec (4X)\n", ""},
     {"2: INIT\n", ""},
     "mlx5_0/1 InfiniBand 10 Gb/sec (4X) INIT; mlx5_1/1 InfiniBand  in an unknown state",
     LK_NETWORK_UNKNOWN},
};

START_TEST(rdma_devices)
{
    struct lk_machine m;

    for (int i = 1; i >= 0; i--)
        put_port(i ? "mlx5_1/ports/1" : "mlx5_0/ports/1", ports[_i].layer[i], ports[_i].rate[i],
                 ports[_i].state[i]);
    lk_machine_find(root, &m);
    ck_assert_str_eq(m.text[LK_MACHINE_RDMA], ports[_i].text);
    ck_assert_int_eq(m.network, ports[_i].network);
}
END_TEST

/* Amazon's adapters are known by their driver. */
START_TEST(elastic_fabric_adapters)
{
    char *link = scratch_path(root, "sys/class/infiniband/rdmap0/device/driver");
    struct lk_machine m;

    put_port("rdmap0/ports/1", "Unspecified\n", "100 Gb/sec (4X EDR)\n", "4: ACTIVE\n");
    put("sys/class/infiniband/rdmap0/device/vendor", "0x1d0f\n");
    ck_assert_int_eq(symlink("../../../bus/pci/drivers/efa", link), 0);
    lk_machine_find(root, &m);
    ck_assert_str_eq(m.text[LK_MACHINE_RDMA], "rdmap0/1 EFA 100 Gb/sec (4X EDR)");
    ck_assert_int_eq(m.network, LK_NETWORK_EFA);
    free(link);
}
END_TEST

START_TEST(interfaces)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        {"eth0/operstate", "up\n"},   {"eth0/speed", "100000\n"}, {"eth0/device/x", ""},
        {"eth1/operstate", "up\n"},   {"eth1/speed", "-1\n"},     {"eth1/device/x", ""},
        {"eth2/operstate", "down\n"}, {"eth2/device/x", ""},      {"eth3/operstate", "up\n"},
        {"eth3/speed", "2500\n"},     {"eth3/device/x", ""},      {"docker0/operstate", "up\n"},
        {"docker0/speed", "10000\n"},
    };
    struct lk_machine m;
    char name[128];

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "sys/class/net/%s", files[i].name);
        put(name, files[i].text);
    }
    lk_machine_find(root, &m);
    ck_assert_str_eq(m.text[LK_MACHINE_INTERFACES], "eth0 100 Gbit/s; eth1; eth3 2.5 Gbit/s");
}
END_TEST

/* With more devices than there is room for a note is added, and all count for the network. */
START_TEST(many_devices)
{
    struct lk_machine m;
    char name[64];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "mlx5_%02d/ports/1", i);
        put_port(name, i == 99 ? "Ethernet" : "InfiniBand",
                 i == 99 ? "400 Gb/sec (4X NDR)" : "200 Gb/sec (4X HDR)", "4: ACTIVE");
    }
    lk_machine_find(root, &m);
    ck_assert_int_eq(m.network, LK_NETWORK_ROCE);
    ck_assert_uint_lt(strlen(m.text[LK_MACHINE_RDMA]), LK_MACHINE_TEXT);
    ck_assert_str_eq(m.text[LK_MACHINE_RDMA] + strlen(m.text[LK_MACHINE_RDMA]) - 6, "); ...");
}
END_TEST

static void put_interface(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "sys/class/net/%s/operstate", name);
    put(path, "up\n");
    snprintf(path, sizeof path, "sys/class/net/%s/device/vendor", name);
    put(path, "0x15b3\n");
}

/* After an entry that did not fit, a shorter one is left out too. */
START_TEST(nothing_comes_behind_what_was_left_out)
{
    struct lk_machine m;
    char name[64];

    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "a_long_name_of_an_interface_that_is_up_%02d", i);
        put_interface(name);
    }
    put_interface("b");
    lk_machine_find(root, &m);
    ck_assert_uint_lt(strlen(m.text[LK_MACHINE_INTERFACES]), LK_MACHINE_TEXT);
    ck_assert_str_eq(m.text[LK_MACHINE_INTERFACES] + strlen(m.text[LK_MACHINE_INTERFACES]) - 7,
                     "46; ...");
}
END_TEST

/* 1,000 ticks of two processors: 300 are in programs, 100 taken by other guests, 50 in
 * interrupts; of this process's two threads each waited a second; a process without their files,
 * and one whose thread has ended, wait nothing. */
START_TEST(the_load_of_a_host)
{
    double tick_s = 1 / (double)sysconf(_SC_CLK_TCK);
    struct lk_host_load from, to, l;

    put("proc/stat", "cpu  1000 0 500 8000 0 10 20 30 0 0\ncpu0 1 2 3 4\n");
    ck_assert_int_eq(lk_machine_load_now(root, &from), LK_OK);
    ck_assert_double_nan(from.s[LK_HOST_WAITED]);
    put("proc/self/task/7/schedstat", "5000000000 2000000000 40\n");
    put("proc/self/task/8/schedstat", "0 0 0\n");
    ck_assert_int_eq(lk_machine_load_now(root, &from), LK_OK);
    put("proc/self/task/7/schedstat", "6000000000 3000000000 50\n");
    put("proc/self/task/8/schedstat", "1000000000 1000000000 1\n");
    put("proc/stat", "cpu  1200 40 560 8550 0 20 60 130 0 0\ncpu0 1 2 3 4\n");
    ck_assert_int_eq(lk_machine_load_now(root, &to), LK_OK);
    l = lk_machine_load_between(&from, &to);
    ck_assert_double_eq_tol(l.s[LK_HOST_AVAILABLE], 1000 * tick_s, 1e-9);
    ck_assert_double_eq_tol(l.s[LK_HOST_BUSY], 300 * tick_s, 1e-9);
    ck_assert_double_eq_tol(l.s[LK_HOST_STOLEN], 100 * tick_s, 1e-9);
    ck_assert_double_eq_tol(l.s[LK_HOST_WAITED], 2, 1e-9);
    ck_assert_double_ge(l.s[LK_HOST_OWN], 0);
    put("proc/self/task/7/schedstat", "0 0 0\n");
    ck_assert_int_eq(lk_machine_load_now(root, &to), LK_OK);
    ck_assert_double_eq(lk_machine_load_between(&from, &to).s[LK_HOST_WAITED], 0);
    put("proc/stat", "intr 5\n");
    ck_assert_int_eq(lk_machine_load_now(root, &to), LK_EIO);
}
END_TEST

/* Containers of a machine share its boot; a system that does not tell it has a name. */
START_TEST(the_boot_of_a_host)
{
    char a[LK_MACHINE_BOOT_TEXT], name[LK_MACHINE_BOOT_TEXT] = "";

    lk_machine_boot(root, a);
    ck_assert_int_eq(gethostname(name, sizeof name - 1), 0);
    ck_assert_str_eq(a, name);
    put("proc/sys/kernel/random/boot_id", "72bc5042-fe6e-46a8-8b46-cfbc2dd4ab93\n");
    lk_machine_boot(root, a);
    ck_assert_str_eq(a, "72bc5042-fe6e-46a8-8b46-cfbc2dd4ab93");
}
END_TEST

/* Query this machine, whatever it is. */
START_TEST(this_machine)
{
    struct lk_machine m;

    lk_machine_find("", &m);
    ck_assert_str_ne(m.text[LK_MACHINE_PROCESSOR], "");
    for (int i = 0; i < LK_MACHINE_FACTS; i++)
        printf("%s: %s\n", lk_machine_keys[i], m.text[i]);
}
END_TEST

SUITE(machine, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nothing_is_found);
    tcase_add_loop_test(tc, the_processor, 0, (int)(sizeof processors / sizeof *processors));
    tcase_add_loop_test(tc, numa_nodes, 0, (int)(sizeof nodes / sizeof *nodes));
    tcase_add_loop_test(tc, rdma_devices, 0, (int)(sizeof ports / sizeof *ports));
    tcase_add_test(tc, elastic_fabric_adapters);
    tcase_add_test(tc, interfaces);
    tcase_add_test(tc, many_devices);
    tcase_add_test(tc, nothing_comes_behind_what_was_left_out);
    tcase_add_test(tc, the_load_of_a_host);
    tcase_add_test(tc, the_boot_of_a_host);
    tcase_add_test(tc, this_machine);
}
