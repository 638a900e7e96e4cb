/* Published throughputs. */
#include "bench/lib/published.h"

#include "base/array.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_csv_column columns[PUBLISHED_COLUMNS] = {
    [PUBLISHED_SOURCE] = {"source", true},
    [PUBLISHED_MODEL] = {"model", true},
    [PUBLISHED_GPU] = {"gpu", true},
    [PUBLISHED_N_GPUS] = {"n_gpus", true},
    [PUBLISHED_GPUS_PER_NODE] = {"gpus_per_node", true},
    [PUBLISHED_INTERCONNECT] = {"interconnect", true},
    [PUBLISHED_PRECISION] = {"precision", true},
    [PUBLISHED_BATCH] = {"batch_per_gpu", true},
    [PUBLISHED_SEQ] = {"seq_len_or_image", true},
    [PUBLISHED_ACCUM] = {"grad_accum", true},
    [PUBLISHED_THROUGHPUT] = {"throughput", true},
    [PUBLISHED_NOTE] = {"note", true},
};

enum lk_status published_load(struct lk_csv **out)
{
    const char *dir = getenv("LOCKSTEP_DATA");
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_asprintf(&path, "%s/published_scaling.csv", dir ? dir : "bench/data"));
    LK_TRY(lk_csv_load(path, columns, PUBLISHED_COLUMNS, LK_CSV_EXTRA, out));
out:
    free(path);
    return st;
}

enum lk_status published_cell(const struct lk_csv *t, size_t row, enum published_column col,
                              const char **out)
{
    *out = "";
    return lk_csv_has(t, row, col) ? lk_csv_text(t, row, col, out) : LK_OK;
}

enum lk_status published_counts(const struct lk_csv *t, size_t row, const char *tiers, bool *out)
{
    enum lk_status st = LK_OK;
    const char *note;

    LK_TRY(published_cell(t, row, PUBLISHED_NOTE, &note));
    *out = !strncmp(note, "tier=", 5) && note[5] && strchr(tiers, note[5]) &&
           lk_csv_has(t, row, PUBLISHED_N_GPUS) && lk_csv_has(t, row, PUBLISHED_THROUGHPUT);
out:
    return st;
}

/* The source without the line it was on: "... path/README.md:L401" -> "... path/README.md". */
static size_t file_length(const char *source)
{
    const char *last = strrchr(source, ':');

    return last && last[1] == 'L' && isdigit((unsigned char)last[2]) ? (size_t)(last - source)
                                                                     : strlen(source);
}

enum lk_status published_key(const struct lk_csv *t, size_t row, const enum published_column *which,
                             size_t n, char **out, size_t *source_length)
{
    enum lk_status st = LK_OK;
    const char *text;
    char *key = NULL, *longer = NULL;
    size_t length;

    LK_TRY(published_cell(t, row, PUBLISHED_SOURCE, &text));
    length = file_length(text);
    LK_TRY(lk_strndup(&key, text, length));
    for (size_t i = 0; i < n; i++) {
        LK_TRY(published_cell(t, row, which[i], &text));
        LK_TRY(lk_asprintf(&longer, "%s|%s", key, text));
        free(key);
        key = longer;
        longer = NULL;
    }
    *out = key;
    key = NULL;
    if (source_length)
        *source_length = length;
out:
    free(key);
    return st;
}
