/*
 * Read nccl-tests' JSON (-J, since 2.17.3; src/util.cu of NVIDIA/nccl-tests): args, nccl_version,
 * config with the devices, results. Of a process with several GPUs only the first is in the
 * devices, so that the ranks are devices times threads times GPUs a thread. The environment in the
 * file is ignored.
 */
#include "profiler/bench_impl.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* Find the collective by the program's path: "build/all_reduce_perf". */
static enum lk_status read_program(struct lk_json *root, struct bench_table *t)
{
    enum lk_status st = LK_OK;
    struct lk_json *args, *first;
    const char *path, *name;
    size_t len;

    LK_TRY(lk_json_array(root, "args", &args));
    first = lk_json_item(args, 0);
    if (!first)
        return LK_OK;
    LK_TRY(lk_json_as_text(first, &path));
    name = strrchr(path, '/');
    name = name ? name + 1 : path;
    len = strcspn(name, ".");
    if (len > 5 && !strncmp(name + len - 5, "_perf", 5))
        (void)bench_coll(name, len - 5, &t->program);
    t->program.line = (size_t)lk_json_line(first);
out:
    return st;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum lk_status count_hosts(struct lk_json *devices, int *out)
{
    enum lk_status st = LK_OK;
    size_t n = lk_json_count(devices);
    const char **names = NULL;
    int hosts = 0;

    LK_TRY(lk_alloc(&names, n, sizeof *names));
    for (size_t i = 0; i < n; i++)
        LK_TRY(lk_json_text(lk_json_item(devices, i), "hostname", &names[i]));
    qsort(names, n, sizeof *names, compare_texts);
    for (size_t i = 0; i < n; i++)
        hosts += !i || strcmp(names[i], names[i - 1]) != 0;
    *out = hosts;
out:
    free(names);
    return st;
}

static enum lk_status read_devices(struct lk_json *root, struct bench_table *t, struct lk_bench *b)
{
    enum lk_status st = LK_OK;
    struct lk_json *config, *devices;
    const char *gpu;
    int threads, gpus;
    int64_t group, ranks;

    LK_TRY(lk_json_object(root, "config", &config));
    LK_TRY(lk_json_int32(config, "nthreads", 1, LK_RANKS_MAX, &threads));
    LK_TRY(lk_json_int32(config, "ngpus", 1, LK_RANKS_MAX, &gpus));
    LK_TRY(lk_json_array(config, "devices", &devices));
    LK_TRY(count_hosts(devices, &t->nodes));
    for (size_t i = 0; i < lk_json_count(devices); i++) {
        struct lk_json *d = lk_json_item(devices, i);

        LK_TRY(lk_json_int(d, "group", 0, LK_RANKS_MAX, &group));
        if (group)
            return lk_json_error(d, "several groups (NCCL_TESTS_SPLIT) are not told apart here: "
                                    "use the text output");
        if (!b->gpu) {
            LK_TRY(lk_json_text(d, "device_info", &gpu));
            LK_TRY(lk_strdup(&b->gpu, gpu));
        }
    }
    ranks = (int64_t)threads * gpus;
    if (ranks > LK_RANKS_MAX || ranks * (int64_t)lk_json_count(devices) > LK_RANKS_MAX)
        return lk_json_error(config, "too many GPUs");
    t->ranks = (int)(ranks * (int64_t)lk_json_count(devices));
out:
    return st;
}

/* Decode NCCL's version: 22809 is 2.28.9, major times 10000, minor times 100. */
static enum lk_status read_version(struct lk_json *root, struct lk_bench *b)
{
    enum lk_status st = LK_OK;
    int64_t v;

    LK_TRY(lk_json_int(root, "nccl_version", 0, 99999999, &v));
    if (!b->nccl_version)
        LK_TRY(lk_asprintf(&b->nccl_version, "%lld.%lld.%lld", (long long)v / 10000,
                           (long long)v / 100 % 100, (long long)v % 100));
out:
    return st;
}

static enum lk_status read_not_negative(struct lk_json *obj, const char *key, double *out)
{
    enum lk_status st = lk_json_number(obj, key, out);

    return st != LK_OK || *out >= 0
               ? st
               : lk_json_error(lk_json_optional(obj, key), "must not be negative");
}

static enum lk_status read_result(struct lk_json *v, const char *place, struct bench_table *t)
{
    enum lk_status st = LK_OK;
    struct bench_row row = {.line = (size_t)lk_json_line(v), .root = -1};
    struct lk_json *body = lk_json_optional(v, place);
    struct lk_json *wrong;
    const char *text;

    if (!body)
        return LK_OK;
    LK_TRY(lk_json_uint(v, "size", UINT64_MAX / 2, &row.bytes));
    LK_TRY(lk_json_text(v, "redop", &text));
    row.reduces = strcmp(text, "none") != 0;
    LK_TRY(lk_json_text(v, "root", &text));
    row.root = strchr(text, '-') ? -1 : 0;
    if (lk_json_optional(body, "cpu_time"))
        return lk_json_error(body, "CPU times (-C): they do not say how long the collectives took");
    LK_TRY(read_not_negative(body, "time", &row.seconds));
    row.seconds *= 1e-6;
    LK_TRY(read_not_negative(body, "alg_bw", &row.algbw));
    LK_TRY(read_not_negative(body, "bus_bw", &row.busbw));
    wrong = lk_json_optional(body, "nwrong");
    if (wrong)
        LK_TRY(lk_json_as_number(wrong, &row.wrong));
    LK_TRY(bench_table_row(t, &row));
out:
    return st;
}

enum lk_status bench_read_json(const char *path, const char *text, size_t size,
                               const struct lk_bench_hints *hints, struct lk_bench *out)
{
    static const char *const places[] = {
        [LK_BENCH_IN_PLACE] = "in_place",
        [LK_BENCH_OUT_OF_PLACE] = "out_of_place",
    };
    enum lk_status st = LK_OK;
    struct bench_table t = {.path = path};
    struct lk_json_doc *doc = NULL;
    struct lk_json *root, *results;

    LK_TRY(lk_json_parse(path, text, size, &doc));
    root = lk_json_root(doc);
    LK_TRY(read_program(root, &t));
    LK_TRY(read_devices(root, &t, out));
    LK_TRY(read_version(root, out));
    LK_TRY(lk_json_array(root, "results", &results));
    t.header_line = (size_t)lk_json_line(results);
    LK_TRY(bench_table_begin(&t, hints));
    for (size_t i = 0; i < lk_json_count(results); i++)
        LK_TRY(read_result(lk_json_item(results, i), places[hints->place], &t));
    if (!t.n_rows)
        LK_TRY(lk_json_error(results, "no result %s", places[hints->place]));
    LK_TRY(bench_table_end(&t, out));
out:
    free(t.rows);
    lk_json_free(doc);
    return st;
}
