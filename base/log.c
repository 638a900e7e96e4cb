/* Log lines on stderr; see the header. */
#include "base/log.h"

#include "base/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct lk_words subsystems = LK_WORDS("a subsystem", LK_LOG_LIST);
static const struct lk_words level_words = LK_WORDS("a level", LK_LOG_LEVEL_LIST);

/* Process-wide by design: set once from the command line, before any thread starts. */
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static enum lk_log_level levels[LK_LOG_COUNT] = {
#define LK_LOG_WARN_(name, key, help) [name] = LK_WARN,
    LK_LOG_LIST(LK_LOG_WARN_)
#undef LK_LOG_WARN_
};
static int log_rank = -1;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

void lk_log_set_rank(int rank)
{
    log_rank = rank;
}

bool lk_log_enabled(enum lk_log_subsystem sub, enum lk_log_level level)
{
    return level <= levels[sub];
}

/* Write a line with one write(2); a failure is ignored, because there is nowhere to report it. */
static void write_line(const char *line, size_t size)
{
    while (write(STDERR_FILENO, line, size) < 0 && errno == EINTR)
        continue;
}

void lk_log(enum lk_log_subsystem sub, enum lk_log_level level, const char *fmt, ...)
{
    int error = errno; /* a caller may log before it reads errno */
    char line[2048], rank[24] = "";
    size_t used;
    int n;
    va_list ap;

    if (!lk_log_enabled(sub, level))
        return;
    if (log_rank >= 0)
        snprintf(rank, sizeof rank, "[rank %d]", log_rank);
    n = snprintf(line, sizeof line, "lockstep%s %s: %s", rank, subsystems.names[sub],
                 level == LK_ERROR  ? "error: "
                 : level == LK_WARN ? "warning: "
                                    : "");
    if (n < 0)
        return;
    used = (size_t)n;
    va_start(ap, fmt);
    n = vsnprintf(line + used, sizeof line - used - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    lk_printable(line);
    used = strlen(line);
    line[used++] = '\n';
    lk_progress_hide();
    write_line(line, used);
    errno = error;
}

/* Set the levels that one item of the list names; it has `len` bytes. */
static enum lk_status set_one(enum lk_log_level *set, const char *item, size_t len)
{
    char text[64], known[128];
    char *level_text = text, *eq;
    enum lk_log_level level;
    int sub = -1; /* -1: all of them */

    snprintf(text, sizeof text, "%.*s", (int)len, item);
    eq = strchr(text, '=');
    if (eq) {
        *eq = '\0';
        level_text = eq + 1;
    }
    if (lk_words_find(&level_words, level_text, &level) != LK_OK ||
        (eq && lk_words_find(&subsystems, text, &sub) != LK_OK))
        return lk_fail(LK_EUSAGE,
                       "log level '%.*s' is not LEVEL or SUBSYSTEM=LEVEL "
                       "(levels: error warn info debug; subsystems:%s)",
                       (int)len, item, lk_words_list(&subsystems, known, sizeof known));
    for (int i = 0; i < LK_LOG_COUNT; i++)
        if (sub < 0 || sub == i)
            set[i] = level;
    return LK_OK;
}

enum lk_status lk_log_configure(const char *text)
{
    enum lk_log_level set[LK_LOG_COUNT];

    memcpy(set, levels, sizeof set);
    for (;;) {
        size_t len = strcspn(text, ",");
        enum lk_status st = set_one(set, text, len);

        if (st != LK_OK)
            return st;
        text += len;
        if (!*text)
            break;
        text++;
    }
    memcpy(levels, set, sizeof set);
    return LK_OK;
}
