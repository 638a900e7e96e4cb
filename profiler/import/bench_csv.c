/* Read times of collectives from a user's CSV. */
#include "profiler/import/bench_impl.h"

#include "base/array.h"
#include "base/csv.h"
#include "facts/bounds.h"

#include <math.h>
#include <string.h>

enum column {
    COLL,
    GPUS,
    NODES,
    BYTES,
    SECONDS,
    TIME_US,
    ALGO,
    IN_PLACE,
    ALGBW,
    BUSBW,
    GPU,
    NETWORK,
    VERSION,
    SOURCE,
    N_COLUMNS
};

static const struct lk_csv_column columns[N_COLUMNS] = {
    [COLL] = {"collective", true},
    [GPUS] = {"gpus|n_gpus|ranks", true},
    [NODES] = {"nodes|n_nodes", true},
    [BYTES] = {"bytes|size_bytes", true},
    [SECONDS] = {"seconds|time_s", false},
    [TIME_US] = {"time_us", false},
    [ALGO] = {"algorithm", false},
    [IN_PLACE] = {"in_place", false},
    [ALGBW] = {"algbw", false},
    [BUSBW] = {"busbw", false},
    [GPU] = {"gpu", false},
    [NETWORK] = {"interconnect|network", false},
    [VERSION] = {"nccl_version", false},
    [SOURCE] = {"source", false},
};

/* Allowed difference of a rate from bytes over time, for printed rounding; only rates above the
 * second constant are checked. */
static const double RATE_TOLERANCE = 0.03;
static const double RATE_CHECKED_GBps = 1.0;

static enum lk_status check_rate(const struct lk_csv *t, size_t row, enum column col, double rate)
{
    enum lk_status st = LK_OK;
    double said;

    if (!lk_csv_has(t, row, col))
        return LK_OK;
    LK_TRY(lk_csv_real(t, row, col, 0, INFINITY, &said));
    if (fmax(said, rate) > RATE_CHECKED_GBps && fabs(said - rate) > RATE_TOLERANCE * rate)
        st = lk_csv_error(t, row, col, "%g GB/s, but bytes and time give %g", said, rate);
out:
    return st;
}

static enum lk_status read_time(const struct lk_csv *t, size_t row, double *out)
{
    enum lk_status st = LK_OK;
    double us;

    if (lk_csv_has(t, row, SECONDS) ||
        (lk_csv_has_column(t, SECONDS) && !lk_csv_has_column(t, TIME_US))) {
        st = lk_csv_positive(t, row, SECONDS, out);
    } else if (lk_csv_has_column(t, TIME_US)) {
        LK_TRY(lk_csv_positive(t, row, TIME_US, &us));
        *out = us * 1e-6;
    } else {
        st = lk_csv_error(t, row, SECONDS, "there is neither this column nor 'time_us'");
    }
out:
    return st;
}

/* Set *out to true if the row has the text that hints->where asks for, and the placement. */
static enum lk_status is_wanted(const struct lk_csv *t, size_t row,
                                const struct lk_bench_hints *hints, bool *out)
{
    const char *text;
    const char *sign = hints->where ? strchr(hints->where, '=') : NULL;
    static const enum column pickable[] = {GPU, NETWORK, VERSION, SOURCE, COLL};
    int64_t in_place;

    *out = true;
    if (lk_csv_has(t, row, IN_PLACE)) {
        LK_PASS(lk_csv_int(t, row, IN_PLACE, 0, 1, &in_place));
        *out = in_place == (hints->place == LK_BENCH_IN_PLACE);
    }
    if (!hints->where)
        return LK_OK;
    for (size_t i = 0; sign && i < LK_COUNT(pickable); i++) {
        const char *name = columns[pickable[i]].name;
        size_t n = strcspn(name, "|");

        if ((size_t)(sign - hints->where) != n || strncmp(name, hints->where, n) != 0)
            continue;
        LK_PASS(lk_csv_text(t, row, pickable[i], &text));
        *out = *out && strstr(text, sign + 1);
        return LK_OK;
    }
    return lk_fail(
        LK_EUSAGE,
        "--where=%s: expected COLUMN=TEXT with gpu, interconnect, nccl_version, source or "
        "collective",
        hints->where);
}

/* Check that a row is of the same machine as row `first`: a cluster file describes one. */
static enum lk_status check_machine(const struct lk_csv *t, size_t row, size_t first)
{
    static const enum column same[] = {GPU, NETWORK};

