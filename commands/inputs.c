/* Inputs that a command's words name: clusters, presets, and ranks known to be slow. */
#include "commands/inputs.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/option.h"
#include "base/units.h"
#include "base/words.h"
#include "facts/bounds.h"
#include "facts/preset.h"
#include "sim/collective/links.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Clusters ---- */

/*
 * Of the 307 sizes that one source of bench/data/nccl_tables.csv measured twice on one machine, 95
 * % agree within 1.46 times (above 32 MB within 1.10).
 */
static const double CONTRADICTION = 1.5;

/* The points of one collective and count of GPUs. */
struct repeated {
    size_t sizes, differ; /* measured several times; of those, that contradict each other */
    const struct lk_cluster_point *slow, *fast; /* of the size that differs most */
    size_t of_size;
};

static double ratio_of(const struct repeated *r)
{
    return r->slow ? r->slow->time_s.value / r->fast->time_s.value : 1;
}

/* By what must agree, then by size, then by time. */
static int compare_points(const void *a, const void *b)
{
    const struct lk_cluster_point *x = *(const struct lk_cluster_point *const *)a;
    const struct lk_cluster_point *y = *(const struct lk_cluster_point *const *)b;
    const int keys[][2] = {{(int)x->coll, (int)y->coll},
                           {(int)x->algo, (int)y->algo},
                           {(int)x->timing, (int)y->timing},
                           {x->ranks, y->ranks},
                           {x->nodes, y->nodes},
                           {x->bytes > y->bytes, x->bytes < y->bytes}};

    for (size_t i = 0; i < LK_COUNT(keys); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return LK_ORDER(x->time_s.value, y->time_s.value);
}

static bool same_table(const struct lk_cluster_point *a, const struct lk_cluster_point *b)
{
    return a->coll == b->coll && a->algo == b->algo && a->timing == b->timing &&
           a->ranks == b->ranks && a->nodes == b->nodes;
}

static const char *source_of(const struct lk_cluster_point *p)
{
    return p->time_s.source ? p->time_s.source : "no source";
}

static void tell(const struct repeated *r)
{
    const struct lk_cluster_point *p = r->slow;
    char size[32], slow[32], fast[32];

    lk_log(
        LK_LOG_MAIN, LK_WARN,
        "%s on %d GPUs over %d node%s: %s take %s (%s), but %s (%s): %.3g times as long, of %zu "
        "measurements. %zu of %zu repeated sizes differ by more than %g times: the median counts, "
        "with a wider interval. Another machine or setting belongs in another cluster file",
        lk_coll_name(p->coll), p->ranks, p->nodes, p->nodes == 1 ? "" : "s",
        lk_units_format(LK_DIM_BYTES, (double)p->bytes, size, sizeof size),
        lk_units_format(LK_DIM_TIME, p->time_s.value, slow, sizeof slow), source_of(p),
        lk_units_format(LK_DIM_TIME, r->fast->time_s.value, fast, sizeof fast), source_of(r->fast),
        ratio_of(r), r->of_size, r->differ, r->sizes, CONTRADICTION);
}

/* A point may be faster than the links allow by this, for rounded rates. */
static const double FASTER_THAN_LINKS = 1.05;

/* Warn of the point that is faster than the cluster's links allow by most, if one is. */
static void warn_of_fast_points(const struct lk_cluster *c, size_t known)
{
    struct lk_link_rates rates = lk_link_rates_of(c, true);
    const struct lk_cluster_point *worst = NULL;
    double ratio = FASTER_THAN_LINKS;
    size_t n = 0;
    char size[32], takes[32], needs[32];

    for (const struct lk_cluster_point *p = c->points + known; p < c->points + c->n_points; p++) {
        double bound_s =
            p->nodes > 0 && p->ranks % p->nodes == 0
                ? lk_link_bound_s(&rates, p->coll, (double)p->bytes, p->ranks, p->nodes)
                : 0;

        n += bound_s > FASTER_THAN_LINKS * p->time_s.value;
        if (bound_s > ratio * p->time_s.value) {
            ratio = bound_s / p->time_s.value;
            worst = p;
        }
    }
    if (!worst)
        return;
    lk_log(
        LK_LOG_MAIN, LK_WARN,
        "%zu points are faster than the cluster's links allow: %s of %s on %d GPUs over %d node%s "
        "takes %s (%s), but needs %s at %s.bandwidth. Either the links are faster than the file "
        "says, and are taken so, or the points are of another machine",
        n, lk_coll_name(worst->coll),
        lk_units_format(LK_DIM_BYTES, (double)worst->bytes, size, sizeof size), worst->ranks,
        worst->nodes, worst->nodes == 1 ? "" : "s",
        lk_units_format(LK_DIM_TIME, worst->time_s.value, takes, sizeof takes), source_of(worst),
        lk_units_format(LK_DIM_TIME, ratio * worst->time_s.value, needs, sizeof needs),
        worst->nodes == 1 ? "intra" : "inter");
}

enum lk_status warn_of_contradictions(const struct lk_cluster *c, size_t known)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_point **p = NULL;
    struct repeated r = {0};

    warn_of_fast_points(c, known);
    LK_TRY(lk_alloc(&p, c->n_points, sizeof *p));
    for (size_t i = 0; i < c->n_points; i++)
        p[i] = &c->points[i];
    if (c->n_points)
        qsort(p, c->n_points, sizeof *p, compare_points);
    for (size_t i = 0, next; i < c->n_points; i = next) {
        bool has_new = false;
        struct repeated one = {.fast = p[i]};

        for (next = i;
             next < c->n_points && same_table(p[next], p[i]) && p[next]->bytes == p[i]->bytes;
             next++)
            has_new |= (size_t)(p[next] - c->points) >= known;
        one.slow = p[next - 1];
        r.sizes += next - i > 1;
        if (has_new && ratio_of(&one) > CONTRADICTION) {
            r.differ++;
            if (ratio_of(&one) > ratio_of(&r)) {
                r.slow = one.slow;
                r.fast = one.fast;
                r.of_size = next - i;
            }
        }
        if (r.slow && (next == c->n_points || !same_table(p[next], p[i])))
            tell(&r);
        if (next == c->n_points || !same_table(p[next], p[i]))
            r = (struct repeated){0};
    }
out:
    free(p);
    return st;
}

