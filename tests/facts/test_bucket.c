/* Bucket assignment: PyTorch's algorithm, by hand and against PyTorch's own log. */
#include "facts/bucket.h"

#include "base/array.h"
#include "base/json.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>

enum { TENSORS_MAX = 8, BUCKETS_MAX = 8 };

/* Lists end with -1. */
static const struct {
    const char *name;
    struct lk_bucket_tensor tensors[TENSORS_MAX];
    size_t n;
    int order[TENSORS_MAX]; /* first item -1: none */
    uint64_t limits[3];
    size_t n_limits;
    int buckets[BUCKETS_MAX][TENSORS_MAX + 1];
    size_t n_buckets;
} rows[] = {
    {"nothing", {{0}}, 0, {-1}, {10}, 1, {{-1}}, 0},
    {"append, then test",
     {{6, LK_F32}, {6, LK_F32}, {6, LK_F32}},
     3,
     {-1},
     {10},
     1,
     {{0, 1, -1}, {2, -1}},
     2},
    {"an exact hit closes",
     {{4, LK_F32}, {6, LK_F32}, {1, LK_F32}},
     3,
     {-1},
     {10},
     1,
     {{0, 1, -1}, {2, -1}},
     2},
    {"a tensor above the limit takes what was collected",
     {{1, LK_F32}, {99, LK_F32}, {1, LK_F32}},
     3,
     {-1},
     {10},
     1,
     {{0, 1, -1}, {2, -1}},
     2},
    {"the last limit stays",
     {{2, LK_F32}, {4, LK_F32}, {4, LK_F32}, {8, LK_F32}, {1, LK_F32}},
     5,
     {-1},
     {1, 8},
     2,
     {{0, -1}, {1, 2, -1}, {3, -1}, {4, -1}},
     4},
    {"each dtype walks along the limits alone",
     {{2, LK_F32}, {2, LK_F16}, {4, LK_F32}, {4, LK_F32}, {2, LK_F16}},
     5,
     {-1},
     {1, 8},
     2,
     {{0, -1}, {1, -1}, {2, 3, -1}, {4, -1}},
     4},
    {"sorted by smallest index without an order",
     {{1, LK_F32}, {9, LK_F16}, {1, LK_F64}},
     3,
     {-1},
     {8},
     1,
     {{0, -1}, {1, -1}, {2, -1}},
     3},
    {"left-overs come last, youngest dtype first, with an order",
     {{1, LK_F32}, {9, LK_F16}, {1, LK_F64}},
     3,
     {0, 1, 2, -1},
     {8},
     1,
     {{1, -1}, {2, -1}, {0, -1}},
     3},
    {"the order is walked",
     {{5, LK_F32}, {6, LK_F32}, {5, LK_F32}},
     3,
     {2, 0, 1, -1},
     {10},
     1,
     {{2, 0, -1}, {1, -1}},
     2},
};

START_TEST(by_hand)
{
    size_t order[TENSORS_MAX];
    bool ordered = rows[_i].order[0] >= 0;
    struct lk_bucket_plan p;

    for (size_t i = 0; ordered && i < rows[_i].n; i++)
        order[i] = (size_t)rows[_i].order[i];
    ck_assert_int_eq(lk_bucket_assign(rows[_i].tensors, rows[_i].n, ordered ? order : NULL,
                                      rows[_i].limits, rows[_i].n_limits, &p),
                     LK_OK);
    ck_assert_uint_eq(p.n_buckets, rows[_i].n_buckets);
    for (size_t b = 0; b < p.n_buckets; b++) {
        uint64_t bytes = 0;
        size_t n = 0;

        for (; rows[_i].buckets[b][n] >= 0; n++) {
            ck_assert_uint_eq(p.index[p.first[b] + n], (size_t)rows[_i].buckets[b][n]);
            bytes += rows[_i].tensors[p.index[p.first[b] + n]].bytes;
        }
        ck_assert_uint_eq(p.first[b + 1] - p.first[b], n);
        ck_assert_uint_eq(p.bytes[b], bytes);
    }
    lk_bucket_plan_fini(&p);
    ck_assert_uint_eq(p.n_buckets, 0);
}
END_TEST

