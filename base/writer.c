/* Files: writing, all or nothing; see the header. */
#include "base/file.h"

#include "base/array.h"
#include "base/file_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { TEMP_NAMES_MAX = 1000 }; /* left-over temporary files of dead processes with our number */

/* Exactly one of `file` and `gz` is open. */
struct lk_writer {
    char *path;      /* what messages name */
    char *target;    /* what rename replaces: path with symbolic links resolved */
    char *temporary; /* NULL: written in place, because path is a device, a pipe or "-" */
    FILE *file;
    gzFile gz;
    int fd;       /* of file or gz, which owns it; -1: file is in memory */
    char *memory; /* what the memory stream holds; owned until commit hands it over */
    size_t memory_size;
    char **out_memory; /* NULL: not in memory */
    size_t *out_memory_size;
    char error[256]; /* why something was not written, and commit must not rename; "" if it was */
};

/* Opens a temporary file beside the target, under a name that nobody has. */
static enum lk_status open_temporary(struct lk_writer *w, int *out_fd)
{
    for (int i = 0; i < TEMP_NAMES_MAX; i++) {
        enum lk_status st =
            i ? lk_asprintf(&w->temporary, "%s.tmp.%ld.%d", w->target, (long)getpid(), i)
              : lk_asprintf(&w->temporary, "%s.tmp.%ld", w->target, (long)getpid());

        if (st != LK_OK)
            return st;
        *out_fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*out_fd >= 0)
            return LK_OK;
        free(w->temporary);
        w->temporary = NULL;
        if (errno != EEXIST)
            return lk_file_fail(w->path, "create");
    }
    return lk_fail(LK_EIO, "%s: there are %d temporary files beside it already", w->path,
                   TEMP_NAMES_MAX);
}

/* Opens what the data go to: standard output, a device or pipe in place, or a temporary file. */
static enum lk_status open_target(struct lk_writer *w, const char *path, int *out_fd)
{
    struct stat s;

    if (!strcmp(path, "-")) {
        *out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        return *out_fd < 0 ? lk_file_fail(w->path, "open") : LK_OK;
    }
    if (stat(path, &s) < 0)
        return lk_strdup(&w->target, path) != LK_OK ? LK_ENOMEM : open_temporary(w, out_fd);
    if (S_ISDIR(s.st_mode))
        return lk_fail(LK_EIO, "%s: is a directory", w->path);
    if (!S_ISREG(s.st_mode)) { /* renaming over /dev/null would take it from everybody */
        *out_fd = open(w->path, O_WRONLY | O_CLOEXEC);
        return *out_fd < 0 ? lk_file_fail(w->path, "open") : LK_OK;
    }
    w->target = realpath(w->path, NULL);
    return w->target ? open_temporary(w, out_fd) : lk_file_fail(w->path, "resolve");
}

enum lk_status lk_writer_open(const char *path, bool gz, struct lk_writer **out)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    int fd = -1;

    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    LK_TRY(lk_strdup(&w->path, strcmp(path, "-") ? path : "standard output"));
    if (!strcmp(path, "-") && fflush(stdout)) { /* what printf wrote comes first */
        st = lk_file_fail(w->path, "write");
        goto out;
    }
    LK_TRY(open_target(w, path, &fd));
    if (gz) {
        w->gz = gzdopen(fd, "wb");
        if (w->gz)
            (void)gzbuffer(w->gz, LK_GZ_BUFFER);
    } else {
        w->file = fdopen(fd, "wb");
    }
    if (!w->gz && !w->file) {
        st = lk_fail(LK_ENOMEM, "%s: cannot allocate a buffer", path);
        goto out;
    }
    w->fd = fd;
    fd = -1;
    *out = w;
    w = NULL;
out:
    if (fd >= 0)
        close(fd);
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_writer_open_memory(char **out_text, size_t *out_size, struct lk_writer **out)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;

    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    w->fd = -1;
    LK_TRY(lk_strdup(&w->path, "memory"));
    w->file = open_memstream(&w->memory, &w->memory_size);
    if (!w->file) {
        st = lk_file_fail(w->path, "open a stream in");
        goto out;
    }
    w->out_memory = out_text;
    w->out_memory_size = out_size;
    *out = w;
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}

