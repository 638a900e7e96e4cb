/*
 * lockstep: measures how well a data-parallel training job scales and forecasts the rest.
 *
 * This file is the table of subcommands, and the only caller of exit. What a subcommand does lives
 * in commands/.
 */
#include "base/array.h"
#include "base/option.h"
#include "commands/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(command): lk_command_<command>, in the order of the help. */
#define COMMANDS(X)                                                                                \
    X(run) X(replay) X(calibrate) X(import) X(analyze) X(predict) X(whatif) X(validate) X(report)

#define DECLARE(name) extern const struct lk_command lk_command_##name;
COMMANDS(DECLARE)
#undef DECLARE

static const struct lk_command *const commands[] = {
#define ROW(name) &lk_command_##name,
    COMMANDS(ROW)
#undef ROW
        NULL};

static void print_usage(FILE *out)
{
    fputs("usage: lockstep COMMAND [options]\n\n"
          "Measures how well a data-parallel training job scales, explains the loss, and\n"
          "forecasts more GPUs, batches and buckets with an interval.\n\ncommands:\n",
          out);
    for (size_t i = 0; commands[i]; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->help);
    fputs("\n  lockstep COMMAND --help   options of a command\n"
          "  lockstep --version        version and build\n",
          out);
}

static void print_version(void)
{
    printf("lockstep %s (%s", LK_VERSION, LK_BUILD_CC);
#ifdef LK_HAVE_OPENBLAS
    fputs(", OpenBLAS", stdout);
#endif
#ifdef LK_BUILD_CUDA
    fputs(", " LK_BUILD_CUDA, stdout);
#endif
    fputs(")\ndevices: cpu timed", stdout);
#ifdef LK_HAVE_CUDA
    fputs(" cuda", stdout);
#endif
    fputs("\ncollectives: self tcp", stdout);
#ifdef LK_HAVE_NCCL
    fputs(" nccl", stdout);
#endif
    puts(" fault");
}

static void print_command_help(const struct lk_command *c)
{
    printf("usage: lockstep %s [options] %s\n\n%s\n\noptions:\n", c->name, c->usage, c->help);
    lk_option_help(c->options, stdout);
}

static const struct lk_command *find(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[LK_COUNT(commands)] = {NULL};
    size_t n = 0;
    const char *near;

    for (; commands[n]; n++)
        names[n] = commands[n]->name;
    near = lk_option_nearest(name, names, n);
    fprintf(stderr, "lockstep: no command '%s'%s%s%s\n", name, near ? "; did you mean '" : "",
            near ? near : "", near ? "'?" : "");
    return lk_status_exit_code(LK_EUSAGE);
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

/* Runs the command line; the text of a failure is in lk_error_text. */
static enum lk_status run(const struct lk_command *c, int argc, char **argv)
{
    if (!wants_help(argc, argv))
        return c->run(argc, argv);
    print_command_help(c);
    return LK_OK;
}

/* Results that did not reach the reader are a failure, whatever the command thought. */
static enum lk_status flush_results(enum lk_status st)
{
    if ((fflush(stdout) || ferror(stdout)) && st == LK_OK)
        return lk_fail(LK_EIO, "cannot write to standard output");
    return st;
}

int main(int argc, char **argv)
{
    const struct lk_command *c = NULL;
    const char *name = argc > 1 ? argv[1] : "";
    enum lk_status st = LK_OK;

    if (argc < 2) {
        print_usage(stderr);
        exit(lk_status_exit_code(LK_EUSAGE));
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_usage(stdout);
    } else if (!strcmp(name, "--version")) {
        print_version();
    } else {
        c = find(name);
        if (!c)
            exit(unknown_command(name));
        st = run(c, argc - 2, argv + 2);
    }
    st = flush_results(st);
    if (st != LK_OK && st != LK_EREPORTED)
        fprintf(stderr, "lockstep%s%s: %s\n", c ? " " : "", c ? c->name : "",
                *lk_error_text() ? lk_error_text() : lk_status_text(st));
    exit(lk_status_exit_code(st));
}
