/* Checkpoints of a run; see the header. */
#include "commands/run_checkpoint.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "commands/command.h"
#include "runtime/train/checkpoint.h"
#include "sim/planning/economics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the steps of a run, which a checkpoint to go on from has fewer of. */
static int64_t steps_of(const struct run_options *o)
{
    return o->train.steps + o->train.warmup_steps;
}

enum lk_status run_checkpoint_resolve(struct run_options *o, char **owned)
{
    struct lk_checkpoint_config *c = &o->train.checkpoint;

    if (!c->resume || !lk_is_folder(c->resume))
        return LK_OK;
    if (lk_checkpoint_find(c->resume, steps_of(o), owned) !=
        LK_OK) /* the trainer says what is wrong */
        LK_PASS(lk_fail_context(lk_checkpoint_find(c->resume, INT64_MAX, owned), "--resume"));
    c->resume = *owned;
    return LK_OK;
}

/* ---- What a file says of the options ---- */

/* Options that change no bit of the weights, or of which the trainer warns itself. */
static bool is_of_bits(const struct lk_option *row)
{
    static const char *const others[] = {"ranks",        "local-batch", "steps",
                                         "warmup",       "timeout",     "checkpoint-every",
                                         "keep",         "resume",      "restart",
                                         "fault",        "check-every", "verify",
                                         "verify-steps", "noise-every", "trace",
                                         "merged-trace", "repetitions", "prefetch",
                                         "pin",          "import",      "checkpoint-dir",
                                         "hosts",        "ssh",         "input-delay",
                                         "nvtx",         "gpu-records", "gpu-record-steps",
                                         "gpu-state",    "graph"};

    if (row->may_differ || row->role == LK_ROLE_OUTPUT || row->role == LK_ROLE_FOLDER)
        return false;
    for (size_t i = 0; i < LK_COUNT(others); i++)
        if (!strcmp(row->name, others[i]))
            return false;
    return true;
}

enum lk_status run_checkpoint_texts(const struct run_options *o, struct lk_tensor_text **out,
                                    size_t *out_n)
{
    struct lk_tensor_text *texts = NULL;
    size_t n = 0;

    for (const struct lk_option *row = o->command->options; row->name; row++)
        n += is_of_bits(row);
    LK_PASS(lk_alloc(&texts, n, sizeof *texts));
    n = 0;
    for (const struct lk_option *row = o->command->options; row->name; row++) {
        if (!is_of_bits(row))
            continue;
        snprintf(texts[n].key, sizeof texts->key, "--%s", row->name);
        lk_option_value(row, o, texts[n].value, sizeof texts->value);
        n++;
    }
    *out = texts;
    *out_n = n;
    return LK_OK;
}

/* Warn of options with other values than the checkpoint's. */
static enum lk_status compare(const struct run_options *o, const struct lk_tensor_file *f)
{
    struct lk_tensor_text *texts = NULL;
    char *differ = NULL;
    enum lk_status st = LK_OK;
    size_t n;

    LK_TRY(run_checkpoint_texts(o, &texts, &n));
    for (size_t i = 0; i < n; i++) {
        const char *was = lk_tensor_file_text(f, texts[i].key);

        if (was && strcmp(was, texts[i].value) != 0)
            LK_TRY(lk_text_add(&differ, "%s%s=%s", differ ? ", " : "", texts[i].key, was));
    }
    if (differ)
        lk_log(LK_LOG_MAIN, LK_WARN,
               "%s was made with %s: this run has other values, and does not go on bit for bit",
               o->train.checkpoint.resume, differ);
out:
    free(differ);
    free(texts);
    return st;
}

static double number(const struct lk_tensor_file *f, const char *key)
{
    const char *text = lk_tensor_file_text(f, key);

    return text ? strtod(text, NULL) : 0;
}

static bool is_within(const char *path, const char *folder)
{
    char *p = realpath(path, NULL), *f = realpath(folder, NULL);
    size_t n = f ? strlen(f) : 0;
    bool within = p && f && !strncmp(p, f, n) && p[n] == '/';

    free(p);
    free(f);
    return within;
}

