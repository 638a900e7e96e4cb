/* A line of shell, as a user would type it: what it printed, and its exit code. */
#ifndef LK_TESTS_SHELL_H
#define LK_TESTS_SHELL_H

struct shell_result {
    char text[1 << 16]; /* the beginning of standard output; 2>&1 in the line joins the streams */
    int code;
};

/* A line that ends by a signal ends the test. */
struct shell_result shell_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* build/lockstep with these words, from the folder; standard output and error together. */
struct shell_result shell_program(const char *dir, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
