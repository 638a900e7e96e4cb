/* Files; see the header. */
#include "base/file.h"

#include "base/array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    READ_STEP = 1 << 16,  /* bytes a gzread asks for at least */
    GZ_BUFFER = 1 << 17,  /* zlib's own buffer; its default of 8 KiB costs half the speed */
    TEMP_NAMES_MAX = 1000 /* left-over temporary files of dead processes with our number */
};

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
    bool failed; /* something was not written: commit must not rename */
};

static enum lk_status fail_errno(const char *path, const char *what)
{
    return lk_fail(LK_EIO, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* zlib's text for its last failure, or the system's. */
static const char *gz_text(gzFile gz)
{
    int code;
    const char *text = gzerror(gz, &code);

    return code == Z_ERRNO ? strerror(errno) : text;
}

static enum lk_status read_all(gzFile gz, const char *path, char **out_text, size_t *out_size)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    size_t capacity = 0;
    size_t size = 0;
    int code;

    for (;;) {
        size_t room;
        int n;

        LK_TRY(lk_array_grow(&text, &capacity, size + READ_STEP + 1, 1));
        room = capacity - size - 1;
        n = gzread(gz, text + size, room > INT_MAX / 2 ? INT_MAX / 2 : (unsigned)room);
        if (n < 0) {
            st = lk_fail(LK_EIO, "%s: cannot read: %s", path, gz_text(gz));
            goto out;
        }
        if (n == 0)
            break;
        size += (size_t)n;
    }
    /* At a gzip stream that ends too early gzread gives what there is, and the error stays here. */
    (void)gzerror(gz, &code);
    if (code != Z_OK && code != Z_STREAM_END) {
        st = lk_fail(LK_EIO, "%s: the gzip data end too early", path);
        goto out;
    }
    text[size] = '\0';
    *out_text = text;
    *out_size = size;
    text = NULL;
out:
    free(text);
    return st;
}

enum lk_status lk_file_read(const char *path, char **out_text, size_t *out_size)
{
    enum lk_status st;
    gzFile gz;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return fail_errno(path, "open");
    gz = gzdopen(fd, "rb");
    if (!gz) {
        close(fd);
        return lk_fail(LK_ENOMEM, "%s: cannot start zlib", path);
    }
    (void)gzbuffer(gz, GZ_BUFFER);
    st = read_all(gz, path, out_text, out_size);
    (void)gzclose_r(gz);
    return st;
}

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
            return fail_errno(w->path, "create");
    }
    return lk_fail(LK_EIO, "%s: there are %d temporary files beside it already", w->path,
                   TEMP_NAMES_MAX);
}

/* Opens what the data go to: standard output, a device or pipe in place, or a temporary file. */
static enum lk_status open_target(struct lk_writer *w, int *out_fd)
{
    struct stat s;

    if (!strcmp(w->path, "-")) {
        *out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        return *out_fd < 0 ? fail_errno("standard output", "open") : LK_OK;
    }
    if (stat(w->path, &s) < 0)
        return lk_strdup(&w->target, w->path) != LK_OK ? LK_ENOMEM : open_temporary(w, out_fd);
    if (S_ISDIR(s.st_mode))
        return lk_fail(LK_EIO, "%s: is a directory", w->path);
    if (!S_ISREG(s.st_mode)) { /* renaming over /dev/null would take it from everybody */
        *out_fd = open(w->path, O_WRONLY | O_CLOEXEC);
        return *out_fd < 0 ? fail_errno(w->path, "open") : LK_OK;
    }
    w->target = realpath(w->path, NULL);
    return w->target ? open_temporary(w, out_fd) : fail_errno(w->path, "resolve");
}

