/* A line of progress at a terminal; see the header. */
#include "base/progress.h"

#include "base/clock.h"
#include "base/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 80, LINE_MAX_BYTES = 512 };
static const double QUIET_S = 2, AGAIN_S = 0.25; /* before the first line, between two */
/* The time left is guessed from this share of the work on. */
static const double LEAST_SHARE = 0.02;

/* The terminal's line is one, and so is its state. */
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static struct {
    bool on;
    uint64_t begun_ns, shown_ns; /* of the whole work */
    double outer_from, outer_to; /* what the environment gives this process */
    double from, to;             /* of this part */
    char outer[LK_PROGRESS_TEXT], text[LK_PROGRESS_TEXT];
} line;
static atomic_size_t shown; /* columns that are written over */
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

/* Write all of a text if the terminal takes it now. */
static bool put(const char *text, size_t n)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
        return false;
    while (write(STDERR_FILENO, text, n) < 0 && errno == EINTR)
        continue;
    return true;
}

/* Return the columns of the terminal that a line may have; one is left, or it would wrap. */
static size_t columns(void)
{
    size_t n = lk_terminal_columns(STDERR_FILENO);

    return (n > 1 ? n : WIDTH) - 1;
}

/* Write a text over the line. */
static void show(const char *text)
{
    char buf[LINE_MAX_BYTES];
    size_t room = columns(), n = strlen(text), before = atomic_load(&shown), pad;

    room = room < sizeof buf - 3 ? room : sizeof buf - 3;
    n = n < room ? n : room;
    pad = before > n ? before - n : 0;
    pad = pad < room - n ? pad : room - n;
    snprintf(buf, sizeof buf, "\r%.*s%*s%s", (int)n, text, (int)pad, "", n ? "" : "\r");
    if (put(buf, strlen(buf)))
        atomic_store(&shown, n);
}

void lk_progress_hide(void)
{
    if (atomic_load(&shown))
        show("");
}

/* Read what the process that started this one says: "BEGUN_NS FROM TO TEXT". */
static void read_outer(void)
{
    const char *given = getenv(LK_PROGRESS_ENV);
    unsigned long long begun_ns;
    int at = 0;

    line.begun_ns = lk_monotonic_ns();
    line.outer_to = 1;
    if (!given ||
        sscanf(given, "%llu %lf %lf %n", &begun_ns, &line.outer_from, &line.outer_to, &at) != 3)
        return;
    line.begun_ns = begun_ns;
    snprintf(line.outer, sizeof line.outer, "%s", given + at);
}

void lk_progress_begin(double from, double to, const char *fmt, ...)
{
    va_list args;

    if (!line.begun_ns) {
        line.on = isatty(STDERR_FILENO) == 1;
        read_outer();
    }
    line.from = from;
    line.to = to;
    va_start(args, fmt);
    (void)vsnprintf(line.text, sizeof line.text, fmt, args);
    va_end(args);
    lk_progress(NULL, 0, 1);
}

/* Return the share of the whole that is done. */
static double share_of(double done, double total)
{
    double part = line.from + (total > 0 ? done / total : 0) * (line.to - line.from);

    return line.outer_from + part * (line.outer_to - line.outer_from);
}

/* Write ", 12 s left"; nothing where it cannot be told yet. */
static void left_text(double share, double elapsed_s, char *buf, size_t size)
{
    double left_s = share > 0 ? elapsed_s * (1 - share) / share : 0;

    buf[0] = '\0';
    if (share < LEAST_SHARE)
        return;
    if (left_s < 100)
        snprintf(buf, size, ", %.0f s left", left_s);
    else if (left_s < 6000)
        snprintf(buf, size, ", %.0f min left", left_s / 60);
    else
        snprintf(buf, size, ", %.0f h left", left_s / 3600);
}

void lk_progress(const char *unit, double done, double total)
{
    uint64_t now_ns = lk_monotonic_ns();
    double elapsed_s = (double)(now_ns - line.begun_ns) / (double)LK_NS_PER_S;
    char text[2 * LK_PROGRESS_TEXT + 256], count[96] = "", left[48] = "";

    if (!line.on || elapsed_s < QUIET_S ||
        (double)(now_ns - line.shown_ns) < AGAIN_S * (double)LK_NS_PER_S)
        return;
    line.shown_ns = now_ns;
    if (unit && total > 0)
        snprintf(count, sizeof count, ": %s %.0f of %.0f", unit, done, total);
    else if (unit)
        snprintf(count, sizeof count, ": %s %.0f", unit, done);
    if (total > 0)
        left_text(share_of(done, total), elapsed_s, left, sizeof left);
    snprintf(text, sizeof text, "%s%s%s%s%s", line.outer, *line.outer && *line.text ? ", " : "",
             line.text, count, left);
    show(text);
}

void lk_progress_end(void)
{
    lk_progress_hide();
    line.on = false;
    line.begun_ns = 0;
}

const char *lk_progress_child(size_t i, size_t n, char *buf, const char *fmt, ...)
{
    double each = 1 / (double)(n ? n : 1);
    char text[LK_PROGRESS_TEXT / 2];
    va_list args;

    if (!line.begun_ns)
        line.begun_ns = lk_monotonic_ns();
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(buf, LK_PROGRESS_TEXT, LK_PROGRESS_ENV "=%llu %.9f %.9f %s",
             (unsigned long long)line.begun_ns, (double)i * each, (double)(i + 1) * each, text);
    return buf;
}
