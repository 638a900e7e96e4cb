/* These functions check the limits that the system sets a process: memory, descriptors, sizes of
 * files. */
#ifndef LK_BASE_LIMITS_H
#define LK_BASE_LIMITS_H

#include "base/status.h"

#include <stddef.h>

/*
 * Fail with LK_ENOMEM, which names `what`, unless the process may still have so many bytes of
 * address space in pieces of `piece`. For libraries that wait for ever for memory that they do not
 * get. Costs two system calls a piece, and no memory.
 */
enum lk_status lk_limits_memory(size_t n, size_t piece, const char *what);

/*
 * Make room for n more open files, sockets among them: raise the soft limit as far as the hard one
 * allows. LK_EIO, which names `what`, if there is no room for all. For servers: one that runs out
 * of descriptors later can only turn away who connects.
 */
enum lk_status lk_limits_files(size_t n, const char *what);

/* Let a write beyond the limit of a file's size fail with EFBIG, which is reported; otherwise the
 * signal SIGXFSZ would end the process without a word. Programs that are started get the signal. */
void lk_limits_report_size(void);

#endif