enum lk_status lk_writer_open(const char *path, bool gz, struct lk_writer **out)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    int fd = -1;

    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    LK_TRY(lk_strdup(&w->path, path));
    if (!strcmp(path, "-") && fflush(stdout)) { /* what printf wrote comes first */
        st = fail_errno("standard output", "write");
        goto out;
    }
    LK_TRY(open_target(w, &fd));
    if (gz) {
        w->gz = gzdopen(fd, "wb");
        if (w->gz)
            (void)gzbuffer(w->gz, GZ_BUFFER);
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
        st = fail_errno(w->path, "open a stream in");
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

enum lk_status lk_writer_put(struct lk_writer *w, const void *data, size_t size)
{
    const char *p = data;

    if (w->failed)
        return lk_fail(LK_EIO, "%s: an earlier write failed", w->path);
    if (w->file) {
        if (fwrite(p, 1, size, w->file) == size)
            return LK_OK;
        w->failed = true;
        return fail_errno(w->path, "write");
    }
    while (size) {
        unsigned chunk = size > INT_MAX / 2 ? INT_MAX / 2 : (unsigned)size;
        int n = gzwrite(w->gz, p, chunk);

        if (n <= 0) {
            w->failed = true;
            return lk_fail(LK_EIO, "%s: cannot write: %s", w->path, gz_text(w->gz));
        }
        p += n;
        size -= (size_t)n;
    }
    return LK_OK;
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
    if (n < 0) {
        w->failed = true;
        return lk_fail(LK_ENOMEM, "%s: cannot format", w->path);
    }
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
        st = lk_fail(LK_EIO, "%s: cannot write: %s", w->path, gz_text(w->gz));
    if (w->file && fflush(w->file))
        st = fail_errno(w->path, "write");
    /* A network file system may tell only now that the disk is full. */
    if (st == LK_OK && w->temporary && fsync(w->fd))
        st = fail_errno(w->path, "write");
    if ((w->gz ? gzclose_w(w->gz) != Z_OK : fclose(w->file) != 0) && st == LK_OK)
        st = fail_errno(w->path, "close");
    w->gz = NULL;
    w->file = NULL;
    return st;
}

enum lk_status lk_writer_commit(struct lk_writer *w)
{
    enum lk_status st = LK_OK;

    if (!w)
        return LK_OK;
    if (w->failed)
        st = lk_fail(LK_EIO, "%s: an earlier write failed", w->path);
    LK_KEEP(close_stream(w));
    if (st == LK_OK && w->temporary && rename(w->temporary, w->target))
        st = fail_errno(w->path, "rename to");
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
    if (w->gz || w->file)
        lk_quietly_(close_stream(w));
    if (w->temporary)
        (void)unlink(w->temporary);
    free_writer(w);
}

static enum lk_status make_directory(const char *path)
{
    struct stat s;

    if (!mkdir(path, 0777))
        return LK_OK;
    if (errno == EEXIST && !stat(path, &s)) {
        if (S_ISDIR(s.st_mode))
            return LK_OK;
        errno = ENOTDIR;
    }
    return fail_errno(path, "make the directory");
}

enum lk_status lk_mkdirs(const char *path)
{
    enum lk_status st = LK_OK;
    char *copy = NULL;

    LK_TRY(lk_strdup(&copy, path));
    for (char *p = copy; *p; p++) {
        if (p == copy || *p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        LK_TRY(make_directory(copy));
        *p = '/';
    }
    LK_TRY(make_directory(copy));
out:
    free(copy);
    return st;
}

enum lk_status lk_path_join(char **out, const char *dir, const char *name)
{
    size_t n = strlen(dir);

    return lk_asprintf(out, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name);
}

bool lk_file_exists(const char *path)
{
    struct stat s;

    return !stat(path, &s);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name);
    size_t m = strlen(suffix);

    return n >= m && !strcmp(name + n - m, suffix);
}

enum lk_status lk_dir_list(const char *dir, const char *suffix, char ***out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    size_t n = 0;
    size_t capacity = 0;
    const struct dirent *e;
    DIR *d = opendir(dir);

    if (!d)
        return fail_errno(dir, "list");
    LK_TRY(lk_array_grow(&names, &capacity, 1, sizeof *names));
    while (errno = 0, (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !ends_with(e->d_name, suffix))
            continue;
        LK_TRY(lk_array_grow(&names, &capacity, n + 1, sizeof *names));
        LK_TRY(lk_strdup(&names[n], e->d_name));
        n++;
    }
    if (errno) {
        st = fail_errno(dir, "list");
        goto out;
    }
    qsort(names, n, sizeof *names, by_name);
    *out = names;
    *out_n = n;
    names = NULL;
out:
    closedir(d);
    if (names)
        lk_names_free(names, n);
    return st;
}

void lk_names_free(char **names, size_t n)
{
    if (!names)
        return;
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}
