/*
 * Status codes and the error text that goes with them.
 *
 * A fallible function returns `enum lk_status`; its results go through out-parameters that are
 * written only on success. The text of the last failure is kept per thread, so a message made deep
 * in the call tree reaches the user unchanged:
 *
 *     enum lk_status load(const char *path)
 *     {
 *         enum lk_status st = LK_OK;
 *         FILE *f = fopen(path, "r");
 *         if (!f)
 *             return lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
 *         LK_TRY(parse(f));            // jumps to out: on failure
 *     out:
 *         fclose(f);
 *         return st;
 *     }
 */
#ifndef LK_BASE_STATUS_H
#define LK_BASE_STATUS_H

/* X(name, text, exit code of the program) */
#define LK_STATUS_LIST(X)                                                                          \
    X(LK_OK, "ok", 0)                                                                              \
    X(LK_EUSAGE, "wrong usage", 2)                                                                 \
    X(LK_EPARSE, "malformed input", 1)                                                             \
    X(LK_EIO, "input or output failed", 1)                                                         \
    X(LK_ENOMEM, "out of memory", 1)                                                               \
    X(LK_ETIMEOUT, "deadline passed", 1)                                                           \
    X(LK_EPEER, "another rank failed", 1)                                                          \
    X(LK_EUNSUPPORTED, "not available in this build or on this machine", 1)                        \
    X(LK_EVERIFY, "verification failed", 1)                                                        \
    X(LK_EEVIDENCE, "no evidence for the answer", 1)                                               \
    X(LK_ECONTRADICTED, "what is known contradicts the answer", 1)                                 \
    X(LK_EGATE, "a condition of --fail-if or --fail-below is met", 3)                              \
    X(LK_EINTERNAL, "internal error", 1)                                                           \
    X(LK_EREPORTED, "failed, and the user was told already", 1)

enum lk_status {
#define LK_STATUS_ENUM_(name, text, code) name,
    LK_STATUS_LIST(LK_STATUS_ENUM_)
#undef LK_STATUS_ENUM_
};

/*
 * Set this thread's error text (printf style) and return `code`, for `return lk_fail(...)`. Passing
 * LK_OK is a mistake of the caller and returns LK_EINTERNAL.
 */
#define lk_fail(code, ...) lk_failed_(lk_fail_((code), __VA_ARGS__))

/* Put "context: " before this thread's error text and return `st`; do nothing for LK_OK. */
enum lk_status lk_fail_context(enum lk_status st, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Replace each control character of a text, with which a job's name or a file's could move the
 * cursor or recolour a terminal, by '?'. Line feeds, tabs and other UTF-8 stay. Return text. Error
 * texts, log lines and tables are treated so. */
char *lk_printable(char *text);

/* Return the text of this thread's last failure, or "". Valid until the next failure. */
const char *lk_error_text(void);

/* Return the general text of a code, e.g. "malformed input". */
const char *lk_status_text(enum lk_status st);

/* Return the exit code of the program for a status: 0 ok, 1 failed, 2 usage, 3 a gate failed, or
 * what lk_fail_exit said last. */
int lk_status_exit_code(enum lk_status st);

/* End the program with an exit code of another program's: return LK_OK for 0, else LK_EREPORTED, to
 * which the code belongs until the next failure. */
enum lk_status lk_fail_exit(int code);

/* Evaluate a fallible call; on failure store the code in the local `st` and jump to `out`, where
 * the function releases what it has. */
#define LK_TRY(call)                                                                               \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != LK_OK)                                                                           \
            goto out;                                                                              \
    } while (0)

/* Evaluate a fallible call; on failure return its code. For functions that have nothing to release:
 * those that have use LK_TRY alone (tools/layering checks that no function has both). */
#define LK_PASS(call)                                                                              \
    do {                                                                                           \
        enum lk_status st_ = (call);                                                               \
        if (st_ != LK_OK)                                                                          \
            return st_;                                                                            \
    } while (0)

/* Evaluate a call in the cleanup after `out:` and keep the first error, so that a failing close
 * does not hide its cause. */
#define LK_KEEP(call)                                                                              \
    do {                                                                                           \
        if (st == LK_OK)                                                                           \
            st = (call);                                                                           \
        else                                                                                       \
            lk_quietly_(call);                                                                     \
    } while (0)

/* Private part: only for the macros above, and those of base/json.h and base/csv.h that fail. */
enum lk_status lk_fail_(enum lk_status code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Inline, so that compilers and analyzers see that results are written where a call succeeds. */
static inline enum lk_status lk_failed_(enum lk_status code)
{
    return code == LK_OK ? LK_EINTERNAL : code;
}
struct lk_saved_error_ {
    char text[1024];
    int exit_code; /* of LK_EREPORTED; 0: its own */
};
void lk_error_save_(struct lk_saved_error_ *out);
void lk_error_restore_(const struct lk_saved_error_ *in);
#define lk_quietly_(call)                                                                          \
    do {                                                                                           \
        struct lk_saved_error_ saved_;                                                             \
        lk_error_save_(&saved_);                                                                   \
        (void)(call);                                                                              \
        lk_error_restore_(&saved_);                                                                \
    } while (0)

#endif
