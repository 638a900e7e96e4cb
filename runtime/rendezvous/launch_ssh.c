/*
 * Ranks on other hosts, each by an ssh of its own.
 *
 * The command line has the host and "exec /bin/sh", nothing else: others may read it. What the
 * remote shell is to do comes through its standard input, which then stays open: it is the rank's
 * lifeline. When it ends, because the launcher or its ssh has ended in any way, the shell ends the
 * rank. The shell exits with the rank's code, and ssh with the shell's.
 */
#include "runtime/rendezvous/launch_start.h"

#include "base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX */

/* Variables that ranks on other hosts get from the launcher's environment. */
static const char *const forwarded[] = {"LOCKSTEP_", "NCCL_", "OPENBLAS_",
                                        "OMP_",      "CUDA_", "LD_LIBRARY_PATH="};

/* Exit codes of the shell: it cannot go to the folder or run the program, the program is not there,
 * or 128 and the signal that killed the program; and ssh's own. */
enum { NO_FOLDER = 125, NOT_RUN = 126, NOT_THERE = 127, SIGNALLED = 128, SSH_FAILED = 255 };

/* Write a word as the shell reads it back. */
static void quote(FILE *f, const char *word)
{
    fputc('\'', f);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", f);
        else
            fputc(*word, f);
    fputc('\'', f);
}

static void export(FILE *f, const char *entry)
{
    fprintf(f, "export %.*s=", (int)strcspn(entry, "="), entry);
    quote(f, strchr(entry, '=') + 1);
    fputc('\n', f);
}

static void export_forwarded(FILE *f)
{
    for (char **e = environ; *e; e++)
        for (size_t i = 0; i < LK_COUNT(forwarded); i++)
            if (!strncmp(*e, forwarded[i], strlen(forwarded[i])) && strchr(*e, '='))
                export(f, *e);
}

/* Write the shell's program. It is a function, which the shell reads whole before it runs it. */
static void write_script(FILE *f, const struct lk_launch_wanted *w, const char *program,
                         const char *folder)
{
    fputs("rank() {\nexec 3<&0 </dev/null\n", f);
    export_forwarded(f);
    for (const char *const *own = w->own; *own; own++)
        export(f, *own);
    fputs("cd ", f);
    quote(f, folder);
    fprintf(f, " || exit %d\n", NO_FOLDER);
    quote(f, program);
    for (char **a = w->argv + 1; *a; a++) {
        fputc(' ', f);
        quote(f, *a);
    }
    fputs(" 3<&- &\n"
          "rank=$!\n"
          "{ while read -r line; do :; done; kill $rank; sleep 2; kill -9 $rank; } "
          "<&3 >/dev/null 2>&1 &\n"
          "watch=$!\n"
          "exec 3<&-\n"
          "wait $rank\n"
          "code=$?\n"
          "kill $watch 2>/dev/null\n"
          "exit $code\n"
          "}\nrank\n",
          f);
}

static enum lk_status make_script(const struct lk_launch_wanted *w, char **out, size_t *out_size)
{
    char program[PATH_MAX] = "", folder[PATH_MAX];
    FILE *f;

    if (w->program)
        snprintf(program, sizeof program, "%s", w->program);
    else if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return lk_fail(LK_EIO, "cannot tell this program's path: %s", strerror(errno));
    if (!getcwd(folder, sizeof folder))
        return lk_fail(LK_EIO, "cannot tell the working directory: %s", strerror(errno));
    f = open_memstream(out, out_size);
    if (!f)
        return lk_fail(LK_ENOMEM, "no memory for a script");
    write_script(f, w, program, folder);
    if (fclose(f)) {
        free(*out);
        *out = NULL;
        return lk_fail(LK_ENOMEM, "no memory for a script");
    }
    return LK_OK;
}

/* Make the standard input with the script in it; the launcher keeps the end that stays open. */
static enum lk_status make_input(const char *script, size_t size, struct lk_launch_start *out)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        return lk_fail(LK_EIO, "a pipe for ssh: %s", strerror(errno));
    out->input = ends[0];
    out->hold = ends[1];
    (void)fcntl(out->hold, F_SETPIPE_SZ, (int)size); /* it has room for a usual one without */
    if (fcntl(out->hold, F_SETFL, O_NONBLOCK) || write(out->hold, script, size) != (ssize_t)size)
        return lk_fail(LK_EIO, "options and environment are too long for ssh's input: %zu bytes",
                       size);
    return LK_OK;
}

/* Split the command at its blanks, and add the host and what it runs. */
static enum lk_status make_words(const char *command, const char *host, char ***out)
{
    const char *const more[] = {host, "exec /bin/sh"};
    enum lk_status st = LK_OK;
    char **words = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&words, strlen(command) + LK_COUNT(more) + 1, sizeof *words));
    while (*(command += strspn(command, " "))) {
        size_t length = strcspn(command, " ");

        LK_TRY(lk_strndup(&words[n], command, length));
        command += length;
        n++;
    }
    if (!n)
        LK_TRY(lk_fail(LK_EUSAGE, "no command to reach other hosts by"));
    for (size_t i = 0; i < LK_COUNT(more); i++)
        LK_TRY(lk_strdup(&words[n++], more[i]));
    LK_HAND_OVER(out, words);
out:
    lk_launch_free_strings(words);
    return st;
}

static enum lk_status prepare(const struct lk_launch_wanted *w, struct lk_launch_start *out)
{
    enum lk_status st = LK_OK;
    char *script = NULL;
    size_t size = 0;

    LK_TRY(make_words(w->ssh, w->place.host, &out->words));
    out->program = out->words[0];
    out->argv = out->words;
    out->env = environ;
    LK_TRY(make_script(w, &script, &size));
    LK_TRY(make_input(script, size, out));
out:
    if (script)
        explicit_bzero(script, size); /* it has the secret */
    free(script);
    return st;
}

static void describe(const struct lk_rank_place *place, int code, char *buf, size_t size)
{
    const char *host = place->host;

    if (code == SSH_FAILED)
        snprintf(buf, size, "on host %s could not be started: ssh failed, as it said", host);
    else if (code == NO_FOLDER)
        snprintf(buf, size, "on host %s could not be started: the working directory is not there",
                 host);
    else if (code == NOT_RUN || code == NOT_THERE)
        snprintf(buf, size, "on host %s could not be started: the program %s there", host,
                 code == NOT_RUN ? "cannot be run" : "is not");
    else if (code > SIGNALLED && code < SIGNALLED + 65)
        snprintf(buf, size, "on host %s was killed by signal %d (%s)", host, code - SIGNALLED,
                 strsignal(code - SIGNALLED));
    else
        snprintf(buf, size, "on host %s exited with code %d", host, code);
}

const struct lk_launch_ops lk_launch_ssh = {.prepare = prepare, .describe = describe};
