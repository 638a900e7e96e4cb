/* lockstep import, of collectives that other programs measured: makes a cluster file. */
#include "base/array.h"
#include "base/log.h"
#include "base/stats.h"
#include "commands/cluster_answer.h"
#include "commands/expected.h"
#include "commands/import_impl.h"
#include "commands/inputs.h"
#include "facts/place.h"
#include "facts/preset.h"
#include "profiler/import/bench_log.h"
#include "sim/cluster_compare.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- The base ---- */

/* Write the name of the base before a source. */
static enum lk_status mark(struct lk_quantity *q, void *base)
{
    char *source;

    LK_PASS(lk_asprintf(&source, "%s: %s", (const char *)base, q->source));
    free(q->source);
    q->source = source;
    return LK_OK;
}

/* Read the base into both; the numbers of the second bear its name before their source. */
static enum lk_status read_base(const char *name, struct lk_cluster *base, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_preset_find(NULL, name, &path));
    LK_TRY(lk_cluster_read(path, base));
    LK_TRY(find_cluster(name, c));
    LK_TRY(lk_record_each_quantity(&lk_cluster_record, c, mark, base->name));
out:
    free(path);
    return st;
}

/* Write "as long as dgx-a100 expects", "20 times as long as ...". */
static void times_as_long(double ratio, const char *base, char *buf, size_t size)
{
    static const double ALIKE = 0.1;
    char times[32] = "";

    if (fabs(ratio - 1) > ALIKE)
        snprintf(times, sizeof times, "%.3g times ", ratio);
    snprintf(buf, size, "%sas long as %s expects", times, base);
}

/* Say how the points stand to what the base predicts of them. */
static enum lk_status say_expected(const struct lk_cluster *base, const struct lk_cluster *c,
                                   struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_comparison all = {0};
    double *ratios = NULL, median;
    size_t n = 0, outside = 0;
    char expected[128];

    LK_TRY(lk_compare_clusters(base, c, &all));
    LK_TRY(lk_alloc(&ratios, all.n, sizeof *ratios));
    for (size_t i = 0; i < all.n; i++) {
        const struct lk_compared *r = &all.rows[i];

        if (r->one_number || !(r->bytes > 0))
            continue;
        ratios[n++] = 1 / r->ratio.value;
        outside += r->b.value < r->a.lo || r->b.value > r->a.hi;
    }
    if (!n) {
        st = lk_page_note(page, "%s predicts none of the points: they are compared with nothing",
                          base->name);
        goto out;
    }
    median = lk_stats_median(ratios, n); /* and sorts */
    times_as_long(median, base->name, expected, sizeof expected);
    LK_TRY(lk_page_say(page,
                       "The points take %s (median of %zu; %.2g to %.2g times); %zu of them "
                       "are outside its 90 %% interval.",
                       expected, n, ratios[0], ratios[n - 1], outside));
    LK_TRY(lk_page_value(page, "time_over_base", "", LK_DIM_NONE, median));
out:
    free(ratios);
    lk_comparison_fini(&all);
    return st;
}

/* Say which bands of sizes are slow, if anything says what they should take. */
static enum lk_status say_verdict(const struct lk_cluster *c, const char *base,
                                  struct lk_page *page)
{
    enum { MOST = 1 };
    enum lk_status st = LK_OK;
    struct expected x = {0};
    size_t slow = 0;

    LK_TRY(expected_judge(c, base, &x));
    if (x.v.n && !x.missing)
        LK_TRY(expected_say(&x, "", MOST, page, &slow));
    else if (x.missing)
        LK_TRY(lk_page_note(page, "not judged: %s", x.missing));
    LK_TRY(lk_page_value(page, "slow_bands", "", LK_DIM_NONE, x.missing ? NAN : (double)slow));
out:
    expected_fini(&x);
    return st;
}

/* ---- What is made of it ---- */

/* Set the GPUs of a node: the base's, or else the most that a run had. LK_EPARSE: a run had more
 * than the base. */
static enum lk_status set_shape(const struct lk_bench *b, struct lk_cluster *c)
{
    int most = 1;
    const struct lk_cluster_point *which = b->points; /* the one of `most` ranks a node */

    for (size_t i = 0; i < b->n_points; i++)
        if (b->points[i].ranks / b->points[i].nodes > most) {
            which = &b->points[i];
            most = which->ranks / which->nodes;
        }
    if (!c->gpus_per_node)
        c->gpus_per_node = most;
    if (most > c->gpus_per_node)
        return lk_fail(LK_EPARSE, "%s: %d GPUs on %d nodes, but a node of the base has %d",
                       which->time_s.source, which->ranks, which->nodes, c->gpus_per_node);
    return LK_OK;
}

