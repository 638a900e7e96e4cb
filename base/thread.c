/* Start threads; see the header. */
#include "base/thread.h"

#include <signal.h>
#include <string.h>

enum lk_status lk_thread_start(pthread_t *out, void *(*run)(void *arg), void *arg, const char *what)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return lk_fail(LK_ENOMEM, "cannot start a thread for %s: %s", what, strerror(error));
    return LK_OK;
}
