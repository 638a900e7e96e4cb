/*
 * Record what a foreign process does. Writers are MPI's wrappers
 * (preload/mpi.c), NCCL's profiler plugin, NVTX's injection and CUPTI's callbacks.
 *
 *     struct lk_foreign_record r = {.kind = LK_FOREIGN_RANGE, .name = id, .peer = -1,
 *                                 .lane = lk_foreign_thread(), .start_ns = start, .end_ns = end};
 *     lk_foreign_emit(&r);
 *
 * The file, HOST.PID.probe in the folder LOCKSTEP_PROFILE_DIR, is made at the first call of
 * lk_foreign_emit, lk_foreign_name or lk_foreign_group. It holds the last LOCKSTEP_PROFILE_MIB MiB
 * of records (4 unless set). Without the folder, or without space for the file, nothing is
 * recorded; a file that could not get its space is left behind empty.
 *
 * No function here fails its caller, blocks, allocates, writes to a stream, or changes errno. All
 * may be called by any thread, and by signal handlers. A forked child records nothing until it
 * executes a program, which begins a file of its own.
 */
#ifndef LK_PRELOAD_RECORD_H
#define LK_PRELOAD_RECORD_H

#include "facts/foreign_file.h"

#include <stdbool.h>

/* The library is built with hidden symbols: these are the ones that others find. */
#define LK_FOREIGN_EXPORT __attribute__((visibility("default")))

/* Return whether records are kept: the folder is set, and the file could be made. Cheap. */
bool lk_foreign_on(void);
/* The same, but wait while another thread makes the file: for what happens once, such as the start
 * of a communicator. */
bool lk_foreign_begin(void);
/* Append a record; its stamp is set here. When the ring is full, the oldest one goes. */
void lk_foreign_emit(const struct lk_foreign_record *r);
/* Return when the first collective's call ended; 0: there was none. */
int64_t lk_foreign_first_collective(void);
/* Count a record that its source could not keep. */
void lk_foreign_lose(void);
/* Return the id of a text, the same for equal texts; 0: it is NULL or empty, or the table is full
 * (counted). */
uint32_t lk_foreign_name(const char *text);
/* Return the id of a communicator of a library, "mpi" or "nccl", the same for equal identities;
 * name may be NULL. 0: the table is full (counted). */
uint32_t lk_foreign_group(const char *library, uint64_t identity, const char *name, int n_ranks,
                          int rank);
/* Return the number of this thread. */
uint32_t lk_foreign_thread(void);
/* Return the time, ns of CLOCK_MONOTONIC_RAW. */
int64_t lk_foreign_now(void);

/* Enter and leave a wrapper or callback; false: this thread is in one already (a library calls
 * itself), and the caller records nothing and does not leave. */
bool lk_foreign_enter(void);
void lk_foreign_leave(void);

/*
 * The window, for CUPTI alone (preload/cupti.c): a second area of the file, as large as the ring,
 * where all records go while it is open. It is made when it is opened.
 */
/* Open it, once: later calls return the same. False: there is no file, or no room (the file says
 * so). Makes the file. start_ns: from when on all that the process did is recorded. */
bool lk_foreign_window_open(int64_t start_ns);
/* Append a record, whether it is still open or not. pre: it was opened. When it is full, its end
 * becomes the record's start, if that is earlier. */
void lk_foreign_window_emit(const struct lk_foreign_record *r);
bool lk_foreign_window_is_full(void);
/* Close it, if it is open; what happens after end_ns is not all in it. */
void lk_foreign_window_close(int64_t end_ns);
/* Count records of the window that CUPTI had no buffer for. */
void lk_foreign_window_drop(uint64_t n);
/* Say in the file, if there is one, what came of CUPTI; error: its result, or 0. */
void lk_foreign_cupti(enum lk_foreign_cupti what, uint32_t error);

/*
 * Measure what recording takes of the process's threads: every 17th piece of work of a thread is
 * timed, and counts for all.
 *
 *     const int64_t since = lk_foreign_cost_begin();
 *     ...
 *     lk_foreign_cost_end(since);
 */
int64_t lk_foreign_cost_begin(void);
void lk_foreign_cost_end(int64_t since);
/* Add a time that was measured otherwise. */
void lk_foreign_spent(int64_t ns);

#endif
