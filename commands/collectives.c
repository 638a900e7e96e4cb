/*
 * lockstep collectives: measured collectives beside what their machine should take. Divisions:
 * options, sides, the answer, the plot.
 */
#include "reports/plot/collectives.h"
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "commands/bench_inputs.h"
#include "commands/collectives_impl.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/draw.h"
#include "commands/inputs.h"
#include "facts/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

struct options {
    struct lk_page_options page;
    struct lk_gate_options gate;
    struct bench_options bench;
    const char *base, *plot, *log;
    struct draw_settings draw;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("base", base, FILE, .role = LK_ROLE_CLUSTER, .group = "expectation",
           .help = "preset or cluster file that says what the machine should reach; default: the rates that "
                   "the input states of its links, else the preset of its device"),
    BENCH_ROWS(OPTION),
    OPTION("plot", plot, FILE, .role = LK_ROLE_OUTPUT, .group = "output",
           .help = "plot bus bandwidth against size into this folder"),
    PLOT_ROWS(OPTION),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "share_least"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* ---- Sides ---- */

struct sides {
    struct collectives_side v[COLLECTIVES_SIDES_MAX];
    int n;
};

static void free_sides(struct sides *s)
{
    for (int i = 0; i < s->n; i++) {
        expected_fini(&s->v[i].x);
        lk_cluster_fini(&s->v[i].measured);
    }
}

/* Return true if a file is JSON whose member "schema" is a cluster file's. */
static bool has_cluster_schema(const char *path)
{
    struct lk_json_doc *doc = NULL;
    struct lk_json *schema = NULL;
    const char *text = "";
    bool is = false;

    if (lk_json_load(path, &doc) == LK_OK &&
        lk_json_expect(lk_json_root(doc), LK_JSON_OBJECT) == LK_OK)
        schema = lk_json_optional(lk_json_root(doc), "schema");
    is = schema && lk_json_as_text(schema, &text) == LK_OK && !strcmp(text, LK_CLUSTER_SCHEMA);
    lk_json_free(doc);
    return is;
}

/* Return true for a preset's name and a cluster file; other files and folders are logs. */
static bool is_cluster(const char *name)
{
    if (lk_is_folder(name))
        return false;
    return lk_is_file(name) ? lk_ends_with(name, ".json") && has_cluster_schema(name)
                            : !strchr(name, '/') && !strchr(name, '.');
}

/* Move what a log has into a cluster without links. */
static void take_log(struct lk_bench *b, struct lk_cluster *c)
{
    for (size_t k = 0; k < b->n_points; k++) {
        const int on_node = b->points[k].ranks / b->points[k].nodes;

        c->gpus_per_node = on_node > c->gpus_per_node ? on_node : c->gpus_per_node;
    }
    c->points = b->points;
    c->n_points = b->n_points;
    c->gpu = b->gpu;
    b->points = NULL;
    b->gpu = NULL;
    b->n_points = b->capacity = 0;
}

static enum lk_status read_log(const struct options *o, const char *name, struct lk_cluster *out)
{
    enum lk_status st = LK_OK;
    struct bench_options bench = o->bench;
    struct lk_inspector inspector = {0};
    struct lk_bench b = {0};
    const bool is_csv = lk_ends_with(name, ".csv");

    bench.csv = is_csv ? name : NULL;
    bench.where = is_csv ? bench.where : NULL;
    LK_TRY(bench_inputs_read(&bench, &name, !is_csv, &b, &inspector));
    take_log(&b, out);
out:
    lk_bench_fini(&b);
    return st;
}

static enum lk_status read_side(const struct options *o, const char *name,
                                struct collectives_side *s)
{
    s->name = name;
    if (is_cluster(name))
        LK_PASS(find_cluster(name, &s->measured));
    else
        LK_PASS(read_log(o, name, &s->measured));
    if (!s->measured.n_points)
        return lk_fail(LK_EEVIDENCE,
                       "%s: no collective was measured there: name the log of a benchmark of "
                       "collectives, or a cluster file of lockstep calibrate or lockstep import",
                       name);
    return expected_judge(&s->measured, o->base, &s->x);
}

static enum lk_status read_sides(const struct options *o, const char **names, int n,
                                 struct sides *out)
{
    for (int i = 0; i < n; i++) {
        lk_cluster_init(&out->v[i].measured);
        out->n++;
        LK_PASS(read_side(o, names[i], &out->v[i]));
        if (!out->v[i].x.v.n)
            return lk_fail(LK_EEVIDENCE, "%s: has no collective of several ranks and a size",
                           names[i]);
    }
    return LK_OK;
}

/* ---- The answer ---- */

static enum lk_status say(const struct sides *s, struct lk_page *page)
{
    enum { MOST = 4 };
    size_t all = 0;

