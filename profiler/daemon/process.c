/* The rank in a process's environment. */
#include "profiler/daemon/process.h"

#include "base/array.h"
#include "base/units.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ENVIRONMENT_MAX = 1 << 20, /* bytes read of an environment */
    RANKS_MAX = 1 << 20
};

/* Launchers' names for a process's rank and the number of ranks, in the order in which they count:
 * torchrun's workers under Slurm have both. */
static const struct {
    const char *rank, *world_size;
} launchers[] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

/* Return the number that a variable has, or -1. */
static int value_of(const char *environment, size_t size, const char *name)
{
    const char *end = environment + size;
    size_t n = strlen(name);

    for (const char *p = environment; p < end;) {
        size_t length = strnlen(p, (size_t)(end - p));
        int64_t v;

        if (p + length == end) /* cut off */
            return -1;
        if (length > n && p[n] == '=' && !memcmp(p, name, n))
            return lk_parse_int64(p + n + 1, 0, RANKS_MAX, &v) == LK_OK ? (int)v : -1;
        p += length + 1;
    }
    return -1;
}

struct lk_process_rank lk_process_rank_in(const char *environment, size_t size)
{
    struct lk_process_rank r = {-1, -1};

    for (size_t i = 0; i < LK_COUNT(launchers); i++) {
        r.rank = value_of(environment, size, launchers[i].rank);
        r.world_size = value_of(environment, size, launchers[i].world_size);
        if (r.rank >= 0 && r.world_size > r.rank)
            return r;
    }
    return (struct lk_process_rank){-1, -1};
}

struct lk_process_rank lk_process_rank_of(pid_t pid)
{
    struct lk_process_rank r = {-1, -1};
    char path[64], *text = NULL;
    size_t n = 0;
    ssize_t got = 0;
    int fd;

    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && lk_alloc(&text, ENVIRONMENT_MAX, 1) == LK_OK) {
        while (n < ENVIRONMENT_MAX && (got = read(fd, text + n, ENVIRONMENT_MAX - n)) > 0)
            n += (size_t)got;
        r = lk_process_rank_in(text, n);
    }
    free(text);
    if (fd >= 0)
        close(fd);
    return r;
}
