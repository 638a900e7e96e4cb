/* Run a shell command line as a user would type it, and get its output and exit code. */
#ifndef LK_TESTS_SHELL_H
#define LK_TESTS_SHELL_H

struct shell_result {
    char text[1 << 16]; /* the beginning of standard output; 2>&1 in the line joins the streams */
    int code;
};

/* Run a line; if a signal ends it, the test ends. */
struct shell_result shell_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Run build/lockstep with these words in the folder; standard output and error together. */
struct shell_result shell_program(const char *dir, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