/* Keeps the failure just reported: commit reports it again. */
static enum lk_status keep_failure(struct lk_writer *w, enum lk_status st)
{
    snprintf(w->error, sizeof w->error, "%s", lk_error_text());
    return st;
}

static enum lk_status put_gz(struct lk_writer *w, const char *data, size_t size)
{
    while (size) {
        unsigned chunk = size > INT_MAX / 2 ? INT_MAX / 2 : (unsigned)size;
        int n = gzwrite(w->gz, data, chunk);

        if (n <= 0)
            return lk_fail(LK_EIO, "%s: cannot write: %s", w->path, lk_gz_text(w->gz));
        data += n;
        size -= (size_t)n;
    }
    return LK_OK;
}

enum lk_status lk_writer_put(struct lk_writer *w, const void *data, size_t size)
{
    enum lk_status st = LK_OK;

    if (*w->error)
        return lk_fail(LK_EIO, "%s", w->error);
    if (w->gz)
        st = put_gz(w, data, size);
    else if (fwrite(data, 1, size, w->file) != size)
        st = lk_file_fail(w->path, "write");
    return st == LK_OK ? st : keep_failure(w, st);
}

enum lk_status lk_writer_printf(struct lk_writer *w, const char *fmt, ...)
{
    enum lk_status st;
    char line[1024];
    char *text = line;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof line) {
        va_start(ap, fmt);
        n = vasprintf(&text, fmt, ap);
        va_end(ap);
    }
    if (n < 0)
        return keep_failure(w, lk_fail(LK_ENOMEM, "%s: cannot format", w->path));
    st = lk_writer_put(w, text, (size_t)n);
    if (text != line)
        free(text);
    return st;
}

static void free_writer(struct lk_writer *w)
{
    free(w->path);
    free(w->target);
    free(w->temporary);
    free(w->memory);
    free(w);
}

/* Closes the stream; tells whether everything, from buffers to the disk, went well. */
static enum lk_status close_stream(struct lk_writer *w)
{
    enum lk_status st = LK_OK;

    if (w->gz && gzflush(w->gz, Z_FINISH) != Z_OK)
        st = lk_fail(LK_EIO, "%s: cannot write: %s", w->path, lk_gz_text(w->gz));
    if (w->file && fflush(w->file))
        st = lk_file_fail(w->path, "write");
    /* A network file system may tell only now that the disk is full. */
    if (st == LK_OK && w->temporary && fsync(w->fd))
        st = lk_file_fail(w->path, "write");
    if ((w->gz ? gzclose_w(w->gz) != Z_OK : fclose(w->file) != 0) && st == LK_OK)
        st = lk_file_fail(w->path, "close");
    w->gz = NULL;
    w->file = NULL;
    return st;
}

enum lk_status lk_writer_commit(struct lk_writer *w)
{
    enum lk_status st = LK_OK;

    if (!w)
        return LK_OK;
    if (*w->error)
        st = lk_fail(LK_EIO, "%s", w->error);
    LK_KEEP(close_stream(w));
    if (st == LK_OK && w->temporary && rename(w->temporary, w->target))
        st = lk_file_fail(w->path, "rename to");
    if (st != LK_OK && w->temporary)
        (void)unlink(w->temporary);
    if (st == LK_OK && w->out_memory) {
        *w->out_memory = w->memory;
        *w->out_memory_size = w->memory_size;
        w->memory = NULL;
    }
    free_writer(w);
    return st;
}

void lk_writer_abandon(struct lk_writer *w)
{
    if (!w)
        return;
    if (w->temporary) {
        (void)unlink(w->temporary);
        free(w->temporary);
        w->temporary = NULL; /* so that nothing waits for the disk below */
    }
    if (w->gz || w->file)
        lk_quietly_(close_stream(w));
    free_writer(w);
}