START_TEST(a_bad_order_is_refused)
{
    static const size_t orders[][2] = {{0, 0}, {0, 2}, {1, 1}};
    const struct lk_bucket_tensor t[] = {{1, LK_F32}, {1, LK_F32}};
    struct lk_bucket_plan p;

    ck_assert_int_eq(lk_bucket_rebuilt(t, 2, orders[_i], 1, 1, &p), LK_EPARSE);
}
END_TEST

START_TEST(bytes_do_not_wrap)
{
    const struct lk_bucket_tensor t[] = {{UINT64_MAX, LK_F32}, {UINT64_MAX, LK_F32}};
    const uint64_t limits[] = {UINT64_MAX};
    struct lk_bucket_plan p;

    ck_assert_int_eq(lk_bucket_assign(t, 2, NULL, limits, 1, &p), LK_OK);
    ck_assert_uint_eq(p.n_buckets, 2);
    lk_bucket_plan_fini(&p);
    const struct lk_bucket_tensor u[] = {{UINT64_MAX - 1, LK_F32}, {2, LK_F32}};
    ck_assert_int_eq(lk_bucket_assign(u, 2, NULL, limits, 1, &p), LK_EPARSE);
}
END_TEST

START_TEST(rules)
{
    enum lk_ddp_rule r;

    for (int i = 0; i < LK_DDP_RULE_COUNT; i++) {
        ck_assert_int_eq(
            lk_words_find(&lk_ddp_rule_words, lk_ddp_rule_name((enum lk_ddp_rule)i), &r), LK_OK);
        ck_assert_int_eq(r, i);
        ck_assert_uint_eq(lk_ddp_rule_first_bytes(r, 5, false), LK_BUCKET_FIRST_BYTES);
    }
    ck_assert_uint_eq(lk_ddp_rule_first_bytes(LK_DDP_TORCH_1_13, 5, true), LK_BUCKET_FIRST_BYTES);
    ck_assert_uint_eq(lk_ddp_rule_first_bytes(LK_DDP_TORCH_2, 5, true), 5);
    ck_assert_int_eq(lk_words_find(&lk_ddp_rule_words, "torch-9", &r), LK_EPARSE);
}
END_TEST

/* Up to 1.11: limits at once, the list reversed, the order inside a bucket kept. */
START_TEST(initial_lists_are_reversed)
{
    const struct lk_bucket_tensor t[] = {{4, LK_F32}, {4, LK_F32}, {4, LK_F32}, {4, LK_F32}};
    static const size_t one[] = {0, 1, 2, 3}, capped[] = {3, 1, 2, 0};
    struct lk_bucket_plan p;

    ck_assert_int_eq(lk_bucket_initial(LK_DDP_TORCH_2, t, 4, 4, 8, &p), LK_OK);
    ck_assert_uint_eq(p.n_buckets, 1);
    ck_assert_mem_eq(p.index, one, sizeof one);
    lk_bucket_plan_fini(&p);
    ck_assert_int_eq(lk_bucket_initial(LK_DDP_TORCH_1_11, t, 4, 4, 8, &p), LK_OK);
    ck_assert_uint_eq(p.n_buckets, 3);
    ck_assert_mem_eq(p.index, capped, sizeof capped);
    ck_assert_uint_eq(p.bytes[1], 8);
    lk_bucket_plan_fini(&p);
}
END_TEST

/* ---- Against PyTorch: tests/data/make_bucket_golden.py ---- */

enum { GOLDEN_CASES = 12 };

struct list {
    size_t *v;
    size_t n;
};

static struct list read_list(struct lk_json *array)
{
    struct list l = {.n = lk_json_count(array)};
    int64_t v = 0;

    ck_assert_int_eq(lk_alloc(&l.v, l.n, sizeof *l.v), LK_OK);
    for (size_t i = 0; i < l.n; i++) {
        ck_assert_int_eq(lk_json_as_int(lk_json_item(array, i), 0, INT64_MAX, &v), LK_OK);
        l.v[i] = (size_t)v;
    }
    return l;
}

static struct list member_list(struct lk_json *obj, const char *key)
{
    struct lk_json *array = NULL;

    ck_assert_int_eq(lk_json_array(obj, key, &array), LK_OK);
    return read_list(array);
}

static struct lk_bucket_tensor *golden_tensors(struct lk_json *c, size_t *out_n)
{
    struct list elems = member_list(c, "elems");
    struct lk_bucket_tensor *t;
    struct lk_json *names = NULL;
    const char *name = NULL;

