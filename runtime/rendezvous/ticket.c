/* Proofs of belonging to a run; see the header. */
#include "runtime/rendezvous/ticket.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MIN = 16, SECRET_MAX = 4096, DATA_MAX = 512 };

static enum lk_status fill(void *out, size_t n)
{
    return getrandom(out, n, 0) == (ssize_t)n
               ? LK_OK
               : lk_fail(LK_EIO, "no random numbers: %s", strerror(errno));
}

enum lk_status lk_nonce(unsigned char out[LK_NONCE_BYTES])
{
    return fill(out, LK_NONCE_BYTES);
}

enum lk_status lk_ticket_make(struct lk_ticket *out)
{
    struct lk_ticket t = {.has_secret = true};

    LK_PASS(fill(t.secret, sizeof t.secret));
    snprintf(t.job, sizeof t.job, "lockstep-%ld-%" PRIx64, (long)getpid(), lk_epoch_ns());
    *out = t;
    return LK_OK;
}

void lk_ticket_secret_text(const struct lk_ticket *t, char out[2 * LK_SHA256_BYTES + 1])
{
    for (size_t i = 0; i < sizeof t->secret; i++)
        snprintf(out + 2 * i, 3, "%02x", t->secret[i]);
}

enum lk_status lk_ticket_read_env(struct lk_ticket *t)
{
    const char *text = getenv(LK_SECRET_ENV);

    if (!text)
        return LK_OK;
    if (strlen(text) != 2 * sizeof t->secret || strspn(text, "0123456789abcdef") != strlen(text))
        return lk_fail(LK_EUSAGE, LK_SECRET_ENV " is not %zu hexadecimal digits",
                       2 * sizeof t->secret);
    for (size_t i = 0; i < sizeof t->secret; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};

        t->secret[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    t->has_secret = true;
    return unsetenv(LK_SECRET_ENV) ? lk_fail(LK_EIO, "unsetenv: %s", strerror(errno)) : LK_OK;
}

static enum lk_status check_file(int fd, const char *path)
{
    struct stat s;

    if (fstat(fd, &s))
        return lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return lk_fail(LK_EUSAGE, "%s: a secret is in a file, not in a folder or device", path);
    if (s.st_uid != geteuid())
        return lk_fail(LK_EUSAGE, "%s: the file is not yours", path);
    if (s.st_mode & (S_IRWXG | S_IRWXO))
        return lk_fail(LK_EUSAGE, "%s: others may read it or write it; chmod 600 it", path);
    return LK_OK;
}

enum lk_status lk_ticket_read_file(struct lk_ticket *t, const char *path)
{
    char text[SECRET_MAX + 1];
    enum lk_status st = LK_OK;
    struct lk_sha256 h;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
    LK_TRY(check_file(fd, path));
    n = read(fd, text, sizeof text);
    if (n < 0)
        LK_TRY(lk_fail(LK_EIO, "%s: %s", path, strerror(errno)));
    while (n > 0 && isspace((unsigned char)text[n - 1])) /* editors end a file with a newline */
        n--;
    if (n < SECRET_MIN || n > SECRET_MAX)
        LK_TRY(lk_fail(LK_EUSAGE,
                       "%s: a secret has %d to %d bytes; make one with: head -c 32 "
                       "/dev/urandom | base64",
                       path, SECRET_MIN, SECRET_MAX));
    lk_sha256_init(&h);
    lk_sha256_add(&h, text, (size_t)n);
    lk_sha256_end(&h, t->secret);
    t->has_secret = true;
out:
    close(fd);
    return st;
}

void lk_ticket_prove(const struct lk_ticket *t, const char *label, const void *data, size_t n,
                     unsigned char out[LK_PROOF_BYTES])
{
    unsigned char all[DATA_MAX];
    size_t at = strlen(label) + 1; /* with its NUL, which ends it */

    memset(out, 0, LK_PROOF_BYTES);
    if (at + n > sizeof all) /* callers' data are short */
        return;
    memcpy(all, label, at);
    memcpy(all + at, data, n);
    lk_hmac_sha256(t->secret, sizeof t->secret, all, at + n, out);
}
