#include "commands/processor.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* The text after "model name : " of /proc/cpuinfo; "CPU" where the kernel gives none. */
static void read_model(char *buf, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(buf, size, "CPU");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", strlen("model name")) != 0 || !colon || !colon[1])
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(buf, size, "%s", colon + 2);
        break;
    }
    if (fclose(f))
        return; /* it was only read */
}

const char *processor_name(char *buf, size_t size)
{
    char model[200];
    cpu_set_t set;
    int cpus = 1;

    CPU_ZERO(&set);
    if (!sched_getaffinity(0, sizeof set, &set))
        cpus = CPU_COUNT(&set);
    read_model(model, sizeof model);
    snprintf(buf, size, "%d x %s", cpus, model);
    return buf;
}
