#include "runtime/device/machine_load.h"

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

enum lk_status lk_machine_load_now(const char *root, struct lk_machine_load *out)
{
    char path[4096];
    unsigned long long t[TIMES] = {0};
    double tick_s = 1 / (double)sysconf(_SC_CLK_TCK);
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
    *out = (struct lk_machine_load){.own_s = own_time_s(RUSAGE_SELF) + own_time_s(RUSAGE_CHILDREN)};
    for (int i = 0; i < TIMES; i++)
        out->available_s += (double)t[i] * tick_s;
    out->busy_s = (double)(t[USER] + t[NICE] + t[SYSTEM] + t[STEAL]) * tick_s;
    return LK_OK;
}

double lk_machine_load_of_others(const struct lk_machine_load *from,
                                 const struct lk_machine_load *to)
{
    double available_s = to->available_s - from->available_s;
    double others_s = (to->busy_s - from->busy_s) - (to->own_s - from->own_s);

    return available_s > 0 ? fmin(fmax(others_s / available_s, 0), 1) : 0;
}