    ck_assert_int_eq(lk_json_array(c, "dtypes", &names), LK_OK);
    ck_assert_uint_eq(lk_json_count(names), elems.n);
    ck_assert_int_eq(lk_alloc(&t, elems.n, sizeof *t), LK_OK);
    for (size_t i = 0; i < elems.n; i++) {
        ck_assert_int_eq(lk_json_as_text(lk_json_item(names, i), &name), LK_OK);
        ck_assert_int_eq(lk_words_find(&lk_dtype_words, name, &t[i].dtype), LK_OK);
        t[i].bytes = elems.v[i] * lk_dtype_bytes(t[i].dtype);
    }
    *out_n = elems.n;
    free(elems.v);
    return t;
}

static void same_plan(const struct lk_bucket_plan *p, struct lk_json *c, const char *key,
                      const char *bytes_key)
{
    struct list bytes = member_list(c, bytes_key);
    struct lk_json *buckets = NULL;

    ck_assert_int_eq(lk_json_array(c, key, &buckets), LK_OK);
    ck_assert_uint_eq(p->n_buckets, lk_json_count(buckets));
    ck_assert_uint_eq(p->n_buckets, bytes.n);
    for (size_t b = 0; b < p->n_buckets; b++) {
        struct list l = read_list(lk_json_item(buckets, b));

        ck_assert_uint_eq(p->bytes[b], bytes.v[b]);
        ck_assert_uint_eq(p->first[b + 1] - p->first[b], l.n);
        ck_assert_mem_eq(&p->index[p->first[b]], l.v, l.n * sizeof *l.v);
        free(l.v);
    }
    free(bytes.v);
}

START_TEST(same_as_pytorch)
{
    struct lk_json_doc *doc = NULL;
    struct lk_json *cases = NULL;
    struct lk_json *c;
    struct lk_bucket_tensor *t;
    struct lk_bucket_plan p;
    struct list ready;
    int64_t cap = 0;
    bool cap_set = false;
    bool unused = false;
    uint64_t first;
    size_t n;

    ck_assert_msg(lk_json_load("tests/data/bucket_torch113.json", &doc) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_int_eq(lk_json_array(lk_json_root(doc), "cases", &cases), LK_OK);
    ck_assert_uint_eq(lk_json_count(cases), GOLDEN_CASES);
    c = lk_json_item(cases, (size_t)_i);
    t = golden_tensors(c, &n);
    ck_assert_int_eq(lk_json_as_bool(lk_json_optional(c, "find_unused_parameters"), &unused),
                     LK_OK);
    ck_assert_int_eq(lk_json_as_bool(lk_json_optional(c, "cap_set"), &cap_set), LK_OK);
    ck_assert_int_eq(lk_json_int(c, "cap_bytes", 1, INT64_MAX, &cap), LK_OK);
    first = lk_ddp_rule_first_bytes(LK_DDP_TORCH_1_13, (uint64_t)cap, cap_set);
    /* With find_unused_parameters 1.13 starts as up to 1.11, and does not rebuild. */
    ck_assert_int_eq(lk_bucket_initial(unused ? LK_DDP_TORCH_1_11 : LK_DDP_TORCH_1_13, t, n, first,
                                       (uint64_t)cap, &p),
                     LK_OK);
    same_plan(&p, c, "initial", "initial_bytes");
    lk_bucket_plan_fini(&p);
    ready = member_list(c, "ready_order");
    if (!unused) {
        ck_assert_uint_eq(ready.n, n);
        ck_assert_int_eq(lk_bucket_rebuilt(t, n, ready.v, first, (uint64_t)cap, &p), LK_OK);
        same_plan(&p, c, "rebuilt", "rebuilt_bytes");
        lk_bucket_plan_fini(&p);
    }
    free(ready.v);
    free(t);
    lk_json_free(doc);
}
END_TEST

SUITE(bucket, t)
{
    tcase_add_loop_test(t, by_hand, 0, (int)LK_COUNT(rows));
    tcase_add_loop_test(t, a_bad_order_is_refused, 0, 3);
    tcase_add_test(t, bytes_do_not_wrap);
    tcase_add_test(t, rules);
    tcase_add_test(t, initial_lists_are_reversed);
    tcase_add_loop_test(t, same_as_pytorch, 0, GOLDEN_CASES);
}