    for (int i = 0; i < s->n; i++) {
        const char prefix[] = {(char)('A' + i), ':', ' ', 0};
        size_t slow = 0;

        LK_PASS(expected_say(&s->v[i].x, s->n > 1 ? prefix : "", MOST / s->n + 1, page, &slow));
        all += slow;
    }
    return lk_page_value(page, "slow_bands", "", LK_DIM_NONE, (double)all);
}

static enum lk_status put_notes(const struct sides *s, struct lk_page *page)
{
    for (int i = 0; i < s->n; i++) {
        const struct expected *x = &s->v[i].x;

        if (s->n > 1)
            LK_PASS(lk_page_note(page, "%c: %s", 'A' + i, s->v[i].name));
        if (!x->missing)
            LK_PASS(lk_page_note(page,
                                 "%s%s is held against %s, without what was measured on it; the "
                                 "intervals have the times of 39 of 40 sound machines",
                                 s->n > 1 ? "side " : "",
                                 s->n > 1 ? (char[2]){(char)('A' + i), 0} : s->v[i].name,
                                 x->e.machine.name ? x->e.machine.name : s->v[i].name));
        if (!x->tables.n)
            LK_PASS(lk_page_note(page, "the public tables (nccl_tables.csv) were not found: there "
                                       "is no rank among them"));
    }
    return LK_OK;
}

/* ---- The plot ---- */

/* Make the chart of all sides. */
static enum lk_status make_chart(const struct sides *s, struct lk_chart *out)
{
    enum lk_status st = LK_OK;
    struct lk_plot_collective *curves = NULL;
    size_t n = 0, at = 0;

    for (int i = 0; i < s->n; i++)
        n += s->v[i].x.v.n;
    LK_TRY(lk_alloc(&curves, n, sizeof *curves));
    for (int i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->v[i].x.v.n; k++) {
            const struct lk_judged_set *set = &s->v[i].x.v.sets[k];
            struct lk_plot_collective *c = &curves[at++];

            LK_TRY(lk_asprintf(&c->label, "%s%s, %d GPUs, %d node%s",
                               s->n > 1 ? (char[4]){(char)('A' + i), ':', ' ', 0} : "",
                               lk_coll_name(set->at.coll), set->at.ranks, set->at.nodes,
                               set->at.nodes == 1 ? "" : "s"));
            LK_TRY(lk_alloc(&c->sizes, set->n, sizeof *c->sizes));
            for (; c->n < set->n; c->n++) {
                const struct lk_judged *j = &set->points[c->n];
                const double bytes = (double)j->measured->bytes;

                c->sizes[c->n] = (struct lk_plot_size){
                    bytes, lk_judged_busbw(&set->at, bytes, j->measured->time_s.value),
                    lk_judged_busbw(&set->at, bytes, j->expected_s),
                    lk_judged_busbw(&set->at, bytes, j->hi_s),
                    lk_judged_busbw(&set->at, bytes, j->lo_s)};
            }
        }
    LK_TRY(lk_chart_collectives(out, curves, n));
out:
    for (size_t i = 0; curves && i < n; i++) {
        free(curves[i].label);
        free(curves[i].sizes);
    }
    free(curves);
    return st;
}

static enum lk_status plot(const struct sides *s, const struct options *o, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_chart chart = {0};

    LK_TRY(make_chart(s, &chart));
    LK_TRY(draw_charts(&chart, 1, o->plot, &o->draw));
    LK_TRY(lk_page_next(page, "%s/%s" DRAW_SUFFIXES, o->plot, chart.name));
out:
    lk_chart_fini(&chart);
    return st;
}

static enum lk_status fill(const struct sides *s, struct lk_page *page)
{
    LK_PASS(say(s, page));
    LK_PASS(collectives_tables(s->v, s->n, page));
    LK_PASS(collectives_values(s->v, s->n, page));
    return put_notes(s, page);
}

enum lk_status collectives_page(const char **names, int n, struct lk_page *page,
                                struct lk_chart *chart)
{
    enum lk_status st = LK_OK;
    struct sides s = {0};

    LK_TRY(read_sides(&(struct options){0}, names, n, &s));
    LK_TRY(fill(&s, page));
    st = make_chart(&s, chart);
out:
    free_sides(&s);
    return st;
}

static enum lk_status run(void *options, const char **names, int n, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    const struct options *o = options;
    struct sides s = {0};

    LK_TRY(read_sides(o, names, n, &s));
    LK_TRY(fill(&s, page));
    if (o->plot)
        LK_TRY(plot(&s, o, page));
out:
    free_sides(&s);
    return st;
}

const struct lk_command lk_command_collectives = {
    .name = "collectives",
    .usage = "CLUSTER|LOG...",
    .help = "judge measured collectives: each band of sizes beside what the machine should take",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = COLLECTIVES_SIDES_MAX,
    .operand = LK_OPERAND_CLUSTER,
    .no_operand = "which collectives? e.g. lockstep collectives all_reduce.log",
    .main_value = "share_least",
    .tables = TABLES("bands", "suspects", "common", "sizes"),
    .run = run,
};
