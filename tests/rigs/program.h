/* Run the program under test as a user would, and track every process that it starts. */
#ifndef LK_TESTS_PROGRAM_H
#define LK_TESTS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * One run of build/lockstep. It leads a process group of its own, and this process adopts its
 * orphans, so that none is lost.
 */
struct program {
    pid_t pid;
    char *out_path, *err_path;
    /* After program_wait: */
    int code;        /* exit code, or -1 when a signal ended it */
    int signal;      /* 0: none */
    char *out, *err; /* its output */
};

/* Called in the child before it executes the program; NULL: nothing. */
typedef void (*program_setup)(void *ctx);

/* Start "build/lockstep WORDS", words separated by blanks. Output goes to files in dir. */
void program_start(struct program *p, const char *dir, program_setup setup, void *ctx,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Wait for its end and read its output; one that never ends is killed, and fails the test. */
void program_wait(struct program *p);
void program_fini(struct program *p);

/* Wait for the group's processes to end; return the number of those left, without zombies. */
int program_left(const struct program *p);
/* Wait for the group's process with RANK=rank in its environment; return its pid, 0: none. */
pid_t program_rank(const struct program *p, int rank);

/* Start, wait, and check the exit code. */
void program_run(struct program *p, const char *dir, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Check that these words are in its error output. */
void program_assert_says(const struct program *p, const char *words);
/* Count the error lines of `lockstep run`: its failure is reported once, not by every rank. */
int program_error_lines(const struct program *p);

/*
 * Bind a socket to a free port, to be closed after the program: other processes do not get the port
 * meanwhile unless they ask for it. With SO_REUSEADDR on both, a socket that does not listen does
 * not block one that does.
 */
int program_hold_port(int *port);

#endif
