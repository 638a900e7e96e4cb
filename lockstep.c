/*
 * lockstep: measures how well a data-parallel training job scales and forecasts the rest.
 *
 * This file is the table of subcommands, and the only caller of exit. Subcommands are in commands/.
 */
#include "base/limits.h"
#include "commands/command.h"
#include "commands/help.h"
#include "commands/start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* X(command): lk_command_<command>, in the order of the help. */
#define COMMANDS(X)                                                                                \
    X(run)                                                                                         \
    X(replay)                                                                                      \
    X(profile)                                                                                     \
    X(calibrate)                                                                                   \
    X(import)                                                                                      \
    X(collectives)                                                                                 \
    X(analyze) X(doctor) X(predict) X(whatif) X(plan) X(validate) X(compare) X(report) X(export)

#define DECLARE(name) extern const struct lk_command lk_command_##name;
COMMANDS(DECLARE)
#undef DECLARE

static const struct lk_command *const commands[] = {
#define ADDRESS(name) &lk_command_##name,
    COMMANDS(ADDRESS)
#undef ADDRESS
        NULL};

static void print_version(void)
{
    printf("lockstep %s (%s", LK_VERSION, LK_BUILD_CC);
#ifdef LK_HAVE_OPENBLAS
    fputs(", OpenBLAS", stdout);
#endif
#ifdef LK_BUILD_CUDA
    fputs(", " LK_BUILD_CUDA, stdout);
#endif
    puts(")");
    lk_command_backends(stdout);
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

/* Run the command; the text of a failure is in lk_error_text. */
static enum lk_status run(const struct lk_command *c, int argc, char **argv)
{
    if (!wants_help(argc, argv))
        return lk_command_start(c, argc, argv);
    lk_help_command(c, stdout);
    return LK_OK;
}

/* A reader of our output is gone; set by a signal handler, which can reach nothing else. */
static volatile sig_atomic_t reader_gone; /* NOLINT(*-avoid-non-const-global-variables) */

/* Fail if results did not reach the reader, even if the command succeeded. */
static enum lk_status flush_results(enum lk_status st)
{
    errno = reader_gone ? EPIPE : 0; /* in case an earlier write failed */
    if ((fflush(stdout) || ferror(stdout)) && st == LK_OK)
        return lk_fail(LK_EIO, "cannot write to standard output: %s", strerror(errno));
    return st;
}

static void note_reader_gone(int signal)
{
    (void)signal;
    reader_gone = 1;
}

/*
 * Go on when the reader of our output ends, as `head` does: what a command writes and whom it
 * started must not be left half done. A handler, and not SIG_IGN, which programs that we start
 * would inherit.
 */
static void outlive_reader(void)
{
    struct sigaction now, noted = {.sa_handler = note_reader_gone, .sa_flags = SA_RESTART};

    if (!sigaction(SIGPIPE, NULL, &now) && now.sa_handler == SIG_DFL)
        (void)sigaction(SIGPIPE, &noted, NULL);
}

/* End as a program does whose reader is gone, now that all else is done. */
static void end_without_reader(void)
{
    (void)signal(SIGPIPE, SIG_DFL);
    (void)raise(SIGPIPE);
}

/* Open descriptors 0 to 2 where they are closed: files and sockets that get these numbers would be
 * written to as if they were the output. Writing to them fails, and is reported. */
static void occupy_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd)
            _Exit(lk_status_exit_code(LK_EIO));
}

int main(int argc, char **argv)
{
    const struct lk_command *c = NULL;
    const char *name = argc > 1 ? argv[1] : "";
    enum lk_status st = LK_OK;

    occupy_standard_descriptors();
    outlive_reader();
    lk_limits_report_size();

    if (argc < 2) {
        lk_help_program(commands, stderr);
        exit(lk_status_exit_code(LK_EUSAGE));
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        lk_help_program(commands, stdout);
    } else if (!strcmp(name, "help")) {
        st = lk_help_run(commands, LK_VERSION, argc - 2, argv + 2);
    } else if (!strcmp(name, "--version")) {
        print_version();
    } else {
        st = lk_command_find(commands, name, &c);
        if (st == LK_OK)
            st = run(c, argc - 2, argv + 2);
    }
    st = flush_results(st);
    if (reader_gone && st == LK_EIO && strstr(lk_error_text(), strerror(EPIPE)))
        end_without_reader();
    if (st != LK_OK && st != LK_EREPORTED)
        fprintf(stderr, "lockstep%s%s: %s\n", c ? " " : "", c ? c->name : "",
                *lk_error_text() ? lk_error_text() : lk_status_text(st));
    exit(lk_status_exit_code(st));
}
