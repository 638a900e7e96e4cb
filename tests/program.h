/* Runs the program under test as a user would, and looks after every process
 * that comes of it. */
#ifndef LK_TESTS_PROGRAM_H
#define LK_TESTS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * One run of build/lockstep. It leads a process group of its own, and this process adopts its
 * orphans, so that none gets lost.
 */
struct program {
    pid_t pid;
    char *out_path, *err_path;
    /* After program_wait: */
    int code;        /* exit code, or -1 when a signal ended it */
    int signal;      /* or 0 */
    char *out, *err; /* what it printed */
};

/* What a child does before it becomes the program; NULL: nothing. */
typedef void (*program_setup)(void *ctx);

/* Starts "build/lockstep WORDS", words parted by blanks. Output goes to files
 * in dir. */
void program_start(struct program *p, const char *dir, program_setup setup, void *ctx,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Waits for its end and reads what it printed; one that never ends is killed,
 * and fails the test. */
void program_wait(struct program *p);
void program_fini(struct program *p);

/* Processes of the group that are left, zombies not counted, after waiting for
 * their end. */
int program_left(const struct program *p);
/* Pid of the process of the group with RANK=rank in its environment, which is waited for; 0 when
 * there is none. */
pid_t program_rank(const struct program *p, int rank);

/* Starts, waits and checks the exit code. */
void program_run(struct program *p, const char *dir, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * A socket bound to a free port, to be closed after the program: nobody gets the port meanwhile but
 * who names it. With SO_REUSEADDR on both, one that does not listen is not in the way of one that
 * does.
 */
int program_hold_port(int *port);

#endif
