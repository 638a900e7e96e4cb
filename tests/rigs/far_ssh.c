#include "tests/rigs/far_ssh.h"

#include "base/array.h"
#include "tests/rigs/scratch.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Options come before the host, the value of -o in a word of its own. */
static const char ssh[] =
    "#!/bin/sh\n"
    "echo \"$*\" >> \"$SSH_LOG\"\n"
    "while :; do case $1 in -T) shift ;; -o) shift 2 ;; *) break ;; esac; done\n"
    "[ $# = 2 ] || exit 99\n"
    "cd /\n"
    "case $1 in\n"
    "down) echo 'ssh: connect to host down' >&2; exit 255 ;;\n"
    "far) sed -u 's:^export LOCKSTEP_RUN_DIR=.*:export LOCKSTEP_RUN_DIR=/nowhere:' |\n"
    "    env -i PATH=\"$PATH\" sh -c \"$2\"; exit ;;\n"
    "esac\n"
    "env -i PATH=\"$PATH\" sh -c \"$2\"\n";

void far_ssh_put(void)
{
    char *path = scratch_put("ssh", ssh, strlen(ssh));

    ck_assert_int_eq(chmod(path, 0700), 0);
    free(path);
}

void far_ssh_set_up(void *ctx)
{
    char *search = NULL, *log = NULL;

    (void)ctx;
    if (lk_asprintf(&search, "%s:%s", scratch_dir, getenv("PATH")) != LK_OK ||
        lk_asprintf(&log, "%s/log", scratch_dir) != LK_OK || setenv("PATH", search, 1) ||
        setenv("SSH_LOG", log, 1) || setenv("MASTER_ADDR", "127.0.0.1", 1) ||
        setenv("OMP_FORWARDED", "it's", 1))
        _Exit(125);
    free(search);
    free(log);
}