/* Refuse to write among the checkpoints of another run. */
static enum lk_status check_folder(const struct lk_checkpoint_config *c)
{
    char *found = NULL;

    if (!c->dir || !lk_is_folder(c->dir) || (c->resume && is_within(c->resume, c->dir)) ||
        lk_checkpoint_find(c->dir, INT64_MAX, &found) != LK_OK)
        return LK_OK;
    free(found);
    return lk_fail(LK_EUSAGE,
                   "--checkpoint-dir=%s has checkpoints: go on from them (--resume=%s), or give "
                   "another folder",
                   c->dir, c->dir);
}

enum lk_status run_checkpoint_check(const struct run_options *o, struct lk_train_course *out_before)
{
    const struct lk_checkpoint_config *c = &o->train.checkpoint;
    struct lk_tensor_file f = {0};
    enum lk_status st = LK_OK;

    LK_TRY(check_folder(c));
    if (!c->resume)
        return LK_OK;
    if (o->force && o->out && is_within(c->resume, o->out))
        LK_TRY(
            lk_fail(LK_EUSAGE, "--force would remove --resume=%s; give another --out", c->resume));
    LK_TRY(lk_fail_context(lk_checkpoint_read(c->resume, &f), "--resume"));
    LK_TRY(compare(o, &f));
    *out_before = (struct lk_train_course){.first_step = (int64_t)number(&f, "step"),
                                           .checkpoints = (int64_t)number(&f, "checkpoints"),
                                           .trained_s = number(&f, "trained_s"),
                                           .stalled_s = number(&f, "stalled_s"),
                                           .starting_s = number(&f, "starting_s"),
                                           .starts = (int64_t)number(&f, "starts")};
out:
    lk_tensor_file_fini(&f);
    return st;
}

enum lk_status run_checkpoint_newest(const char *dir, const struct run_options *o, char **out)
{
    struct lk_tensor_file f = {0};
    int64_t below = steps_of(o);
    char *path = NULL;

    *out = NULL;
    while (lk_checkpoint_find(dir, below, &path) == LK_OK) {
        if (lk_tensor_file_read(path, &f) == LK_OK) {
            lk_tensor_file_fini(&f);
            *out = path;
            return LK_OK;
        }
        lk_log(LK_LOG_MAIN, LK_WARN, "%s", lk_error_text());
        below = lk_checkpoint_steps(path);
        free(path);
    }
    return LK_OK;
}

/* ---- Goodput ---- */

enum lk_status run_checkpoint_note(const struct run_starts *s, const struct lk_train_course *c,
                                   int ranks, struct lk_page *page)
{
    const struct lk_train_course *b = &s->before;
    double trained_s = c->trained_s - b->trained_s, stalled_s = c->stalled_s - b->stalled_s;
    double starting_s = c->starting_s - b->starting_s;
    double n = (double)(c->checkpoints - b->checkpoints), share = trained_s / s->wall_s;
    double lost_s = s->wall_s - trained_s - stalled_s - starting_s;
    char wall[32], model[128] = "";

    if (s->failures && n > 0) {
        const struct lk_goodput g = {.mtbf_s = s->wall_s / s->failures * ranks,
                                     .write_s = stalled_s / n,
                                     .restart_s = starting_s / (double)(c->starts - b->starts)};

        snprintf(model, sizeof model, "; the model gives %.0f %% for such failures and checkpoints",
                 lk_goodput_share(&g, ranks, trained_s / n) * 100);
    }
    (void)lk_units_format(LK_DIM_TIME, s->wall_s, wall, sizeof wall);
    return lk_page_note(page,
                        "goodput: %.0f %% of %s was training that counts (checkpoints %.1f %%, "
                        "starts %.0f %%, the rest %.0f %%, with %d failure%s)%s",
                        share * 100, wall, stalled_s / s->wall_s * 100,
                        starting_s / s->wall_s * 100, lost_s / s->wall_s * 100, s->failures,
                        s->failures == 1 ? "" : "s", model);
}
