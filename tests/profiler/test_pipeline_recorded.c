/*
 * Recorded jobs with their published results, which are not part of the project: in the folder
 * LK_TRACES, else in ../shared/data/traces. Where they are missing the test says that it was
 * skipped.
 */
#include "base/array.h"
#include "base/json.h"
#include "tests/rigs/analyzed.h"
#include "tests/rigs/must.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The published analysis is in float32: 2^-24 of each time, a few of which are on a path. */
static const double FLOAT32 = 3e-7;

#define assert_published(value, of)                                                                \
    do {                                                                                           \
        double of_ = (of);                                                                         \
                                                                                                   \
        ck_assert_double_eq_tol(value, of_, of_ *FLOAT32);                                         \
    } while (0)

static double number(struct lk_json *obj, const char *key)
{
    double v = NAN;

    must(lk_json_number(obj, key, &v));
    return v;
}

static struct lk_json *object(struct lk_json *obj, const char *key)
{
    struct lk_json *v = NULL;

    must(lk_json_object(obj, key, &v));
    return v;
}

static void compare_steps(const struct lk_pipe_stragglers *s, struct lk_json *root)
{
    ck_assert_uint_eq(s->n_steps, lk_json_count(object(root, "step_t_base")));
    for (size_t i = 0; i < s->n_steps; i++) {
        char key[32];

        snprintf(key, sizeof key, "%lld", (long long)s->steps[i].step);
        assert_published(s->steps[i].measured_s, number(object(root, "step_t_base"), key));
        assert_published(s->steps[i].launched_s, number(object(root, "step_t_nodelay"), key));
        assert_published(s->steps[i].ideal_s, number(object(root, "step_t_noblk"), key));
    }
}

static void compare_causes(const struct analyzed *a, struct lk_json *root)
{
    static const char *const keys[LK_PIPE_KINDS] = {
        [LK_PIPE_BY_STAGE] = "blocking_decompose_by_stage",
        [LK_PIPE_BY_DP] = "blocking_decompose_by_dp_rank",
        [LK_PIPE_BY_TYPE] = "blocking_decompose_by_optype"};

    for (size_t i = 0; i < a->s.n_causes; i++) {
        const struct lk_pipe_cause *c = &a->s.causes[i];
        char key[64];

        if (!keys[c->kind])
            continue;
        snprintf(key, sizeof key, "%d", c->number);
        assert_published(c->slowdown,
                         number(object(root, keys[c->kind]),
                                c->kind == LK_PIPE_BY_TYPE ? lk_pipe_types[c->number].shown : key));
    }
}

/* Compare the last stage as the only cause; the file says what is won without it, too. */
static void compare_last_stage(const struct analyzed *a, struct lk_json *root)
{
    const struct lk_pipe_cause *c = analyzed_cause(a, LK_PIPE_BY_STAGE, (int)a->ops.n_stages - 1);

    assert_published(c->slowdown, number(root, "tadd") / number(root, "tideal"));
    ck_assert_double_eq_tol(c->share, number(root, "rem"), 1e-5);
}

/* Open a file of the data set, or return NULL. The other jobs' tables are Parquet as published. */
static char *recorded(const char *format, const char *job)
{
    const char *folder = getenv("LK_TRACES") ? getenv("LK_TRACES") : "../shared/data/traces";
    char name[64], *path = NULL;

    snprintf(name, sizeof name, format, job);
    must(lk_asprintf(&path, "%s/bytedance_straggler/%s", folder, name));
    if (access(path, R_OK) == 0)
        return path;
    skip("no recorded trace %s", path);
    free(path);
    return NULL;
}

START_TEST(published_results_are_met)
{
    static const char *const jobs[] = {"ST", "AR", "SE"};
    char *ops = recorded("trace-%s.csv.gz", jobs[_i]);
    char *result = recorded("result-%s.json", jobs[_i]), *ms = recorded("ms-%s.json", jobs[_i]);
    struct lk_json_doc *doc = NULL, *ms_doc = NULL;
    struct analyzed a = {0};

    if (ops && result && ms) {
        must(analyzed_read(ops, &a));
        must(lk_json_load(result, &doc));
        must(lk_json_load(ms, &ms_doc));
        assert_published(a.s.launched_s / a.s.ideal_s,
                         number(lk_json_root(doc), "blocking_slowdown"));
        assert_published(a.s.measured_s / a.s.launched_s,
                         number(lk_json_root(doc), "launch_slowdown"));
        compare_steps(&a.s, lk_json_root(doc));
        compare_causes(&a, lk_json_root(doc));
        compare_last_stage(&a, lk_json_root(ms_doc));
    }
    analyzed_fini(&a);
    lk_json_free(doc);
    lk_json_free(ms_doc);
    free(ops);
    free(result);
    free(ms);
}
END_TEST

SUITE(pipeline_recorded, tests)
{
    tcase_add_loop_test(tests, published_results_are_met, 0, 3);
}
