/* Signals that end a rank; see the header. Other threads of a rank block all signals
 * (base/thread.h), so the handler runs on the main thread. */
#include "commands/run_signals.h"

#include "base/array.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const struct {
    int number;
    const char *text;
} signals[] = {
    {SIGTERM,
     "the rank was ended by signal 15 (Terminated), which it also gets when its launcher dies"},
    {SIGINT, "the rank was ended by signal 2 (Interrupt)"},
    {SIGHUP, "the rank was ended by signal 1 (Hangup)"},
};

/* A signal handler has no context pointer: this is its context. NULL: none. */
static struct lk_span_file *_Atomic taken;

static void end_process(int number)
{
    struct lk_span_file *f = atomic_load(&taken);
    const char *text = "the rank was ended by a signal";

    (void)alarm(RUN_SIGNALS_GRACE_S); /* a file system that does not answer */
    for (size_t i = 0; i < LK_COUNT(signals); i++)
        if (signals[i].number == number)
            text = signals[i].text;
    if (f)
        lk_span_file_abandon(f, text);
    (void)raise(number); /* the action is the default again: the process ends on return */
}

enum lk_status run_signals_take(struct lk_span_file *f)
{
    const struct sigaction action = {.sa_handler = end_process, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;

    atomic_store(&taken, f);
    for (size_t i = 0; i < LK_COUNT(signals); i++)
        if (sigaction(signals[i].number, &action, &before) ||
            (before.sa_handler == SIG_IGN && sigaction(signals[i].number, &before, NULL)))
            return lk_fail(LK_EINTERNAL, "cannot take signal %d: %s", signals[i].number,
                           strerror(errno));
    return LK_OK;
}

void run_signals_leave(void)
{
    struct sigaction action;

    for (size_t i = 0; i < LK_COUNT(signals); i++)
        if (!sigaction(signals[i].number, NULL, &action) && action.sa_handler == end_process)
            (void)signal(signals[i].number, SIG_DFL);
    atomic_store(&taken, NULL);
}
