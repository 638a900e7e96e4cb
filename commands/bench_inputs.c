/* Read measured collectives of other programs; see the header. */
#include "commands/bench_inputs.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "facts/place.h"
#include "profiler/import/format.h"
#include "profiler/import/import_files.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_place_names[] = {"in", "out", NULL};

int bench_item_of(const struct lk_ints *list, int i)
{
    return list->n ? (int)list->v[list->n > 1 ? i : 0] : 0;
}

static int items_of(const char *list)
{
    int n = list != NULL;

    for (const char *p = list; p && *p; p++)
        n += *p == ',';
    return n;
}

/* Copy item i of a list of texts, as bench_item_of does. *out is NULL for an empty list. */
static enum lk_status text_of(const char *list, int i, char **out)
{
    *out = NULL;
    for (int k = items_of(list) > 1 ? i : 0; list && k > 0; k--)
        list = strchr(list, ',') + 1;
    return list ? lk_strndup(out, list, strcspn(list, ",")) : LK_OK;
}

enum lk_status bench_check_items(const char *option, int items, int logs)
{
    if (items <= 1 || items == logs)
        return LK_OK;
    return lk_fail(LK_EUSAGE, "--%s has %d items for %d logs: give one for all, or one a log",
                   option, items, logs);
}

static enum lk_status read_log(const struct bench_options *o, const char *file, int i,
                               struct lk_bench_hints hints, struct lk_bench *b)
{
    enum lk_status st = LK_OK;
    char *coll = NULL;

    LK_TRY(text_of(o->collective, i, &coll));
    hints.coll = coll;
    hints.ranks = bench_item_of(&o->gpus, i);
    hints.nodes = bench_item_of(&o->nodes, i);
    LK_TRY(lk_bench_read_log(file, &hints, b));
out:
    free(coll);
    return st;
}

static enum lk_status read_inspector(const char **paths, int n, struct lk_bench *b,
                                     struct lk_inspector *inspector)
{
    enum lk_status st = LK_OK;
    char **files = NULL;
    size_t n_files = 0;

    LK_TRY(lk_point_files(paths, (size_t)n, &files, &n_files));
    LK_TRY(lk_nccl_inspector_read((const char *const *)files, n_files, b, inspector));
out:
    lk_names_free(files, n_files);
    return st;
}

/* Read the logs, then the CSV. A cluster is of one machine: files that name two models of devices
 * are refused. */
static enum lk_status read_files(const struct bench_options *o, const char **files, int n,
                                 struct lk_bench_hints hints, struct lk_bench *b)
{
    enum lk_status st = LK_OK;
    const char *of = NULL; /* the file that named the device */
    char *gpu = NULL;

    for (int i = 0; i < n + (o->csv != NULL); i++) {
        const char *file = i < n ? files[i] : o->csv;

        LK_TRY(i < n ? read_log(o, file, i, hints, b) : lk_bench_read_csv(file, &hints, b));
        if (gpu && b->gpu && lk_device_same(gpu, b->gpu) < 0)
            LK_TRY(lk_fail(LK_EUSAGE,
                           "%s: measured on '%s', and %s on '%s': a cluster is of one machine, so "
                           "import them apart",
                           of, gpu, file, b->gpu));
        if (gpu) {
            free(b->gpu);
        } else if (b->gpu) {
            gpu = b->gpu;
            of = file;
        }
        b->gpu = NULL;
    }
out:
    free(b->gpu);
    b->gpu = gpu;
    return st;
}

enum lk_status bench_inputs_read(const struct bench_options *o, const char **files, int n,
                                 struct lk_bench *b, struct lk_inspector *inspector)
{
    enum lk_status st = LK_OK;
    const struct lk_format *format = NULL;
    bool is_inspector = n > 0 && lk_is_folder(files[0]);
    struct lk_bench_hints hints = {.where = o->where, .place = (enum lk_bench_place)o->place};

    if (!n && !o->csv)
        return lk_fail(LK_EUSAGE, "nothing to read: name nccl-tests logs, or a CSV with "
                                  "--collectives");
    if (o->where && !o->csv)
        return lk_fail(LK_EUSAGE, "--where needs --collectives");
    LK_TRY(bench_check_items("collective", items_of(o->collective), n));
    LK_TRY(bench_check_items("gpus", o->gpus.n, n));
    LK_TRY(bench_check_items("nodes", o->nodes.n, n));
    if (n && !is_inspector)
        LK_TRY(lk_format_of(files[0], &format));
    is_inspector |= format && format->points;
    if (is_inspector)
        LK_TRY(read_inspector(files, n, b, inspector));
    LK_TRY(read_files(o, files, is_inspector ? 0 : n, hints, b));
    if (b->n_other)
        lk_log(LK_LOG_MAIN, LK_WARN,
               "left out %zu rows of collectives that a cluster file cannot hold", b->n_other);
    if (b->n_wrong)
        lk_log(LK_LOG_MAIN, LK_WARN, "left out %zu rows in which nccl-tests found wrong results",
               b->n_wrong);
    if (!b->n_points && !lk_quantity_known(&b->link_Bps))
        st = lk_fail(LK_EPARSE,
                     "%s: no valid row of all_reduce, reduce_scatter, all_gather or "
                     "broadcast",
                     n ? files[0] : o->csv);
out:
    return st;
}
