/* What reading and writing files share. For base/file.c and base/writer.c only. */
#ifndef LK_BASE_FILE_IMPL_H
#define LK_BASE_FILE_IMPL_H

#include "base/status.h"

#include <zlib.h>

enum { LK_GZ_BUFFER = 1 << 17 }; /* zlib's own; its default of 8 KiB costs half the speed */

/* LK_EIO: "PATH: cannot WHAT: " and the text of errno. */
enum lk_status lk_file_fail(const char *path, const char *what);
/* zlib's text for its last failure, or the system's. */
const char *lk_gz_text(gzFile gz);

#endif
