#include "commands/processor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    read_model(model, sizeof model);
    snprintf(buf, size, "%ld x %s", cpus > 0 ? cpus : 1, model);
    return buf;
}
