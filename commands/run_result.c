#include "commands/run_result.h"

#include "base/array.h"
#include "base/json.h"

#include <math.h>

#define SCHEMA "lockstep-result"
enum { VERSION = 1 };

static void write_array(struct lk_json_out *o, const char *key, const double *v, int64_t n)
{
    lk_json_out_compact(o);
    lk_json_out_array(o, key);
    for (int64_t i = 0; i < n; i++)
        lk_json_out_number(o, NULL, v[i]);
    lk_json_out_close(o);
}

struct written {
    const struct lk_train_result *result;
    int64_t warmup_steps;
    const struct gpu_state *gpu;
};

static void write_root(struct lk_json_out *o, const void *ctx)
{
    const struct written *w = ctx;
    const struct lk_train_result *r = w->result;

    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", SCHEMA);
    lk_json_out_int(o, "version", VERSION);
    lk_json_out_int(o, "warmup_steps", w->warmup_steps);
    write_array(o, "step_s", r->step_s, r->n);
    lk_json_out_number(o, "counted_s", r->counted_s);
    write_array(o, "loss", r->loss, r->n);
    lk_json_out_object(o, "noise_scale_samples");
    lk_json_out_number(o, "value", r->noise.value);
    lk_json_out_number(o, "lo", r->noise.lo);
    lk_json_out_number(o, "hi", r->noise.hi);
    lk_json_out_int(o, "n", (int64_t)r->noise.n);
    lk_json_out_close(o);
    lk_json_out_number(o, "verify_max_error", r->verify_max_error);
    lk_json_out_number(o, "verify_allowed", r->verify_allowed);
    if (w->gpu->summary.n > 0)
        gpu_state_write(o, "gpu", w->gpu);
    lk_json_out_close(o);
}

enum lk_status run_result_write(const char *path, const struct lk_train_result *r,
                                int64_t warmup_steps, const struct gpu_state *gpu)
{
    const struct written w = {r, warmup_steps, gpu};

    return lk_json_write(path, write_root, &w);
}

static enum lk_status read_array(struct lk_json *root, const char *key, int64_t *n, double **out)
{
    enum lk_status st = LK_OK;
    struct lk_json *array;

    LK_TRY(lk_json_array(root, key, &array));
    *n = (int64_t)lk_json_count(array);
    LK_TRY(lk_alloc(out, lk_json_count(array), sizeof **out));
    for (int64_t i = 0; i < *n; i++) {
        struct lk_json *item = lk_json_item(array, (size_t)i);

        (*out)[i] = NAN;
        if (lk_json_type(item) != LK_JSON_NULL)
            LK_TRY(lk_json_as_number(item, &(*out)[i]));
    }
out:
    return st;
}

/* A number that was not finite was written as null. */
static enum lk_status read_number(struct lk_json *obj, const char *key, double missing, double *out)
{
    struct lk_json *v = lk_json_optional(obj, key);

    *out = missing;
    return v ? lk_json_as_number(v, out) : LK_OK;
}

static enum lk_status read_root(struct lk_json *root, void *ctx)
{
    enum lk_status st = LK_OK;
    struct lk_train_result *r = ctx;
    struct lk_json *noise;
    int64_t n;
    int64_t warmup;
    int64_t samples;

    LK_TRY(lk_json_schema(root, SCHEMA, VERSION));
    LK_TRY(lk_json_int(root, "warmup_steps", 0, INT64_MAX, &warmup));
    LK_TRY(read_array(root, "step_s", &r->n, &r->step_s));
    LK_TRY(read_number(root, "counted_s", NAN, &r->counted_s));
    LK_TRY(read_array(root, "loss", &n, &r->loss));
    if (n != r->n)
        LK_TRY(lk_json_error(root, "%lld losses of %lld steps", (long long)n, (long long)r->n));
    LK_TRY(lk_json_object(root, "noise_scale_samples", &noise));
    LK_TRY(read_number(noise, "value", NAN, &r->noise.value));
    LK_TRY(read_number(noise, "lo", NAN, &r->noise.lo));
    LK_TRY(read_number(noise, "hi", isnan(r->noise.value) ? NAN : INFINITY, &r->noise.hi));
    LK_TRY(lk_json_int(noise, "n", 0, INT64_MAX, &samples));
    r->noise.n = (size_t)samples;
    LK_TRY(lk_json_end(noise));
    LK_TRY(read_number(root, "verify_max_error", NAN, &r->verify_max_error));
    LK_TRY(read_number(root, "verify_allowed", NAN, &r->verify_allowed));
    (void)lk_json_optional(root, "gpu"); /* for people and scripts */
    LK_TRY(lk_json_end(root));
out:
    return st;
}

enum lk_status run_result_read(const char *path, struct lk_train_result *out)
{
    struct lk_train_result r = {0};
    enum lk_status st = lk_json_read(path, read_root, &r);

    if (st == LK_OK)
        *out = r;
    else
        lk_train_result_fini(&r);
    return st;
}
