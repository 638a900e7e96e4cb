#include "runtime/device/machine_load.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Times of the first line of /proc/stat, in ticks (proc_stat(5)). */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, TIMES };

static double own_time_s(int who)
{
    struct rusage u;

    if (getrusage(who, &u))
        return 0; /* cannot fail: `who` is one of the two */
    return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec +
           (double)u.ru_stime.tv_sec + 1e-6 * (double)u.ru_stime.tv_usec;
}

/* Return how long this process's threads have waited for a processor, the second number of their
 * schedstat (the kernel's sched-stats.rst); NaN: no thread's file says it. */
static double waited_s(const char *root)
{
    char path[4096];
    struct dirent *entry;
    double sum_ns = NAN;
    DIR *tasks;

    snprintf(path, sizeof path, "%s/proc/self/task", root);
    tasks = opendir(path);
    while (tasks && (entry = readdir(tasks))) {
        unsigned long long ran_ns, waited_ns;
        FILE *f;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/proc/self/task/%s/schedstat", root, entry->d_name);
        f = fopen(path, "re");
        if (!f)
            continue; /* it has ended, or the kernel has no such file */
        if (fscanf(f, "%llu %llu", &ran_ns, &waited_ns) == 2)
            sum_ns = (isnan(sum_ns) ? 0 : sum_ns) + (double)waited_ns;
        fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return sum_ns / (double)LK_NS_PER_S;
}

enum lk_status lk_machine_load_now(const char *root, struct lk_host_load *out)
{
    char path[4096];
    unsigned long long t[TIMES] = {0};
    double tick_s = 1 / (double)sysconf(_SC_CLK_TCK);
    struct lk_host_load l = {{0}};
    FILE *f;
    int n;

    snprintf(path, sizeof path, "%s/proc/stat", root);
    f = fopen(path, "re");
    if (!f)
        return lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
    n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[USER], &t[NICE], &t[SYSTEM],
               &t[IDLE], &t[IOWAIT], &t[IRQ], &t[SOFTIRQ], &t[STEAL]);
    fclose(f);
    if (n < IDLE + 1)
        return lk_fail(LK_EIO, "%s: its first line has no times of all processors", path);
    for (int i = 0; i < TIMES; i++)
        l.s[LK_HOST_AVAILABLE] += (double)t[i] * tick_s;
    l.s[LK_HOST_BUSY] = (double)(t[USER] + t[NICE] + t[SYSTEM]) * tick_s;
    l.s[LK_HOST_STOLEN] = (double)t[STEAL] * tick_s;
    l.s[LK_HOST_OWN] = own_time_s(RUSAGE_SELF) + own_time_s(RUSAGE_CHILDREN);
    l.s[LK_HOST_WAITED] = waited_s(root);
    *out = l;
    return LK_OK;
}

struct lk_host_load lk_machine_load_between(const struct lk_host_load *from,
                                            const struct lk_host_load *to)
{
    struct lk_host_load l;

    for (int i = 0; i < LK_HOST_TIMES; i++) {
        l.s[i] = to->s[i] - from->s[i];
        if (l.s[i] < 0) /* threads that waited have ended */
            l.s[i] = 0;
    }
    return l;
}

void lk_machine_boot(const char *root, char out[static LK_MACHINE_BOOT_TEXT])
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", root);
    f = fopen(path, "re");
    if (!f || fscanf(f, "%63s", out) != 1)
        out[0] = '\0';
    if (f)
        fclose(f);
    if (!out[0] && gethostname(out, LK_MACHINE_BOOT_TEXT - 1) != 0)
        out[0] = '\0';
    out[LK_MACHINE_BOOT_TEXT - 1] = '\0';
}
