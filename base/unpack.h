/* This function bounds what a file unpacks to. */
#ifndef LK_BASE_UNPACK_H
#define LK_BASE_UNPACK_H

#include "base/status.h"

/*
 * Fail with LK_EPARSE for a file that unpacks to more than 64 MiB and to over 200 times what was
 * read of it: one that is made to fill memory and disks. JSON and data bases of traces unpack to 5
 * to 60 times.
 */
enum lk_status lk_unpack_check(const char *path, long packed_bytes, long unpacked_bytes);

#endif
