/* A rank that fails. */
#include "tests/rigs/culprit.h"

#include "tests/rigs/waits.h"

#include <check.h>
#include <signal.h>
#include <unistd.h>

/* The current run. A late culprit continues when there is a byte in the pipe. */
static int others_ended[2];
static int culprit_rank;

enum lk_status culprit_go(enum culprit_way way, struct lk_store *store)
{
    char byte;

    switch (way) {
    case KILLED:
        raise(SIGKILL);
        return LK_OK;
    case STOPPED:
        raise(SIGSTOP);
        return LK_OK;
    case LATE:
        return read(others_ended[0], &byte, 1) == 1 ? LK_OK : lk_fail(LK_EIO, "no byte");
    case REPORTS:
        return lk_store_report(store, LK_EIO, "disk full");
    default:
        return lk_fail(LK_EUSAGE, "it leaves");
    }
}

static void wake(struct rank *ranks, void *ctx)
{
    (void)ctx;
    for (int r = 0; r < ranks[culprit_rank].world_size; r++)
        if (r != culprit_rank)
            rank_await_end(&ranks[r]);
    ck_assert_int_eq(write(others_ended[1], "", 1), 1);
    kill(ranks[culprit_rank].pid, SIGCONT);
}

void culprit_run(int world_size, int culprit, int way, rank_fn fn, void *ctx, struct rank *ranks)
{
    bool stalls = way == STOPPED || way == LATE;

    culprit_rank = culprit;
    ck_assert_int_eq(pipe(others_ended), 0);
    ranks_run_processes(world_size, WAIT_PLENTY_NS, fn, ctx, 1, stalls ? wake : NULL, ranks);
    close(others_ended[0]);
    close(others_ended[1]);
}
