/* base/file.h over texts in memory, for a module that has no file system. */
#include "page/memory.h"

#include "base/array.h"
#include "base/file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Files ---- */

struct file {
    char *name, *text;
    size_t size;
};

/* The module's files are its state: a process would have a file system. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
static struct {
    struct file *v;
    size_t n, capacity;
} files;

static struct file *find(const char *name)
{
    for (size_t i = 0; i < files.n; i++)
        if (!strcmp(files.v[i].name, name))
            return &files.v[i];
    return NULL;
}

enum lk_status page_file_put(const char *name, char *text, size_t size)
{
    enum lk_status st = LK_OK;
    struct file *f = find(name);
    struct file new = {0};

    if (!f) {
        LK_TRY(lk_array_grow(&files.v, &files.capacity, files.n + 1, sizeof *files.v));
        LK_TRY(lk_strdup(&new.name, name));
        f = &files.v[files.n++];
        *f = new;
    }
    free(f->text);
    f->text = text;
    f->size = size;
    text = NULL;
out:
    free(text);
    return st;
}

const char *page_file_text(const char *name, size_t *size)
{
    const struct file *f = find(name);

    *size = f ? f->size : 0;
    return f ? f->text : NULL;
}

void page_file_remove(const char *name)
{
    struct file *f = find(name);

    if (!f)
        return;
    free(f->name);
    free(f->text);
    *f = files.v[--files.n];
}

bool lk_file_exists(const char *path)
{
    return find(path);
}

bool lk_is_file(const char *path)
{
    return find(path);
}

bool lk_is_folder(const char *path)
{
    (void)path;
    return false;
}

/* ---- Reading ---- */

enum lk_status lk_file_read(const char *path, char **out_text, size_t *out_size)
{
    return lk_file_read_max(path, LK_FILE_MAX, out_text, out_size);
}

enum lk_status lk_file_read_max(const char *path, size_t max, char **out_text, size_t *out_size)
{
    const struct file *f = find(path);

    if (!f)
        return lk_fail(LK_EIO, "%s: cannot open: %s", path, strerror(ENOENT));
    if (f->size > max)
        return lk_fail(LK_EPARSE, "%s: larger than %zu bytes", path, max);
    LK_PASS(lk_alloc(out_text, f->size + 1, 1));
    memcpy(*out_text, f->text, f->size + 1);
    *out_size = f->size;
    return LK_OK;
}

/* ---- Writing ---- */

struct lk_writer {
    char *path; /* NULL: the text goes to *out_text */
    char *text;
    size_t size, capacity;
    char **out_text;
    size_t *out_size;
    bool failed; /* a write had no memory: commit fails, too */
};

enum lk_status lk_writer_open(const char *path, bool gz, struct lk_writer **out)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;

    (void)gz; /* nothing of a forecast is packed */
    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    LK_TRY(lk_strdup(&w->path, path));
    LK_TRY(lk_array_grow(&w->text, &w->capacity, 1, 1));
    LK_HAND_OVER(out, w);
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_writer_open_memory(char **out_text, size_t *out_size, struct lk_writer **out)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;

    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    LK_TRY(lk_array_grow(&w->text, &w->capacity, 1, 1));
    w->out_text = out_text;
    w->out_size = out_size;
    LK_HAND_OVER(out, w);
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_writer_put(struct lk_writer *w, const void *data, size_t size)
{
    enum lk_status st = lk_array_grow(&w->text, &w->capacity, w->size + size + 1, 1);

    if (st != LK_OK) {
        w->failed = true;
        return st;
    }
    memcpy(w->text + w->size, data, size);
    w->size += size;
    return LK_OK;
}

enum lk_status lk_writer_printf(struct lk_writer *w, const char *fmt, ...)
{
    enum lk_status st;
    char line[1024], *text = line;
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
        return lk_fail(LK_ENOMEM, "cannot format");
    }
    st = lk_writer_put(w, text, (size_t)n);
    if (text != line)
        free(text);
    return st;
}

enum lk_status lk_writer_commit(struct lk_writer *w)
{
    enum lk_status st = LK_OK;

    if (!w)
        return LK_OK;
    if (w->failed)
        LK_TRY(lk_fail(LK_ENOMEM, "%s: no memory", w->path ? w->path : "memory"));
    w->text[w->size] = '\0';
    if (w->path) {
        char *text = w->text;

        w->text = NULL;
        LK_TRY(page_file_put(w->path, text, w->size));
    } else {
        *w->out_text = w->text;
        *w->out_size = w->size;
        w->text = NULL;
    }
out:
    lk_writer_abandon(w);
    return st;
}

void lk_writer_abandon(struct lk_writer *w)
{
    if (!w)
        return;
    free(w->path);
    free(w->text);
    free(w);
}
