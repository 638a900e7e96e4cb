/* Files: reading, atomic writing, directories; see the header. */
#include "base/file.h"

#include "base/array.h"
#include "base/unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    READ_STEP = 1 << 16, /* bytes a gzread asks for at least */
    GZ_BUFFER = 1 << 17, /* for gzbuffer(); zlib's 8 KiB halves the speed */
    MEBI = 1 << 20,
    TEMP_NAMES_MAX = 1000, /* left-over temporary files of dead processes with our number */
};

/* Fail with LK_EIO: "PATH: cannot WHAT: " and the text of errno. */
static enum lk_status file_fail(const char *path, const char *what)
{
    return lk_fail(LK_EIO, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* Return zlib's text for its last failure, or the system's. */
static const char *gz_text(gzFile gz)
{
    int code;
    const char *text = gzerror(gz, &code);

    return code == Z_ERRNO ? strerror(errno) : text;
}

/* ---- Reading ---- */

static enum lk_status read_all(gzFile gz, const char *path, size_t max, char **out_text,
                               size_t *out_size)
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
        if (n < 0)
            LK_TRY(lk_fail(LK_EIO, "%s: cannot read: %s", path, gz_text(gz)));
        if (n == 0)
            break;
        size += (size_t)n;
        if (!gzdirect(gz)) /* a file that is read as it is has no other size */
            LK_TRY(lk_unpack_check(path, gzoffset(gz), gztell(gz)));
        if (size > max)
            LK_TRY(lk_fail(LK_EPARSE, "%s: larger than %zu %s", path, max % MEBI ? max : max / MEBI,
                           max % MEBI ? "bytes" : "MiB"));
    }
    /* gzread returns the data of a gzip stream that ends too early; only gzerror tells. */
    (void)gzerror(gz, &code);
    if (code != Z_OK && code != Z_STREAM_END)
        LK_TRY(lk_fail(LK_EIO, "%s: the gzip data end too early", path));
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
    return lk_file_read_max(path, LK_FILE_MAX, out_text, out_size);
}

enum lk_status lk_file_read_max(const char *path, size_t max, char **out_text, size_t *out_size)
{
    enum lk_status st;
    gzFile gz;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return file_fail(path, "open");
    gz = gzdopen(fd, "rb");
    if (!gz) {
        close(fd);
        return lk_fail(LK_ENOMEM, "%s: cannot start zlib", path);
    }
    (void)gzbuffer(gz, GZ_BUFFER);
    st = read_all(gz, path, max, out_text, out_size);
    (void)gzclose_r(gz);
    return st;
}

/* ---- Writing ---- */

/* Exactly one of `file` and `gz` is open. */
struct lk_writer {
    char *path;      /* path in messages */
    char *target;    /* file that rename replaces: path with symbolic links resolved */
    char *temporary; /* NULL: written in place, because path is a device, a pipe or "-" */
    FILE *file;
    gzFile gz;
    int fd;       /* of file or gz, which owns it; -1: file is in memory */
    char *memory; /* the memory stream's bytes; owned until commit hands them over */
    size_t memory_size;
    char **out_memory; /* NULL: not in memory */
    size_t *out_memory_size;
    char error[256]; /* first failed write, which keeps commit from renaming; "" if none */
};

/* Open a temporary file beside the target, under an unused name. */
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
            return file_fail(w->path, "create");
    }
    return lk_fail(LK_EIO, "%s: there are %d temporary files beside it already", w->path,
                   TEMP_NAMES_MAX);
}

/* Open the output: standard output, a device or pipe in place, or a temporary file. */
static enum lk_status open_target(struct lk_writer *w, const char *path, int *out_fd)
{
    struct stat s;

    if (!strcmp(path, "-")) {
        *out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        return *out_fd < 0 ? file_fail(w->path, "open") : LK_OK;
    }
    if (stat(path, &s) < 0)
        return lk_strdup(&w->target, path) != LK_OK ? LK_ENOMEM : open_temporary(w, out_fd);
    if (S_ISDIR(s.st_mode))
        return lk_fail(LK_EIO, "%s: is a directory", w->path);
    if (!S_ISREG(s.st_mode)) { /* renaming over /dev/null would destroy it for everybody */
        *out_fd = open(w->path, O_WRONLY | O_CLOEXEC);
        return *out_fd < 0 ? file_fail(w->path, "open") : LK_OK;
    }
    w->target = realpath(w->path, NULL);
    return w->target ? open_temporary(w, out_fd) : file_fail(w->path, "resolve");
}

