/* Log lines on stderr; see the header. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const subsystem_keys[LK_LOG_COUNT] = {
#define LK_LOG_KEY_(name, key, help) [name] = (key),
    LK_LOG_LIST(LK_LOG_KEY_)
#undef LK_LOG_KEY_
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

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

/* One write(2); when stderr is gone there is nobody left to tell. */
static void write_line(const char *line, size_t size)
{
    while (write(STDERR_FILENO, line, size) < 0 && errno == EINTR)
        continue;
}

void lk_log(enum lk_log_subsystem sub, enum lk_log_level level, const char *fmt, ...)
{
    int error = errno; /* a caller may log before it looks */
    char line[2048];
    size_t used;
    int n;
    va_list ap;

    if (!lk_log_enabled(sub, level))
        return;
    if (log_rank >= 0)
        n = snprintf(line, sizeof line, "lockstep[rank %d] %s: %s", log_rank, subsystem_keys[sub],
                     level <= LK_WARN ? (level == LK_ERROR ? "error: " : "warning: ") : "");
    else
        n = snprintf(line, sizeof line, "lockstep %s: %s", subsystem_keys[sub],
                     level <= LK_WARN ? (level == LK_ERROR ? "error: " : "warning: ") : "");
    if (n < 0)
        return;
    used = (size_t)n;
    va_start(ap, fmt);
    n = vsnprintf(line + used, sizeof line - used - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    used = strlen(line);
    line[used++] = '\n';
    write_line(line, used);
    errno = error;
}

/* Index of the word of `len` bytes among n words; -1 when it is none of them. */
static int find_word(const char *const *words, int n, const char *word, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(words[i]) == len && !memcmp(words[i], word, len))
            return i;
    return -1;
}

static enum lk_status set_one(enum lk_log_level *set, const char *word, size_t len)
{
    const char *eq = memchr(word, '=', len);
    const char *level_text = eq ? eq + 1 : word;
    int level = find_word(level_names, (int)(sizeof level_names / sizeof *level_names), level_text,
                          len - (size_t)(level_text - word));
    int sub = eq ? find_word(subsystem_keys, LK_LOG_COUNT, word, (size_t)(eq - word)) : -1;

#define LK_LOG_WORD_(name, key, help) " " key
    if (level < 0 || (eq && sub < 0))
        return lk_fail(LK_EUSAGE,
                       "log level '%.*s' is not LEVEL or SUBSYSTEM=LEVEL "
                       "(levels: error warn info debug; subsystems:%s)",
                       (int)len, word, LK_LOG_LIST(LK_LOG_WORD_));
#undef LK_LOG_WORD_
    for (int i = 0; i < LK_LOG_COUNT; i++)
        if (sub < 0 || sub == i)
            set[i] = (enum lk_log_level)level;
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
