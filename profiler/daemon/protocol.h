/*
 * The messages between libkineto, PyTorch's recorder, and a profiling daemon on its machine.
 *
 * With KINETO_USE_DAEMON=1 each process that imports torch asks a daemon, every few seconds,
 * whether it is to record. A message is one datagram of a UNIX socket, in the byte order of the
 * machine: a header of 40 bytes, {uint64 bytes of the payload, char type[32]}, and the payload.
 * Both types are answered with a message of the same type:
 *
 *     "ctxt"  {int32 gpu, int32 pid, int64 job}                    int32: processes of the job
 *     "req"   {int32 kinds, int32 n, int64 job, int32 pids[n]}     text: what to record; empty:
 * nothing
 *
 * pids are the process and its ancestors, in its own PID namespace; kinds has the bit 2 while the
 * process can take such a text. Newer versions send no "ctxt". Sources: pytorch/kineto 114171d,
 * libkineto/src/IpcFabricConfigClient.cpp and Config.cpp; facebookincubator/dynolog c3a231a,
 * dynolog/src/ipcfabric/{FabricManager,Utils}.h and tracing/IPCMonitor.cpp.
 */
#ifndef LK_PROFILER_DAEMON_PROTOCOL_H
#define LK_PROFILER_DAEMON_PROTOCOL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LK_KINETO_HEADER_BYTES = 40,
    LK_KINETO_PIDS_MAX = 1024, /* libkineto sends at most ten or so */
    /* The longest message that is read. */
    LK_KINETO_MESSAGE_BYTES = LK_KINETO_HEADER_BYTES + 16 + 4 * LK_KINETO_PIDS_MAX
};

enum lk_kineto_type { LK_KINETO_CONTEXT, LK_KINETO_REQUEST };

struct lk_kineto_message {
    enum lk_kineto_type type;
    int64_t job; /* SLURM_JOB_ID, or 0 */
    int32_t pid; /* of the sender, in its own PID namespace */
    bool ready;  /* of a request: the process can take what to record; it is not recording */
};

/* Read a datagram. LK_EPARSE says what is wrong with it: nothing of it is trusted. */
enum lk_status lk_kineto_parse(const void *data, size_t size, struct lk_kineto_message *out);

/* Make the answer to a message: *out, of *size bytes, is freed by the caller. The payload of a
 * context's answer is `processes`, that of a request's is `text`, which may be "". */
enum lk_status lk_kineto_answer(enum lk_kineto_type type, int32_t processes, const char *text,
                                char **out, size_t *size);

/* The steps, or the time, that a process is to record. */
struct lk_kineto_recording {
    const char *file;   /* ends with ".json"; the process puts "_PID" before that */
    int64_t iterations; /* optimizer steps to record; 0: record by time */
    int64_t after;      /* the first iteration to record, counted from the process's start */
    int64_t multiple;   /* where that one is over: begin at the next multiple of this */
    int64_t start_ms;   /* by time: when to begin, ms since the epoch */
    int64_t length_ms;  /* by time: how long */
};

/*
 * Write what to record as the text that libkineto parses; the caller frees it. A process ignores
 * one by iterations until its first optimizer step: it may be sent again. LK_EUSAGE for a file
 * whose path libkineto would not take as it is (lk_kineto_check_path).
 */
enum lk_status lk_kineto_recording_text(const struct lk_kineto_recording *r, char **out);

/*
 * Fail with LK_EUSAGE if libkineto cannot write below a folder: its parser cuts a line at '#',
 * takes a second '=' for an error and trims blanks, ".." is refused, and "_PID" goes before the
 * first
 * ".json".
 */
enum lk_status lk_kineto_check_path(const char *folder);

#endif