enum lk_status find_cluster(const char *name, struct lk_cluster *out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_preset_find(NULL, name, &path));
    LK_TRY(lk_cluster_read(path, out));
    LK_TRY(warn_of_contradictions(out, 0));
out:
    free(path);
    return st;
}

enum lk_status job_and_cluster(const char *command, const char **operands, int n,
                               const char *cluster)
{
    if (n < 1)
        return lk_fail(LK_EUSAGE, "which job? Usage: lockstep %s JOB CLUSTER --gpus N,...",
                       command);
    if (n < 2 && !cluster)
        return lk_fail(LK_EUSAGE, "which cluster? Give a cluster file or a preset's name");
    if (n == 2 && cluster)
        return lk_fail(LK_EUSAGE, "two clusters: '%s' and --cluster=%s", operands[1], cluster);
    if (n < 2)
        operands[1] = cluster;
    return LK_OK;
}

/* ---- Known slow ranks and links ---- */

static enum lk_status check_slow(const struct lk_cluster *c, int at, bool link, int most_gpus)
{
    int most = link ? (most_gpus - 1) / c->gpus_per_node + 1 : most_gpus;

    if (link && c->nodes && at >= c->nodes)
        return lk_fail(LK_EUSAGE, "node %d: cluster %s has %d, from 0", at, c->name, c->nodes);
    if (most_gpus && at >= most)
        return lk_fail(LK_EUSAGE, "%s %d: the most GPUs asked for are %d, %ss 0 to %d",
                       link ? "node" : "rank", at, most_gpus, link ? "node" : "rank", most - 1);
    for (size_t i = 0; i < c->n_slow; i++)
        if ((link ? c->slow[i].node : c->slow[i].rank) == at &&
            lk_quantity_known(link ? &c->slow[i].link : &c->slow[i].compute))
            return lk_fail(LK_EUSAGE, "%s %d is known already", link ? "node" : "rank", at);
    return LK_OK;
}

static enum lk_status add_slow(struct lk_cluster *c, const char *word, bool link, int most_gpus,
                               const char *option)
{
    size_t capacity = c->n_slow;
    struct lk_cluster_slow *e;
    double factor;
    int64_t at;

    LK_PASS(lk_parse_factor_at(word, LK_RANKS_MAX - 1, &at, &factor));
    LK_PASS(check_slow(c, (int)at, link, most_gpus));
    LK_PASS(lk_array_grow(&c->slow, &capacity, c->n_slow + 1, sizeof *c->slow));
    e = &c->slow[c->n_slow++];
    *e = (struct lk_cluster_slow){.rank = link ? -1 : (int)at, .node = link ? (int)at : -1};
    e->compute = e->link = lk_quantity_none();
    return lk_quantity_set(link ? &e->link : &e->compute, factor, NAN, NAN, 0, "--%s", option);
}

static enum lk_status add_slow_list(struct lk_cluster *c, const char *text, bool link,
                                    int most_gpus, const char *option)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *word;

    if (!text)
        return LK_OK;
    LK_TRY(lk_strdup(&copy, text));
    for (rest = copy; (word = lk_list_next(&rest));)
        LK_TRY(add_slow(c, word, link, most_gpus, option));
out:
    free(copy);
    return lk_fail_context(st, "--%s=%s", option, text);
}

enum lk_status known_slow_add(struct lk_cluster *c, int most_gpus, const char *ranks,
                              const char *links)
{
    LK_PASS(add_slow_list(c, ranks, false, most_gpus, "slow-rank"));
    return add_slow_list(c, links, true, most_gpus, "slow-link");
}

enum operand operand_of(const char *name)
{
    if (lk_is_folder(name))
        return OPERAND_FOLDER;
    return lk_file_exists(name) || strchr(name, '/') || lk_ends_with(name, ".json")
               ? OPERAND_FILE
               : OPERAND_PRESET;
}

enum lk_status find_schema(const char *path, const char *const *schemas, size_t n,
                           const char *expected, size_t *out)
{
    enum lk_status st = LK_OK;
    struct lk_json_doc *doc = NULL;
    const char *schema;
    size_t k = 0;

    LK_TRY(lk_file_check(path));
    LK_TRY(lk_json_load(path, &doc));
    LK_TRY(lk_json_expect(lk_json_root(doc), LK_JSON_OBJECT));
    LK_TRY(lk_json_text(lk_json_root(doc), "schema", &schema));
    while (k < n && strcmp(schemas[k], schema) != 0)
        k++;
    if (k == n)
        LK_TRY(lk_fail(LK_EPARSE, "%s: its schema is '%s': %s", path, schema, expected));
    *out = k;
out:
    lk_json_free(doc);
    return st;
}
