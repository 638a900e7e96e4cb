/* Find the facts of this host; see the header. */
#include "runtime/device/machine.h"

#include "base/array.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const lk_machine_keys[LK_MACHINE_FACTS] = {LK_MACHINE_LIST(LK_WORD_NAME)};

/* ---- Files of one line ---- */

/* Read the first line of the file of this name; "" when it cannot be read. */
static void read_line(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void read_line(char *out, size_t size, const char *format, ...)
{
    char path[PATH_MAX];
    va_list ap;
    FILE *f;

    va_start(ap, format);
    (void)vsnprintf(path, sizeof path, format, ap);
    va_end(ap);
    out[0] = '\0';
    f = fopen(path, "re");
    if (!f)
        return;
    if (!fgets(out, (int)size, f))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    (void)fclose(f); /* it was only read */
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

enum { ENTRIES = 256, NAME = 64 };

/* List the names in a folder, sorted, and return their number. Those beyond ENTRIES are left out.
 */
static size_t list(const char *path, char names[static ENTRIES][NAME])
{
    DIR *d = opendir(path);
    size_t n = 0;

    if (!d)
        return 0;
    for (const struct dirent *e; n < ENTRIES && (e = readdir(d));)
        if (e->d_name[0] != '.' && strlen(e->d_name) < NAME)
            memcpy(names[n++], e->d_name, strlen(e->d_name) + 1);
    (void)closedir(d);
    qsort(names, n, NAME, by_name);
    return n;
}

/* Append an item: "a; b". The first item without room becomes "; ...", and those after it are
 * dropped. */
static void add(char *text, const char *item)
{
    static const char more[] = "; ...";
    size_t used = strlen(text), end = sizeof more - 1;
    const char *between = used ? "; " : "";

    if (used >= end && !strcmp(text + used - end, more))
        return;
    if (used + strlen(between) + strlen(item) + sizeof more <= LK_MACHINE_TEXT)
        (void)snprintf(text + used, LK_MACHINE_TEXT - used, "%s%s", between, item);
    else
        (void)snprintf(text + used, LK_MACHINE_TEXT - used, "%s", more);
}

/* ---- Processors ---- */

static const struct {
    const char *line; /* a line of /proc/cpuinfo begins with this, */
    const char *has;  /* and contains this */
    enum lk_cpu cpu;
} makers[] = {
    {"vendor_id", "GenuineIntel", LK_CPU_INTEL},
    {"vendor_id", "AuthenticAMD", LK_CPU_AMD},
    {"CPU implementer", ":", LK_CPU_ARM}, /* arch/arm64 alone has it */
};

static bool begins(const char *line, const char *word)
{
    return !strncmp(line, word, strlen(word));
}

/* Find the model of the first processor; all are alike. "CPU" when the kernel has no name for it.
 */
static void find_processor(const char *root, struct lk_machine *m)
{
    char path[PATH_MAX], line[512], model[200] = "CPU";
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && line[0] != '\n') {
        const char *colon = strchr(line, ':');

        line[strcspn(line, "\n")] = '\0';
        if (begins(line, "model name") && colon && colon[1])
            (void)snprintf(model, sizeof model, "%s", colon + 2);
        for (size_t i = 0; i < LK_COUNT(makers); i++)
            if (begins(line, makers[i].line) && strstr(line, makers[i].has))
                m->cpu = makers[i].cpu;
    }
    if (f)
        (void)fclose(f);
    (void)snprintf(m->text[LK_MACHINE_PROCESSOR], LK_MACHINE_TEXT, "%ld x %s", cpus > 0 ? cpus : 1,
                   model);
}

/* Count the items of a list as the kernel writes it, "0-3,8". */
static long count_list(const char *text)
{
    long n = 0;

    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;

        if (end == text)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        n += last >= first ? last - first + 1 : 0;
        text = *end == ',' ? end + 1 : "";
    }
    return n;
}

static void find_numa_nodes(const char *root, char *out)
{
    char line[256];
    long n;

    read_line(line, sizeof line, "%s/sys/devices/system/node/has_cpu", root);
    n = count_list(line);
    if (n > 0)
        (void)snprintf(out, LK_MACHINE_TEXT, "%ld", n);
}

/* ---- RDMA ---- */

