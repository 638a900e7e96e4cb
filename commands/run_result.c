/* The file result.json of one run; see commands/run_grid.h. */
#include "base/member.h"
#include "commands/gpu_state.h"
#include "commands/run_grid.h"

#include <math.h>

/* Members of the file. A file that was read has no gpu: this program does not use it. */
struct result {
    struct lk_train_result train; /* without its n */
    size_t n_steps, n_losses;
    const struct gpu_state *gpu;
};

/* Restore an infinite upper bound, which is written as null. */
static enum lk_status check_estimate(struct lk_json *v, void *base)
{
    struct lk_estimate *e = base;

    (void)v;
    if (isnan(e->hi) && !isnan(e->value))
        e->hi = INFINITY;
    return LK_OK;
}

#define ROW(field, ...) LK_MEMBER(struct lk_estimate, field, #field, __VA_ARGS__)
static const struct lk_member estimate_rows[] = {
    ROW(value, NUMBER, OPTIONAL, .help = "estimate"),
    ROW(lo, NUMBER, OPTIONAL, .help = "its interval, from"),
    ROW(hi, NUMBER, OPTIONAL, .help = "to", .without = "without a bound"),
    ROW(n, UINT, REQUIRED, .max = INT64_MAX, .help = "steps behind it"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record estimate_record = {
    .size = sizeof(struct lk_estimate), .rows = estimate_rows, .check = check_estimate};

#define ROW(field, ...) LK_MEMBER(struct lk_train_course, field, #field, __VA_ARGS__)
static const struct lk_member course_rows[] = {
    ROW(first_step, INT64, REQUIRED,
        .help = "of the last start; the ones before are a checkpoint's"),
    ROW(starts, INT64, REQUIRED, .help = "starts that came to a step and a checkpoint"),
    ROW(checkpoints, INT64, REQUIRED, .help = "checkpoints"),
    ROW(trained_s, NUMBER, REQUIRED, .help = "seconds in steps that count"),
    ROW(stalled_s, NUMBER, REQUIRED, .help = "seconds in which checkpoints stopped training"),
    ROW(starting_s, NUMBER, REQUIRED, .help = "seconds from a start, or a failure, to a step"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record course_record = {.size = sizeof(struct lk_train_course),
                                               .rows = course_rows};

static enum lk_status skip_gpu(struct lk_json *obj, void *base, const void *root)
{
    (void)base;
    (void)root;
    (void)lk_json_optional(obj, "gpu");
    return LK_OK;
}

/* Write the GPU, if it was sampled. */
static void write_gpu(struct lk_json_out *o, const void *base, const void *root)
{
    const struct result *r = base;

    (void)root;
    if (r->gpu->summary.n > 0)
        gpu_state_write(o, "gpu", r->gpu);
}

static const struct lk_member_own gpu = {"object", skip_gpu, write_gpu, false};

static enum lk_status check_result(struct lk_json *root, void *base)
{
    struct result *r = base;

    r->train.n = (int64_t)r->n_steps;
    return r->n_losses == r->n_steps
               ? LK_OK
               : lk_json_error(root, "%zu losses of %zu steps", r->n_losses, r->n_steps);
}

#define ROW(field, key, ...) LK_MEMBER(struct result, field, key, __VA_ARGS__)
static const struct lk_member result_rows[] = {
    ROW(train.skipped, "warmup_steps", INT64, REQUIRED, .help = "first steps, left out of figures"),
    ROW(train.step_s, "step_s", NUMBERS, NULLABLE, .count = offsetof(struct result, n_steps),
        .help = "seconds of every step, mean over ranks"),
    ROW(train.counted_s, "counted_s", NUMBER, OPTIONAL,
        .help = "seconds from the end of the warm-up to the end of the last step"),
    ROW(train.loss, "loss", NUMBERS, NULLABLE, .count = offsetof(struct result, n_losses),
        .help = "loss of every step, mean over its samples"),
    ROW(train.samples, "samples_a_step", NUMBER, OPTIONAL,
        .help = "samples of all ranks in a step, mean of those that count"),
    ROW(train.noise, "noise_scale_samples", OBJECT, REQUIRED, .of = &estimate_record,
        .help = "gradient noise scale"),
    ROW(train.verify_max_error, "verify_max_error", NUMBER, OPTIONAL,
        .help = "largest relative error of a gradient, with --verify"),
    ROW(train.verify_allowed, "verify_allowed", NUMBER, OPTIONAL, .help = "what was allowed"),
    ROW(train.loss_scale, "loss_scale", NUMBER, SPARSE, .min = 0, .help = "behind the last step",
        .without = "the loss was not scaled"),
    ROW(train.overflown, "skipped_steps", INT64, SPARSE, .min = 1,
        .help = "steps that were not applied, as gradients overflowed", .without = "none"),
    ROW(train.course, "course", OBJECT, OPTIONAL, .of = &course_record,
        .help = "of a run with checkpoints, over all its starts"),
    ROW(gpu, "gpu", OWN, OPTIONAL, .own = &gpu, .help = "clock, power, throttling of rank 0's GPU"),
    LK_MEMBER_END,
};
#undef ROW
const struct lk_record run_result_record = {.size = sizeof(struct result),
                                            .rows = result_rows,
                                            .schema = "lockstep-result",
                                            .version = 1,
                                            .check = check_result};

enum lk_status run_result_write(const char *path, const struct lk_train_result *r,
                                const struct gpu_state *gpu_state)
{
    const struct result file = {*r, (size_t)r->n, (size_t)r->n, gpu_state};

    return lk_record_save(&run_result_record, path, &file);
}

enum lk_status run_result_read(const char *path, struct lk_train_result *out)
{
    struct result file;
    enum lk_status st = lk_record_load(&run_result_record, path, &file);

    if (st == LK_OK)
        *out = file.train;
    return st;
}
