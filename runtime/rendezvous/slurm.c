/* Lists of Slurm, and addresses of its nodes; see the header. */
#include "runtime/rendezvous/slurm.h"

#include "base/array.h"
#include "base/clock.h"
#include "runtime/rendezvous/net.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX */

/* ---- Lists ---- */

void lk_slurm_first_host(const char *list, char *out, size_t size)
{
    size_t n = 0;

    while (*list && *list != ',' && n + 1 < size) {
        if (*list != '[') {
            out[n++] = *list++;
            continue;
        }
        for (list++; isdigit((unsigned char)*list) && n + 1 < size; list++)
            out[n++] = *list;
        while (*list && *list != ']')
            list++;
        list += *list == ']';
    }
    out[n] = '\0';
}

int lk_slurm_tasks_on_node(const char *list, int node)
{
    while (*list) {
        char *end;
        long tasks = strtol(list, &end, 10), times = 1;

        if (end == list || tasks < 1 || tasks > INT32_MAX)
            return -1;
        if (!strncmp(end, "(x", 2)) {
            times = strtol(end + 2, &end, 10);
            if (*end != ')')
                return -1;
            end++;
        }
        if (node < times)
            return (int)tasks;
        node -= (int)times;
        if (*end != ',' && *end)
            return -1;
        list = *end ? end + 1 : end;
    }
    return -1;
}

/* ---- SLURM_NODE_ALIASES ---- */

/* Copy the address of a node from "ec0:1.2.3.4:foo,ec1:[2001:db8::1]:bar"; false: not in it. */
static bool find_alias(const char *list, const char *node, char *out, size_t size)
{
    size_t name = strlen(node);

    while (*list) {
        const char *at = list + name;

        if (!strncmp(list, node, name) && *at == ':') {
            bool bracket = at[1] == '[';
            size_t n = strcspn(at + 1 + bracket, bracket ? "]" : ":,");

            if (n > 0 && n < size) {
                memcpy(out, at + 1 + bracket, n);
                out[n] = '\0';
                return true;
            }
        }
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return false;
}

/* ---- scontrol ---- */

/* Start scontrol with its output and messages into a pipe; *out_fd is the end to read from. */
static enum lk_status start_scontrol(const char *node, pid_t *out_pid, int *out_fd)
{
    char *argv[] = {(char[]){"scontrol"}, (char[]){"-o"}, (char[]){"show"},
                    (char[]){"node"},     (char *)node,   NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], err;

    if (pipe2(ends, O_CLOEXEC))
        return lk_fail(LK_EIO, "a pipe: %s", strerror(errno));
    err = posix_spawn_file_actions_init(&actions);
    if (!err) {
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && !err; fd++)
            err = posix_spawn_file_actions_adddup2(&actions, ends[1], fd);
        if (!err)
            err = posix_spawnp(out_pid, argv[0], &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (!err) {
        *out_fd = ends[0];
        return LK_OK;
    }
    close(ends[0]);
    return lk_fail(LK_EIO, "%s", strerror(err));
}

/* Read a program's output to its end. What does not fit is left out. */
static enum lk_status read_until(int fd, struct lk_deadline deadline, char *out, size_t size)
{
    size_t n = 0;

    *out = '\0';
    for (;;) {
        char rest[512];
        bool fits = n + 1 < size;
        ssize_t got;

        LK_PASS(lk_net_wait(fd, POLLIN, deadline));
        got = read(fd, fits ? out + n : rest, fits ? size - 1 - n : sizeof rest);
        if (got < 0 && errno != EINTR)
            return lk_fail(LK_EIO, "%s", strerror(errno));
        if (got == 0)
            return LK_OK;
        if (got > 0 && fits) {
            n += (size_t)got;
            out[n] = '\0';
        }
    }
}

static enum lk_status ask_scontrol(const char *node, uint64_t timeout_ns, char *out, size_t size)
{
    enum lk_status st = LK_OK;
    pid_t pid = 0;
    int fd = -1, status = 0;

    LK_TRY(start_scontrol(node, &pid, &fd));
    LK_TRY(read_until(fd, lk_deadline_in(timeout_ns), out, size));
out:
    if (fd >= 0)
        close(fd);
    if (pid && st != LK_OK)
        (void)kill(pid, SIGKILL);
    while (pid && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return st;
}

/* Copy the value of NodeAddr= from scontrol's line of a node. */
static enum lk_status find_node_addr(const char *node, uint64_t timeout_ns, char *out, size_t size)
{
    static const char key[] = " NodeAddr=";
    char text[4096];
    const char *at;
    size_t n;

    LK_PASS(ask_scontrol(node, timeout_ns, text, sizeof text));
    at = strstr(text, key);
    n = at ? strcspn(at + strlen(key), " \n") : 0;
    if (!n || n >= size)
        return lk_fail(LK_EIO, "no NodeAddr in '%.*s'", (int)strcspn(text, "\n"), text);
    memcpy(out, at + strlen(key), n);
    out[n] = '\0';
    return LK_OK;
}

/* ---- The address ---- */

enum lk_status lk_slurm_address(const char *node, uint64_t timeout_ns, char *out, size_t size)
{
    const char *aliases = getenv("SLURM_NODE_ALIASES");
    char address[256], name_says[256], scontrol_says[256];

    if (lk_net_resolves(node) == LK_OK) {
        snprintf(out, size, "%s", node);
        return LK_OK;
    }
    snprintf(name_says, sizeof name_says, "%s", lk_error_text());
    if (aliases && find_alias(aliases, node, address, sizeof address) &&
        lk_net_resolves(address) == LK_OK) {
        snprintf(out, size, "%s", address);
        return LK_OK;
    }
    if (find_node_addr(node, timeout_ns, address, sizeof address) == LK_OK &&
        lk_net_resolves(address) == LK_OK) {
        snprintf(out, size, "%s", address);
        return LK_OK;
    }
    snprintf(scontrol_says, sizeof scontrol_says, "%s", lk_error_text());
    return lk_fail(LK_EIO,
                   "no address of Slurm's node %s: MASTER_ADDR is not set; by name: %s; "
                   "SLURM_NODE_ALIASES is %s%s%s; scontrol -o show node: %s",
                   node, name_says, aliases ? "'" : "not set", aliases ? aliases : "",
                   aliases ? "'" : "", scontrol_says);
}