    for (size_t i = 0; i < LK_COUNT(same); i++) {
        const char *a = "", *b = "";

        if (lk_csv_has(t, row, same[i]) && lk_csv_text(t, row, same[i], &a) == LK_OK &&
            lk_csv_has(t, first, same[i]) && lk_csv_text(t, first, same[i], &b) == LK_OK &&
            strcmp(a, b) != 0)
            return lk_csv_error(t, row, same[i],
                                "'%s' here and '%s' in line %zu: pick one machine with --where", a,
                                b, lk_csv_line(t, first));
    }
    return LK_OK;
}

static enum lk_status read_shape(const struct lk_csv *t, size_t row, int64_t *out_ranks,
                                 int64_t *out_nodes)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_csv_int(t, row, GPUS, 1, LK_RANKS_MAX, out_ranks));
    LK_TRY(lk_csv_int(t, row, NODES, 1, *out_ranks, out_nodes));
    if (*out_ranks % *out_nodes)
        st = lk_csv_error(t, row, NODES, "%lld GPUs do not divide over %lld nodes",
                          (long long)*out_ranks, (long long)*out_nodes);
out:
    return st;
}

static enum lk_status read_row(const struct lk_csv *t, size_t row, struct lk_bench *b)
{
    int64_t ranks, nodes, bytes;
    const char *name, *algo_name, *source = "";
    struct bench_program program;
    enum lk_algo algo = LK_ALGO_AUTO;
    double seconds, rate;

    LK_PASS(lk_csv_text(t, row, COLL, &name));
    if (!bench_coll(name, strlen(name), &program))
        return lk_csv_error(t, row, COLL, "'%s' is not a collective", name);
    LK_PASS(read_shape(t, row, &ranks, &nodes));
    LK_PASS(lk_csv_int(t, row, BYTES, 0, INT64_MAX, &bytes));
    LK_PASS(read_time(t, row, &seconds));
    if (!program.known) {
        b->n_other++;
        return LK_OK;
    }
    if (lk_csv_has(t, row, ALGO)) {
        LK_PASS(lk_csv_text(t, row, ALGO, &algo_name));
        if (lk_words_find(&lk_algo_words, algo_name, &algo) != LK_OK)
            return lk_csv_error(t, row, ALGO, "'%s' is not an algorithm", algo_name);
    }
    rate = (double)bytes / seconds * 1e-9;
    LK_PASS(check_rate(t, row, ALGBW, rate));
    LK_PASS(check_rate(t, row, BUSBW, rate * lk_coll_busbw_factor(program.coll, (int)ranks)));
    if (lk_csv_has(t, row, SOURCE))
        LK_PASS(lk_csv_text(t, row, SOURCE, &source));
    if (bytes)
        LK_PASS(bench_add(b, program.coll, algo, (int)ranks, (int)nodes, (uint64_t)bytes, seconds,
                          "%s:%zu%s%s", lk_csv_name(t), lk_csv_line(t, row), *source ? ", " : "",
                          source));
    return LK_OK;
}

static enum lk_status note_machine(const struct lk_csv *t, size_t row, struct lk_bench *b)
{
    const char *text;

    if (!b->gpu && lk_csv_has(t, row, GPU)) {
        LK_PASS(lk_csv_text(t, row, GPU, &text));
        LK_PASS(lk_strdup(&b->gpu, text));
    }
    if (!b->nccl_version && lk_csv_has(t, row, VERSION)) {
        LK_PASS(lk_csv_text(t, row, VERSION, &text));
        LK_PASS(lk_strdup(&b->nccl_version, text));
    }
    return LK_OK;
}

enum lk_status lk_bench_read_csv(const char *path, const struct lk_bench_hints *hints,
                                 struct lk_bench *out)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;
    size_t first = SIZE_MAX;

    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &t));
    for (size_t i = 0; i < lk_csv_rows(t); i++) {
        bool wanted = false;

        LK_TRY(is_wanted(t, i, hints, &wanted));
        if (!wanted)
            continue;
        if (first == SIZE_MAX) {
            first = i;
            LK_TRY(note_machine(t, i, out));
        }
        LK_TRY(check_machine(t, i, first));
        LK_TRY(read_row(t, i, out));
    }
    if (first == SIZE_MAX)
        st = lk_fail(LK_EPARSE, "%s:%zu: no row of the table is wanted%s", path,
                     lk_csv_rows(t) ? lk_csv_line(t, 0) : 1,
                     hints->where ? " (--where, --place)" : " (--place)");
out:
    lk_csv_free(t);
    return st;
}
