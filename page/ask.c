/*
 * The entry of the page's module: the same commands as the program's, over files in memory. A page
 * puts its job and cluster there, asks with the words of a command line, and reads what the command
 * has written:
 *
 *     text = alloc(size + 1); ... put("job.json", text, size); put("cluster.json", ...);
 *     ask("predict\0job.json\0cluster.json\0--gpus=8\0--format=json\0", size) -> exit code
 *     text("-"), size("-"), error()
 */
#include "base/array.h"
#include "commands/command.h"
#include "commands/start.h"
#include "page/memory.h"

#include <stdlib.h>
#include <string.h>

/* Declare and begin a function that the page calls by this name. */
#define EXPORT(type, name, ...)                                                                    \
    type page_##name(__VA_ARGS__) __attribute__((export_name(#name)));                             \
    type page_##name(__VA_ARGS__)

enum { WORDS_MAX = 256 };

extern const struct lk_command lk_command_predict, lk_command_whatif;

static const struct lk_command *const commands[] = {&lk_command_predict, &lk_command_whatif, NULL};

EXPORT(void *, alloc, size_t size)
{
    return malloc(size);
}

EXPORT(void, free, void *p)
{
    free(p);
}

/* Put a file; its text, with a NUL at its end, is the module's from now on. 0: done. */
EXPORT(int, put, const char *name, char *text, size_t size)
{
    return lk_status_exit_code(page_file_put(name, text, size));
}

EXPORT(void, remove, const char *name)
{
    page_file_remove(name);
}

EXPORT(const char *, text, const char *name)
{
    size_t size;

    return page_file_text(name, &size);
}

EXPORT(size_t, size, const char *name)
{
    size_t size;

    (void)page_file_text(name, &size);
    return size;
}

/* Return the text of the last failure. */
EXPORT(const char *, error, void)
{
    return lk_error_text();
}

static enum lk_status ask(char *words, size_t size)
{
    const struct lk_command *c = NULL;
    char *argv[WORDS_MAX];
    int n = 0;

    for (char *p = words; p < words + size; p += strlen(p) + 1) {
        if (n == WORDS_MAX)
            return lk_fail(LK_EUSAGE, "more than %d words", WORDS_MAX);
        argv[n++] = p;
    }
    if (!n)
        return lk_fail(LK_EUSAGE, "which command?");
    LK_PASS(lk_command_find(commands, argv[0], &c));
    return lk_command_start(c, n - 1, argv + 1);
}

/* Run a command: its words, each with a NUL at its end. Return the exit code. */
EXPORT(int, ask, char *words, size_t size)
{
    page_file_remove("-");
    return lk_status_exit_code(ask(words, size));
}

/* Draw the last forecast as "chart-0.svg", ... Return how many there are. */
EXPORT(int, draw, void)
{
    return 0;
}
