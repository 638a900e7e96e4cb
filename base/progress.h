/*
 * Say what a command is doing, and how long that still takes, in one line at a terminal:
 *
 *     run 3 of 12, 2 ranks: step 40 of 80, 12 s left
 *
 * The line is written over and erased in the end. There is none where standard error is no
 * terminal, none in the first two seconds, and none while the terminal takes no output (Ctrl-S):
 * the work never waits for it. No control codes but the carriage return are written.
 *
 * A process has one terminal, so the line is the process's own, and any function may tell it of its
 * work. Only the thread that began it may; lk_log, which erases it, is called by any. Functions do
 * nothing in a process that has not begun one.
 */
#ifndef LK_BASE_PROGRESS_H
#define LK_BASE_PROGRESS_H

#include <stddef.h>

/* Environment variable by which a process tells one that it starts of which part of its own work
 * that one is. */
#define LK_PROGRESS_ENV "LOCKSTEP_PROGRESS"
enum { LK_PROGRESS_TEXT = 256 }; /* bytes of its value */

/* Begin the part of the work from `from` to `to`, shares of the whole, or of what the environment
 * gives this process. The format (printf) says what is done. */
void lk_progress_begin(double from, double to, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Tell that `done` of `total` of the part are done, counted in `unit`, as "step"; NULL: it is not
 * said in numbers. total 0: not known, nor the time left. */
void lk_progress(const char *unit, double done, double total);
/* Erase the line; the part is over. */
void lk_progress_end(void);
/* Erase the line until the next call of lk_progress, for another line on standard error. */
void lk_progress_hide(void);

/* Write LK_PROGRESS_ENV=... for a process that does the i-th of n pieces of this one's work. buf
 * has LK_PROGRESS_TEXT bytes. Returns it. */
const char *lk_progress_child(size_t i, size_t n, char *buf, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
