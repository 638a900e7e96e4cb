/* Limits of a process; see the header. */
#include "base/limits.h"

#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PIECES_MAX = 8 };

enum lk_status lk_limits_memory(size_t n, size_t piece, const char *what)
{
    void *pieces[PIECES_MAX];
    char size[32];
    size_t got = 0, all = n < PIECES_MAX ? n : PIECES_MAX;
    int reason = 0;

    while (got < all && !reason) {
        pieces[got] = mmap(NULL, piece, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pieces[got] == MAP_FAILED)
            reason = errno;
        else
            got++;
    }
    for (size_t i = 0; i < got; i++)
        (void)munmap(pieces[i], piece);
    if (!reason)
        return LK_OK;
    return lk_fail(
        LK_ENOMEM, "%s needs %s of address space, which the system refuses: %s (ulimit -v)", what,
        lk_units_format(LK_DIM_BYTES, (double)(all * piece), size, sizeof size), strerror(reason));
}

/* Count free descriptors below a limit, up to n. */
static size_t count_free(rlim_t limit, size_t n)
{
    size_t n_free = 0;

    for (rlim_t fd = 0; fd < limit && fd <= INT_MAX && n_free < n; fd++)
        n_free += fcntl((int)fd, F_GETFD) < 0 && errno == EBADF;
    return n_free;
}

enum lk_status lk_limits_files(size_t n, const char *what)
{
    struct rlimit files;
    size_t n_free;

    if (getrlimit(RLIMIT_NOFILE, &files))
        return lk_fail(LK_EIO, "cannot read the limit of open files: %s", strerror(errno));
    n_free = count_free(files.rlim_cur, n);
    if (n_free == n)
        return LK_OK;
    if (files.rlim_max - files.rlim_cur >= n - n_free) {
        files.rlim_cur += n - n_free;
        if (!setrlimit(RLIMIT_NOFILE, &files))
            return LK_OK;
    }
    return lk_fail(LK_EIO, "%s needs %zu more open files, and the limit is %llu (ulimit -n)", what,
                   n, (unsigned long long)files.rlim_max);
}

static void nothing(int signal)
{
    (void)signal;
}

void lk_limits_report_size(void)
{
    struct sigaction now, reported = {.sa_handler = nothing, .sa_flags = SA_RESTART};

    if (!sigaction(SIGXFSZ, NULL, &now) && now.sa_handler == SIG_DFL)
        (void)sigaction(SIGXFSZ, &reported, NULL);
}
