/* Start a thread of the program's own, beside the thread that handles signals. */
#ifndef LK_BASE_THREAD_H
#define LK_BASE_THREAD_H

#include "base/status.h"

#include <pthread.h>

/* Start run(arg) in a thread with every signal blocked: handlers run on the caller's threads only.
 * LK_ENOMEM: "cannot start a thread for WHAT: ...". */
enum lk_status lk_thread_start(pthread_t *out, void *(*run)(void *arg), void *arg,
                               const char *what);

#endif
