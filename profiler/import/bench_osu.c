/*
 * Read the text output of the OSU micro-benchmarks' collectives (osu_allreduce and its like, MPI
 * and NCCL, 5.x to 7.x), one table a collective:
 *
 *     # OSU MPI-CUDA Allreduce Latency Test v7.4
 *     # Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
 *     1048576               306.12
 *
 * A size is what one rank gives; of an all-gather all ranks' together are as many times that. Ranks
 * and nodes are not in the output.
 */
#include "profiler/import/bench_impl.h"

#include "base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 512 };

/* A title says this behind the collective's name. */
static const char TITLE[] = "# OSU ", LATENCY[] = " Latency Test";

bool bench_is_osu(const char *text, size_t size)
{
    return memmem(text, size, TITLE, sizeof TITLE - 1) != NULL;
}

static enum lk_status fail(const struct bench_table *t, size_t line, const char *what)
{
    return lk_fail(LK_EPARSE, "%s:%zu: %s", t->path, line, what);
}

/* Begin the table of a title. Its collective is the last word before "Latency Test". */
static enum lk_status begin(struct bench_table *t, const char *title, size_t line,
                            const struct lk_bench_hints *hints, struct lk_bench *out)
{
    const char *path = t->path, *end = strstr(title, LATENCY), *word = end;

    LK_PASS(bench_table_end(t, out));
    *t = (struct bench_table){.path = path, .header_line = line};
    while (word && word > title && word[-1] != ' ')
        word--;
    if (!end || !strncmp(word, "MPI", 3) || strcasestr(title, "One Sided"))
        return fail(t, line, "a test between two ranks: no collective");
    if (strcasestr(title, "Non-Blocking"))
        return fail(t, line,
                    "a nonblocking collective beside compute: it does not say how long "
                    "the collective takes alone");
    if (!bench_coll(word, (size_t)(end - word), &t->program))
        t->program = (struct bench_program){.named = true};
    t->program.line = line;
    return bench_table_begin(t, hints);
}

static enum lk_status read_row(struct bench_table *t, const char *text, size_t line)
{
    char size[32], us[32];
    struct bench_row row = {.line = line, .root = -1};
    int64_t bytes = 0;

    if (sscanf(text, "%31s %31s", size, us) != 2 ||
        lk_parse_int64(size, 0, INT64_MAX / 2, &bytes) != LK_OK ||
        lk_parse_double(us, &row.seconds) != LK_OK)
        return fail(t, line, "no size and latency in a row: the log is cut short or mixed");
    row.seconds *= 1e-6;
    row.bytes = (uint64_t)bytes;
    if (t->program.coll == LK_ALL_GATHER && t->ranks > 0) {
        if (row.bytes > UINT64_MAX / 4 / (uint64_t)t->ranks)
            return fail(t, line, "a size that no machine has");
        row.bytes *= (uint64_t)t->ranks;
    }
    row.algbw = row.seconds > 0 ? (double)row.bytes / row.seconds * 1e-9 : 0;
    row.busbw = row.algbw * lk_coll_busbw_factor(t->program.coll, t->ranks > 1 ? t->ranks : 2);
    return bench_table_row(t, &row);
}

enum lk_status bench_read_osu(const char *path, const char *text, size_t size,
                              const struct lk_bench_hints *hints, struct lk_bench *out)
{
    enum lk_status st = LK_OK;
    struct bench_table t = {.path = path};
    const char *end = text + size;
    size_t line = 0;

    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        char buf[LINE_MOST];
        size_t n;

        stop = stop ? stop : end;
        n = (size_t)(stop - p) < sizeof buf ? (size_t)(stop - p) : sizeof buf - 1;
        memcpy(buf, p, n);
        buf[n] = '\0';
        line++;
        p = stop + 1;
        if (!strncmp(buf, TITLE, sizeof TITLE - 1))
            LK_TRY(begin(&t, buf, line, hints, out));
        else if (t.program.named && isdigit((unsigned char)*buf))
            LK_TRY(read_row(&t, buf, line));
    }
    LK_TRY(bench_table_end(&t, out));
out:
    free(t.rows);
    return st;
}