static enum lk_status set_text(char **to, const char *option, const char *log, const char *fallback)
{
    char *text = NULL;

    if (!option && !log && *to)
        return LK_OK;
    LK_PASS(lk_strdup(&text, option ? option : log ? log : fallback));
    free(*to);
    *to = text;
    return LK_OK;
}

/*
 * Return the bytes of memory in a device's name, "NVIDIA A100-SXM4-40GB"; 0 without. The number in
 * a GH200's name is the memory of its host.
 */
static double memory_in(const char *name)
{
    for (const char *p = strcspn(name, "0123456789") + name; *p && !strstr(name, "GH200");) {
        char *end;
        double value = strtod(p, &end);

        if (!strncasecmp(end + strspn(end, " "), "GB", 2))
            return value * 1e9;
        p = end + strcspn(end, "0123456789");
    }
    return 0;
}

/*
 * Make the base's device the one that the logs name: its memory follows the name, and the rate of
 * another memory is no longer known. Another model is warned of, since the rest is the base's.
 */
static enum lk_status follow_device(const char *base_gpu, struct lk_cluster *c)
{
    static const double SAME = 0.05; /* names round */
    struct lk_quantity *memory = &c->device.memory_bytes;
    double bytes = memory_in(c->gpu);

    if (lk_device_same(c->gpu, base_gpu) < 0)
        lk_log(LK_LOG_MAIN, LK_WARN,
               "the points are of '%s', the base is of '%s': its links, compute capability, rates "
               "and prices are kept, and may be wrong",
               c->gpu, base_gpu);
    if (!(bytes > 0) || !lk_quantity_known(memory) || fabs(bytes / memory->value - 1) < SAME)
        return LK_OK;
    lk_log(LK_LOG_MAIN, LK_WARN,
           "'%s' has %g GB of memory, the base's '%s' %g GB: the cluster file has %g GB, and no "
           "memory_bandwidth until you add one",
           c->gpu, bytes * 1e-9, base_gpu, memory->value * 1e-9, bytes * 1e-9);
    lk_quantity_fini(&c->device.memory_Bps);
    return lk_quantity_set(memory, bytes, NAN, NAN, 0, "the device's name, %s", c->gpu);
}

/* Move the points of b behind those of c. */
static enum lk_status add_points(struct lk_bench *b, struct lk_cluster *c)
{
    size_t capacity = c->n_points;

    if (!b->n_points) /* of a link alone */
        return LK_OK;
    LK_PASS(lk_array_grow(&c->points, &capacity, c->n_points + b->n_points, sizeof *c->points));
    memcpy(c->points + c->n_points, b->points, b->n_points * sizeof *b->points);
    c->n_points += b->n_points;
    b->n_points = 0;
    return LK_OK;
}

/* Say how much of a job Inspector recorded: what it leaves out by default no record tells. */
static enum lk_status say_inspector(const struct lk_inspector *i, struct lk_page *page)
{
    const size_t all = i->n_recorded + i->n_missing;
    char version[64] = "a format that says no version";

    if (i->oldest >= 0)
        snprintf(version, sizeof version,
                 i->oldest < i->newest ? "format v4.%d to v4.%d" : "format v4.%d", i->oldest,
                 i->newest);
    if (i->n_missing)
        LK_PASS(lk_page_say(
            page, "NCCL Inspector recorded %zu of %zu collectives of its ranks (%.3g %%, %s): %s.",
            i->n_recorded, all, 100 * (double)i->n_recorded / (double)all, version,
            i->rings ? "by default it keeps none below 8 KiB, none without its kernel's time, and "
                       "of a communicator the last 1024 since it wrote"
                     : "before NCCL 2.30 it writes of a communicator only the last one since it "
                       "wrote"));
    else
        LK_PASS(lk_page_say(page, "NCCL Inspector recorded all %zu collectives of its ranks (%s).",
                            all, version));
    LK_PASS(lk_page_value(page, "recorded_collectives", "", LK_DIM_NONE, (double)i->n_recorded));
    LK_PASS(lk_page_value(page, "missing_collectives", "", LK_DIM_NONE, (double)i->n_missing));
    LK_PASS(lk_page_value(page, "lost_collectives", "", LK_DIM_NONE, (double)i->n_lost));
    LK_PASS(lk_page_value(page, "host_timed_collectives", "", LK_DIM_NONE, (double)i->n_by_host));
    return lk_page_value(page, "seen_ranks_share", "", LK_DIM_NONE, i->seen);
}

/* Note what of the records was not taken, or cannot be relied on. */
static enum lk_status note_inspector(const struct lk_inspector *i, struct lk_page *page)
{
    static const double ALL = 0.9995;

