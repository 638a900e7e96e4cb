/* Scan the JSON of a file, plain or gzip; see base/json_scan.h. */
#include "base/gz.h"
#include "base/json_scan.h"
#include "base/progress.h"

#include <sys/stat.h>

static int read_file(struct lk_scan *s, unsigned char *to, size_t size)
{
    int code, n = gzread(s->file, to, (unsigned)size);

    if (n < 0) {
        s->status = lk_fail(LK_EIO, "%s: cannot read: %s", s->path, gzerror(s->file, &code));
        return -1;
    }
    s->status = lk_gz_check(s->file, s->path);
    if (s->status != LK_OK)
        return -1;
    lk_progress(NULL, (double)gzoffset(s->file), (double)s->file_bytes);
    return n;
}

static const char *damage_of_file(const struct lk_scan *s)
{
    return lk_gz_damage(s->file);
}

static void close_file(struct lk_scan *s)
{
    (void)gzclose_r(s->file);
}

static const struct lk_scan_source source = {
    .read = read_file,
    .damage = damage_of_file,
    .close = close_file,
};

enum lk_status lk_scan_open(struct lk_scan *s, const char *path)
{
    struct stat info;
    gzFile gz;

    LK_PASS(lk_scan_begin(s, path, &source));
    LK_PASS(lk_gz_open(path, &gz));
    s->file = gz;
    s->file_bytes = stat(path, &info) ? 0 : (uint64_t)info.st_size;
    return LK_OK;
}
