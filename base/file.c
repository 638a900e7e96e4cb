/* Files: reading, and directories; see the header. writer.c has the writing. */
#include "base/file.h"

#include "base/array.h"
#include "base/file_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { READ_STEP = 1 << 16 }; /* bytes a gzread asks for at least */

enum lk_status lk_file_fail(const char *path, const char *what)
{
    return lk_fail(LK_EIO, "%s: cannot %s: %s", path, what, strerror(errno));
}

const char *lk_gz_text(gzFile gz)
{
    int code;
    const char *text = gzerror(gz, &code);

    return code == Z_ERRNO ? strerror(errno) : text;
}

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
        if (n < 0) {
            st = lk_fail(LK_EIO, "%s: cannot read: %s", path, lk_gz_text(gz));
            goto out;
        }
        if (n == 0)
            break;
        size += (size_t)n;
        if (size > max) {
            st = lk_fail(LK_EPARSE, "%s: larger than %zu bytes", path, max);
            goto out;
        }
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
    return lk_file_read_max(path, SIZE_MAX, out_text, out_size);
}

enum lk_status lk_file_read_max(const char *path, size_t max, char **out_text, size_t *out_size)
{
    enum lk_status st;
    gzFile gz;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return lk_file_fail(path, "open");
    gz = gzdopen(fd, "rb");
    if (!gz) {
        close(fd);
        return lk_fail(LK_ENOMEM, "%s: cannot start zlib", path);
    }
    (void)gzbuffer(gz, LK_GZ_BUFFER);
    st = read_all(gz, path, max, out_text, out_size);
    (void)gzclose_r(gz);
    return st;
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
    return lk_file_fail(path, "make the directory");
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
        return lk_file_fail(dir, "list");
    LK_TRY(lk_array_grow(&names, &capacity, 1, sizeof *names));
    while (errno = 0, (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !ends_with(e->d_name, suffix))
            continue;
        LK_TRY(lk_array_grow(&names, &capacity, n + 1, sizeof *names));
        LK_TRY(lk_strdup(&names[n], e->d_name));
        n++;
    }
    if (errno) {
        st = lk_file_fail(dir, "list");
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
