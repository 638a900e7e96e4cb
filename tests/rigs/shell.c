/* Shell command lines. */
#include "tests/rigs/shell.h"

#include "base/array.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static struct shell_result run(const char *line)
{
    FILE *f = popen(line, "r"); /* NOLINT(cert-env33-c): words of tests and scratch paths */
    struct shell_result r = {.code = -1};
    int status;

    ck_assert_ptr_nonnull(f);
    r.text[fread(r.text, 1, sizeof r.text - 1, f)] = '\0';
    while (fgetc(f) != EOF)
        continue;
    status = pclose(f);
    ck_assert_msg(WIFEXITED(status), "%s: ended by a signal", line);
    r.code = WEXITSTATUS(status);
    return r;
}

struct shell_result shell_run(const char *format, ...)
{
    char line[4096];
    va_list ap;

    va_start(ap, format);
    ck_assert_int_lt(vsnprintf(line, sizeof line, format, ap), (int)sizeof line);
    va_end(ap);
    return run(line);
}

struct shell_result shell_program(const char *dir, const char *format, ...)
{
    char words[4096], *program = realpath(LK_BUILD_DIR "/lockstep", NULL), *line = NULL;
    struct shell_result r;
    va_list ap;

    ck_assert_ptr_nonnull(program);
    va_start(ap, format);
    ck_assert_int_lt(vsnprintf(words, sizeof words, format, ap), (int)sizeof words);
    va_end(ap);
    ck_assert_int_eq(lk_asprintf(&line, "cd '%s' && '%s' %s 2>&1", dir, program, words), LK_OK);
    r = run(line);
    free(line);
    free(program);
    return r;
}
