#include "base/gz.h"

#include "base/file.h"
#include "base/unpack.h"

#include <errno.h>
#include <string.h>

enum { BUFFER = 1 << 17 }; /* zlib's 8 KiB halves the speed */

enum lk_status lk_gz_open(const char *path, gzFile *out)
{
    LK_PASS(lk_file_check(path));
    errno = 0;
    *out = gzopen(path, "rbe");
    if (!*out)
        return lk_fail(errno ? LK_EIO : LK_ENOMEM, "%s: cannot open: %s", path,
                       errno ? strerror(errno) : "no memory");
    (void)gzbuffer(*out, BUFFER);
    return LK_OK;
}

const char *lk_gz_damage(gzFile gz)
{
    int code;

    (void)gzerror(gz, &code);
    if (code == Z_OK || code == Z_STREAM_END)
        return NULL;
    return code == Z_ERRNO       ? strerror(errno)
           : code == Z_BUF_ERROR ? "the gzip data end too early"
                                 : "damaged gzip data";
}

enum lk_status lk_gz_check(gzFile gz, const char *path)
{
    return gzdirect(gz) ? LK_OK : lk_unpack_check(path, gzoffset(gz), gztell(gz));
}
