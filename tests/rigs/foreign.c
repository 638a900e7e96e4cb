/* Ranks of another launcher; see the header. */
#include "tests/rigs/foreign.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    if (setenv(name, text, 1))
        _exit(125);
}

void foreign_as_rank(void *ctx)
{
    const struct foreign *f = ctx;

    set_number("RANK", f->rank);
    set_number("LOCAL_RANK", f->rank);
    set_number("WORLD_SIZE", f->world_size);
    set_number("LOCAL_WORLD_SIZE", f->world_size);
    set_number("MASTER_PORT", f->port);
    if (setenv("MASTER_ADDR", "127.0.0.1", 1))
        _exit(125);
    for (size_t i = 0; f->env && f->env[i]; i++)
        if (putenv((char *)(uintptr_t)f->env[i]))
            _exit(125);
}

void foreign_run(struct program *p, int n, const char *const *words)
{
    struct foreign f[FOREIGN_MAX];
    int port, hold = program_hold_port(&port);

    ck_assert_int_le(n, FOREIGN_MAX);
    for (int r = 0; r < n; r++) {
        char name[32], *sub;

        f[r] = (struct foreign){.rank = r, .world_size = n, .port = port};
        snprintf(name, sizeof name, "output of rank %d", r);
        sub = scratch_path(scratch_dir, name);
        ck_assert_int_eq(lk_mkdirs(sub), LK_OK);
        program_start(&p[r], sub, foreign_as_rank, &f[r], "%s", words[r]);
        free(sub);
    }
    for (int r = 0; r < n; r++)
        program_wait(&p[r]);
    ck_assert_int_eq(close(hold), 0);
}
