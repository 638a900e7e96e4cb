/* Files of other programs, gzip or plain, that are read in pieces. */
#ifndef LK_BASE_GZ_H
#define LK_BASE_GZ_H

#include "base/status.h"

#include <zlib.h>

/* Open a file; the caller closes it with gzclose_r. LK_EIO: also for a folder, and for a pipe or a
 * device, which may never give anything, or never end (lk_file_check). */
enum lk_status lk_gz_open(const char *path, gzFile *out);
/* Return what is wrong with a file that was read as far as it goes: the system's error, damage, or
 * an end that comes too early, which gzread does not tell; NULL: nothing. */
const char *lk_gz_damage(gzFile gz);

/* Fail as lk_unpack_check does. Ask after each piece, of 64 KiB or more: it is a system call.
 */
enum lk_status lk_gz_check(gzFile gz, const char *path);

#endif