/* Return true for Amazon's adapter: its driver's name tells, not its kind of link. */
static bool is_efa(const char *device)
{
    char link[PATH_MAX + 16], target[PATH_MAX];
    const char *name;
    ssize_t n;

    (void)snprintf(link, sizeof link, "%s/device/driver", device);
    n = readlink(link, target, sizeof target - 1);
    if (n < 0)
        return false;
    target[n] = '\0';
    name = strrchr(target, '/');
    return !strcmp(name ? name + 1 : target, "efa");
}

static enum lk_network network_of(const char *device, const char *layer)
{
    if (is_efa(device))
        return LK_NETWORK_EFA;
    return !strcmp(layer, "InfiniBand") ? LK_NETWORK_INFINIBAND
           : !strcmp(layer, "Ethernet") ? LK_NETWORK_ROCE
                                        : LK_NETWORK_UNKNOWN;
}

static void add_port(const char *device, const char *name, const char *port, struct lk_machine *m,
                     double *fastest)
{
    char layer[32], rate[64], state[32], item[256];
    enum lk_network network;
    bool up;
    double Gbps;

    read_line(layer, sizeof layer, "%s/ports/%s/link_layer", device, port);
    read_line(rate, sizeof rate, "%s/ports/%s/rate", device, port);
    read_line(state, sizeof state, "%s/ports/%s/state", device, port); /* "4: ACTIVE" */
    up = strstr(state, ": ACTIVE") != NULL;
    network = network_of(device, layer);
    (void)snprintf(item, sizeof item, "%s/%s %s %s%s%s", name, port,
                   network == LK_NETWORK_EFA ? "EFA" : layer, rate, up ? "" : " ",
                   up                    ? ""
                   : strstr(state, ": ") ? strstr(state, ": ") + 2
                                         : "in an unknown state");
    add(m->text[LK_MACHINE_RDMA], item);
    Gbps = strtod(rate, NULL);
    if (!up || Gbps < *fastest)
        return;
    m->network = Gbps > *fastest || network == m->network ? network : LK_NETWORK_UNKNOWN;
    *fastest = Gbps;
}

static void find_rdma(const char *root, struct lk_machine *m)
{
    char devices[ENTRIES][NAME], ports[ENTRIES][NAME], path[PATH_MAX], folder[PATH_MAX + 8];
    double fastest = 0;
    size_t n;

    (void)snprintf(path, sizeof path, "%s/sys/class/infiniband", root);
    n = list(path, devices);
    for (size_t i = 0; i < n; i++) {
        size_t n_ports;

        (void)snprintf(path, sizeof path, "%s/sys/class/infiniband/%s", root, devices[i]);
        (void)snprintf(folder, sizeof folder, "%s/ports", path);
        n_ports = list(folder, ports);
        for (size_t k = 0; k < n_ports; k++)
            add_port(path, devices[i], ports[k], m, &fastest);
    }
}

/* ---- Interfaces ---- */

/* Find the interfaces that are up. Their speed is in Mbit/s; reading it fails, or gives -1, when
 * the driver does not know it. */
static void find_interfaces(const char *root, char *out)
{
    char names[ENTRIES][NAME], path[PATH_MAX], text[32], item[NAME + 64];
    size_t n;

    (void)snprintf(path, sizeof path, "%s/sys/class/net", root);
    n = list(path, names);
    for (size_t i = 0; i < n; i++) {
        double Mbps;

        (void)snprintf(path, sizeof path, "%s/sys/class/net/%s/device", root, names[i]);
        read_line(text, sizeof text, "%s/sys/class/net/%s/operstate", root, names[i]);
        if (access(path, F_OK) || strcmp(text, "up") != 0)
            continue;
        read_line(text, sizeof text, "%s/sys/class/net/%s/speed", root, names[i]);
        Mbps = strtod(text, NULL);
        if (Mbps > 0)
            (void)snprintf(item, sizeof item, "%s %g Gbit/s", names[i], Mbps / 1000);
        else
            (void)snprintf(item, sizeof item, "%s", names[i]);
        add(out, item);
    }
}

void lk_machine_find(const char *root, struct lk_machine *out)
{
    *out = (struct lk_machine){.cpu = LK_CPU_UNKNOWN};
    find_processor(root, out);
    find_numa_nodes(root, out->text[LK_MACHINE_NUMA_NODES]);
    find_rdma(root, out);
    find_interfaces(root, out->text[LK_MACHINE_INTERFACES]);
}