enum lk_status lk_writer_open(const char *path, bool gz, struct lk_writer **out)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    int fd = -1;

    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    LK_TRY(lk_strdup(&w->path, strcmp(path, "-") ? path : "standard output"));
    if (!strcmp(path, "-") && fflush(stdout)) { /* earlier printf output comes first */
        st = file_fail(w->path, "write");
        goto out;
    }
    LK_TRY(open_target(w, path, &fd));
    if (gz) {
        w->gz = gzdopen(fd, "wb3"); /* traces take half the time of level 6, a fifth more bytes */
        if (w->gz)
            (void)gzbuffer(w->gz, GZ_BUFFER);
    } else {
        w->file = fdopen(fd, "wb");
    }
    if (!w->gz && !w->file)
        LK_TRY(lk_fail(LK_ENOMEM, "%s: cannot allocate a buffer", path));
    w->fd = fd;
    fd = -1;
    LK_HAND_OVER(out, w);
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
        st = file_fail(w->path, "open a stream in");
        goto out;
    }
    w->out_memory = out_text;
    w->out_memory_size = out_size;
    LK_HAND_OVER(out, w);
out:
    lk_writer_abandon(w);
    return st;
}

/* Keep the failure just reported: commit reports it again. */
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
            return lk_fail(LK_EIO, "%s: cannot write: %s", w->path, gz_text(w->gz));
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
        st = file_fail(w->path, "write");
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

/* Close the stream; report any failure on the way to the disk. */
static enum lk_status close_stream(struct lk_writer *w)
{
    enum lk_status st = LK_OK;

    if (w->gz && gzflush(w->gz, Z_FINISH) != Z_OK)
        st = lk_fail(LK_EIO, "%s: cannot write: %s", w->path, gz_text(w->gz));
    if (w->file && fflush(w->file))
        st = file_fail(w->path, "write");
    /* A network file system may report only now that the disk is full. */
    if (st == LK_OK && w->temporary && fsync(w->fd))
        st = file_fail(w->path, "write");
    if ((w->gz ? gzclose_w(w->gz) != Z_OK : fclose(w->file) != 0) && st == LK_OK)
        st = file_fail(w->path, "close");
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
        st = file_fail(w->path, "rename to");
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
        w->temporary = NULL; /* makes the code below skip waiting for the disk */
    }
    if (w->gz || w->file)
        lk_quietly_(close_stream(w));
    free_writer(w);
}

/* ---- Appending ---- */

static enum lk_status write_all(int fd, const char *path, const char *data, size_t size)
{
    while (size) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_fail(path, "append to it");
        data += n;
        size -= (size_t)n;
    }
    return LK_OK;
}

/* Append behind what is there. pre: nobody else does. */
static enum lk_status append_locked(int fd, const char *path, const char *lines, size_t size)
{
    enum lk_status st = LK_OK;
    struct stat s;
    char last = '\n';

    if (fstat(fd, &s))
        return file_fail(path, "look at it");
    if (S_ISREG(s.st_mode) && s.st_size > 0 && pread(fd, &last, 1, s.st_size - 1) != 1)
        return file_fail(path, "read");
    if (last != '\n')
        st = write_all(fd, path, "\n", 1);
    if (st == LK_OK)
        st = write_all(fd, path, lines, size);
    if (st != LK_OK && S_ISREG(s.st_mode) && ftruncate(fd, s.st_size))
        return lk_fail(LK_EIO, "%s; and cannot cut off what was written of it: %s", lk_error_text(),
                       strerror(errno));
    return st;
}

enum lk_status lk_file_extend(const char *path, lk_file_lines *make, void *user)
{
    enum lk_status st = LK_OK;
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    char *text = NULL, *lines = NULL;
    size_t size = 0;

    if (fd < 0)
        return file_fail(path, "append to it");
    while (flock(fd, LOCK_EX))
        if (errno != EINTR)
            LK_TRY(file_fail(path, "lock"));
    LK_TRY(lk_file_read(path, &text, &size));
    LK_TRY(make(user, text, size, &lines));
    if (lines)
        st = append_locked(fd, path, lines, strlen(lines));
out:
    free(lines);
    free(text);
    if (close(fd) && st == LK_OK)
        st = file_fail(path, "append to it");
    return st;
}

/* ---- Directories ---- */

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
    return file_fail(path, "make the directory");
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

bool lk_file_exists(const char *path)
{
    struct stat s;

    return !stat(path, &s);
}

bool lk_is_file(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISREG(s.st_mode);
}

bool lk_is_folder(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

enum lk_status lk_file_check(const char *path)
{
    if (!lk_file_exists(path) || lk_is_file(path) || lk_is_folder(path))
        return LK_OK;
    return lk_fail(LK_EIO, "%s: is a pipe or a device; give a file", path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
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
        return file_fail(dir, "list");
    LK_TRY(lk_array_grow(&names, &capacity, 1, sizeof *names));
    while (errno = 0, (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !lk_ends_with(e->d_name, suffix))
            continue;
        LK_TRY(lk_names_add(&names, &n, &capacity, e->d_name));
    }
    if (errno) {
        st = file_fail(dir, "list");
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
