/* The gates of a page; see the header. */
#include "reports/gates.h"

#include "base/file.h"
#include "reports/junit.h"

#include <stdio.h>

/* Fail before the work if the file cannot be written; a device or a pipe is left alone. */
static enum lk_status check_writable(const char *path)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;

    if (!lk_file_exists(path) || lk_is_file(path) || lk_is_folder(path))
        st = lk_writer_open(path, false, &w);
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_gates_open(const struct lk_gate_options *o, const char *main_value,
                             struct lk_gates *out)
{
    char below[128];
    char bound[40];

    if (o->fail_if)
        LK_PASS(lk_fail_context(lk_gates_add(out, o->fail_if), "--fail-if"));
    if (o->fail_below > 0) {
        snprintf(below, sizeof below, "%s<%s", main_value,
                 lk_units_exact(LK_DIM_NONE, o->fail_below, bound, sizeof bound));
        LK_PASS(lk_gates_add(out, below));
    }
    if (!o->junit)
        return LK_OK;
    if (!out->n)
        return lk_fail(LK_EUSAGE, "--junit needs conditions: --fail-below or --fail-if");
    return lk_fail_context(check_writable(o->junit), "--junit");
}

enum lk_status lk_gates_close(const struct lk_gate_options *o, const char *command,
                              const struct lk_page *page, struct lk_gates *gates)
{
    size_t failed;

    LK_PASS(lk_gates_judge(gates, page));
    if (o->junit)
        LK_PASS(lk_junit_write(o->junit, command, gates, page));
    failed = lk_gates_count(gates, LK_GATE_FAILED);
    if (fflush(stdout))
        return lk_fail(LK_EIO, "cannot write to standard output");
    for (size_t i = 0; i < gates->n; i++)
        if (gates->gates[i].result == LK_GATE_FAILED)
            fprintf(stderr, "lockstep %s: failed: %s\n", command, gates->gates[i].message);
    for (size_t i = 0; i < gates->n; i++)
        if (gates->gates[i].result == LK_GATE_ERROR)
            return lk_fail(LK_EUSAGE, "%s", gates->gates[i].message);
    return failed ? lk_fail(LK_EGATE, "%zu of %zu condition%s failed", failed, gates->n,
                            gates->n == 1 ? "" : "s")
                  : LK_OK;
}
