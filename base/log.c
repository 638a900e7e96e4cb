/* Log lines on stderr; see the header. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const subsystem_keys[LK_LOG_COUNT] = {
#define LK_LOG_KEY_(name, key, help) [name] = key,
    LK_LOG_LIST(LK_LOG_KEY_)
#undef LK_LOG_KEY_
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* Process-wide by design: set once from the command line, before any thread starts. */
static enum lk_log_level levels[LK_LOG_COUNT] = {
#define LK_LOG_WARN_(name, key, help) [name] = LK_WARN,
    LK_LOG_LIST(LK_LOG_WARN_)
#undef LK_LOG_WARN_
};
static int log_rank = -1;

void lk_log_set_rank(int rank)
{
    log_rank = rank;
}

bool lk_log_enabled(enum lk_log_subsystem sub, enum lk_log_level level)
{
    return level <= levels[sub];
}

void lk_log(enum lk_log_subsystem sub, enum lk_log_level level, const char *fmt, ...)
{
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
    if (write(STDERR_FILENO, line, used) < 0)
        return; /* stderr is gone: there is nobody left to tell */
}

static enum lk_status set_one(const char *word, size_t len)
{
    const char *eq = memchr(word, '=', len);
    const char *level_text = eq ? eq + 1 : word;
    size_t level_len = len - (size_t)(level_text - word);
    int sub = -1;
    int level = -1;

    for (int i = 0; i < (int)(sizeof level_names / sizeof *level_names); i++)
        if (strlen(level_names[i]) == level_len && !memcmp(level_names[i], level_text, level_len))
            level = i;
    if (eq)
        for (int i = 0; i < LK_LOG_COUNT; i++)
            if (strlen(subsystem_keys[i]) == (size_t)(eq - word) &&
                !memcmp(subsystem_keys[i], word, (size_t)(eq - word)))
                sub = i;
    if (level < 0 || (eq && sub < 0))
        return lk_fail(LK_EUSAGE,
                       "--log: '%.*s' is not LEVEL or SUBSYSTEM=LEVEL "
                       "(levels: error warn info debug)",
                       (int)len, word);
    for (int i = 0; i < LK_LOG_COUNT; i++)
        if (sub < 0 || sub == i)
            levels[i] = (enum lk_log_level)level;
    return LK_OK;
}

enum lk_status lk_log_configure(const char *text)
{
    enum lk_status st = LK_OK;

    while (*text && st == LK_OK) {
        size_t len = strcspn(text, ",");

        st = set_one(text, len);
        text += len;
        if (*text == ',')
            text++;
    }
    return st;
}
