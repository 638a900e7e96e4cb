/* Claim GPUs by flock, which the kernel releases when the process ends, however it ends. */
#include "runtime/device/gpu_claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Return the folder of the lock files. XDG_RUNTIME_DIR may be missing or not writable;
 * LOCKSTEP_GPU_LOCKS is taken as given. */
static const char *folder(void)
{
    const char *named = getenv("LOCKSTEP_GPU_LOCKS"), *session = getenv("XDG_RUNTIME_DIR");

    if (named && *named)
        return named;
    return session && *session && access(session, W_OK | X_OK) == 0 ? session : "/tmp";
}

/* Fail with the rank and process of the lock's holder, which it wrote into the file. */
static enum lk_status refuse(int fd, const char *gpu, int local_rank, bool shared)
{
    char holder[64] = "";
    ssize_t n = pread(fd, holder, sizeof holder - 1, 0);

    holder[n > 0 ? n : 0] = '\0';
    return lk_fail(
        LK_EUSAGE,
        "local ranks %s and %d would be on one GPU (%s)%s: each rank needs its own, or all "
        "must be told to share it",
        holder[0] ? holder : "(unknown)", local_rank, gpu,
        shared ? ", which the first does not share" : "");
}

static enum lk_status sign(int fd, int local_rank)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%d (process %ld)", local_rank, (long)getpid());

    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
        return lk_fail(LK_EIO, "cannot write who uses a GPU: %s", strerror(errno));
    return LK_OK;
}

enum lk_status lk_gpu_claim(struct lk_gpu_claim *c, const char *gpu, int local_rank, bool shared)
{
    char path[512];
    enum lk_status st = LK_OK;
    int fd;

    if ((size_t)snprintf(path, sizeof path, "%s/lockstep-gpu-%s-%u", folder(), gpu,
                         (unsigned)geteuid()) >= sizeof path)
        return lk_fail(LK_EUSAGE, "%s: too long for the name of a folder", folder());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
    if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB)) {
        st = errno == EWOULDBLOCK ? refuse(fd, gpu, local_rank, shared)
                                  : lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    LK_TRY(sign(fd, local_rank));
    c->fd = fd;
    return LK_OK;
out:
    close(fd);
    return st;
}

void lk_gpu_claim_release(struct lk_gpu_claim *c)
{
    if (c->fd > 0)
        close(c->fd);
    c->fd = 0;
}