    if (i->n_lost)
        LK_PASS(lk_page_note(page,
                             "Inspector counts %zu collectives that it overwrote before it wrote "
                             "them: NCCL_INSPECTOR_DUMP_COLL_RING_SIZE keeps more",
                             i->n_lost));
    if (i->n_by_host)
        LK_PASS(lk_page_note(page,
                             "%zu records are left out: the host's clock timed them "
                             "(coll_timing_source), not their kernels'",
                             i->n_by_host));
    if (i->seen < ALL)
        LK_PASS(lk_page_note(page,
                             "of a collective %.3g %% of its ranks' times are here: a wait for a "
                             "rank that is not here is in its time",
                             100 * i->seen));
    if (i->n_stray)
        LK_PASS(lk_page_note(page, "%zu records are left out: nothing says of which communicator",
                             i->n_stray));
    if (i->n_cut)
        LK_PASS(lk_page_note(page, "%zu files end within a record", i->n_cut));
    if (i->n_empty)
        LK_PASS(lk_page_note(page, "%zu files have no record of Inspector's", i->n_empty));
    if (i->unknown)
        LK_PASS(lk_page_note(page,
                             "format v4.%d is newer than this program: members that it does "
                             "not know are passed over",
                             i->newest));
    return LK_OK;
}

/* Say what a link's rate is that a log has, and that it is no collective. */
static enum lk_status say_link(const struct lk_bench *b, const struct lk_cluster *c,
                               struct lk_page *page)
{
    const int cards = lk_link_cards(c);
    char rate[32], several[64] = "";

    if (!lk_quantity_known(&b->link_Bps))
        return LK_OK;
    if (cards > 1)
        snprintf(several, sizeof several, ", of which a node has %d", cards);
    lk_units_format(LK_DIM_RATE, b->link_Bps.value, rate, sizeof rate);
    LK_PASS(lk_page_value(page, "link_Bps", "", LK_DIM_RATE, b->link_Bps.value));
    return lk_page_say(page,
                       "iperf3 measured %s over a link between two hosts: no collective, but the "
                       "file has it as the rate of a node's network card%s.",
                       rate, several);
}

static enum lk_status print(const struct import_options *o, const struct lk_bench *b,
                            const struct lk_cluster *base, const struct lk_cluster *c,
                            const struct lk_inspector *inspector, struct lk_page *page)
{
    const bool recorded = inspector->n_recorded > 0;

    LK_PASS(say_link(b, c, page));
    if (c->n_points) {
        LK_PASS(cluster_answer(c, page));
        if (o->base)
            LK_PASS(say_expected(base, c, page));
        LK_PASS(say_verdict(c, o->base, page));
    }
    if (recorded)
        LK_PASS(say_inspector(inspector, page));
    if (c->n_points)
        LK_PASS(cluster_tables(c, page));
    if (recorded)
        LK_PASS(note_inspector(inspector, page));
    LK_PASS(lk_page_note(page, "GPU: %s%s%s; %d a node", c->gpu, b->nccl_version ? "; NCCL " : "",
                         b->nccl_version ? b->nccl_version : "", c->gpus_per_node));
    LK_PASS(lk_page_next(page, "cluster file: %s", o->out));
    return lk_page_next(page, "next: lockstep predict JOB %s --gpus 8,64", o->out);
}

enum lk_status import_cluster(const struct import_options *o, const char **files, int n,
                              struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_inspector inspector = {0};
    struct lk_bench b = {0};
    struct lk_cluster base, c;
    size_t of_base;

    lk_cluster_init(&base);
    lk_cluster_init(&c);
    if (o->base)
        LK_TRY(read_base(o->base, &base, &c));
    LK_TRY(bench_inputs_read(&o->bench, files, n, &b, &inspector));
    LK_TRY(set_shape(&b, &c));
    LK_TRY(set_text(&c.gpu, o->gpu, b.gpu, "any"));
    if (o->base)
        LK_TRY(follow_device(base.gpu, &c));
    LK_TRY(set_text(&c.name, o->name, NULL, "imported"));
    of_base = c.n_points;
    if (lk_quantity_known(&b.link_Bps))
        LK_TRY(lk_quantity_set(&c.inter.bandwidth_Bps, b.link_Bps.value, NAN, NAN, b.link_Bps.n,
                               "%s", b.link_Bps.source));
    LK_TRY(add_points(&b, &c));
    LK_TRY(warn_of_contradictions(&c, of_base));
    c.preset = false;
    LK_TRY(lk_alpha_beta_fit_cluster(&c, 1));
    LK_TRY(lk_cluster_write(o->out, &c));
    LK_TRY(print(o, &b, &base, &c, &inspector, page));
out:
    lk_cluster_fini(&base);
    lk_bench_fini(&b);
    lk_cluster_fini(&c);
    return st;
}
