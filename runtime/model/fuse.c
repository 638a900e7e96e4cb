/* What a step fuses: its words, and the choice; see the header. */
#include "runtime/model/fuse.h"

#include "base/array.h"
#include "base/log.h"
#include "base/stats.h"
#include "facts/span.h"
#include "runtime/model/model_impl.h"
#include "runtime/rendezvous/store.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Words ---- */

const struct lk_words lk_fusion_words = LK_WORDS("a fusion", LK_FUSE_LIST);

#define AUTO          "auto"
#define NONE          "none"
#define NAME(f, name) name,
static const char *const words[] = {AUTO, NONE, LK_FUSE_LIST(NAME)};
#undef NAME
const struct lk_words lk_fuse_words = {"a fusion, auto or none", words, LK_COUNT(words)};

enum lk_status lk_fuse_parse(const char *text, struct lk_fuse *out)
{
    struct lk_fuse f = {0};
    char *copy = NULL, *rest, *word;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < LK_FUSE_COUNT && !strcmp(text, AUTO); i++)
        f.wish[i] = LK_FUSE_AUTO;
    LK_TRY(lk_strdup(&copy, text));
    rest = strcmp(text, AUTO) != 0 && strcmp(text, NONE) != 0 ? copy : NULL;
    while ((word = lk_list_next(&rest))) {
        enum lk_fusion which;

        if (lk_words_find(&lk_fusion_words, word, &which) != LK_OK)
            LK_TRY(lk_fail(LK_EUSAGE, "%s, or '" AUTO "' or '" NONE "' alone", lk_error_text()));
        f.wish[which] = LK_FUSE_YES;
    }
    *out = f;
out:
    free(copy);
    return st;
}

/* ---- Choosing ---- */

enum { WARM_UP = 2, ROUNDS = 7, TIMES = 2 * ROUNDS, TEXT = 1024 };

/* What the trace says of a choice. */
struct choice {
    char text[TEXT];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void say(struct choice *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    c->n += (size_t)vsnprintf(c->text + c->n, sizeof c->text - c->n, format, args);
    va_end(args);
    if (c->n >= sizeof c->text)
        c->n = sizeof c->text - 1;
}

/* Return true if all gradients begin at multiples of 16 bytes, wherever their buckets put them:
 * epilogues may be for no others. */
static bool gradients_are_aligned(const struct lk_model *m)
{
    for (size_t i = 0; i < m->n_params; i++)
        if (m->params[i].elems * lk_device_real_bytes(m->device) % 16)
            return false;
    return true;
}

/* Fill the model's buffers as a step does: products of zeros draw less power and take less time. */
static enum lk_status fill_buffers(struct lk_model *m)
{
    size_t tokens = (size_t)m->max_samples * lk_sample_inputs(&m->sample);
    struct lk_batch batch = {.samples = m->max_samples, .shape = m->sample};
    void *zeros = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_device_alloc(m->device, tokens * sizeof(int32_t), &zeros));
    batch.inputs = batch.targets = zeros;
    LK_TRY(m->ops->forward(m, &batch, NAN));
    LK_TRY(m->ops->backward(m, &batch, 1, false, NULL));
out:
    if (zeros)
        lk_device_free(m->device, zeros);
    return st;
}

/* Enqueue a fusion's work, fused and not by turns, with an event behind each. */
static enum lk_status run_turns(struct lk_model *m, size_t i, struct lk_event *const at[TIMES + 1])
{
    for (int k = -2 * WARM_UP; k <= TIMES; k++) {
        if (k >= 0)
            LK_PASS(lk_event_record(at[k], m->stream));
        m->fusions[i].used = k % 2;
        if (k < TIMES)
            LK_PASS(m->ops->probe(m, i));
    }
    return LK_OK;
}

/* Measure how long the fused work takes as a part of the other. */
static enum lk_status measure(struct lk_model *m, size_t i, uint64_t timeout_ns, double *out)
{
    struct lk_event *at[TIMES + 1] = {NULL};
    double ns[2][ROUNDS];
    enum lk_status st = LK_OK;

    for (size_t k = 0; k < LK_COUNT(at); k++)
        LK_TRY(lk_event_create(m->device, &at[k]));
    LK_TRY(run_turns(m, i, at));
    LK_TRY(lk_stream_sync(m->stream, lk_deadline_in(timeout_ns)));
    for (size_t k = 0; k < TIMES; k++)
        ns[k % 2][k / 2] = (double)(lk_event_time_ns(at[k + 1]) - lk_event_time_ns(at[k]));
    *out = lk_stats_median(ns[1], ROUNDS) / fmax(lk_stats_median(ns[0], ROUNDS), 1);
out:
    for (size_t k = 0; k < LK_COUNT(at); k++)
        lk_event_destroy(at[k]);
    return st;
}

/* Return why a fusion is not tried, or NULL. */
static const char *lacks(const struct lk_model *m, const struct lk_fuse_config *c,
                         const struct lk_fused *f)
{
    enum lk_fuse_wish wish = c->fuse.wish[f->whose];

    if (wish == LK_FUSE_NO)
        return "not asked for";
    if (f->measured && !gradients_are_aligned(m))
        return "gradients begin at no multiples of 16 bytes";
    if (f->measured && c->elsewhere)
        return "the sharding has parameters and gradients in place during a step only";
    return f->measured && wish == LK_FUSE_AUTO && c->deterministic
               ? "a deterministic run chooses nothing by time"
               : NULL;
}

/* Try a fusion that may be refused, and time it unless it is demanded. */
static enum lk_status try_fusion(struct lk_model *m, const struct lk_fuse_config *c, size_t i,
                                 struct choice *out)
{
    struct lk_fused *f = &m->fusions[i];
    bool demanded = c->fuse.wish[f->whose] == LK_FUSE_YES;
    double ratio = 0;
    enum lk_status st;

    f->used = true;
    st = m->ops->probe(m, i);
    if (st == LK_EUNSUPPORTED && !demanded) {
        f->used = false;
        lk_log(LK_LOG_TRAIN, LK_INFO, "%s is not fused: %s", f->name, lk_error_text());
        say(out, "own, the other is refused");
        return LK_OK;
    }
    LK_PASS(lk_fail_context(st, "--fuse=%s: %s", lk_fusion_name(f->whose), f->name));
    if (!demanded)
        LK_PASS(measure(m, i, c->timeout_ns, &ratio));
    f->used = ratio < 1;
    say(out,
        demanded  ? "fused"
        : f->used ? "fused, %.3f of own's time"
                  : "own, fused %.3f of its time",
        ratio);
    return LK_OK;
}

static enum lk_status choose_one(struct lk_model *m, const struct lk_fuse_config *c, size_t i,
                                 struct choice *out)
{
    struct lk_fused *f = &m->fusions[i];
    const char *why = lacks(m, c, f);

    say(out, "%s%s: ", i ? "; " : "", f->name);
    if (why && c->fuse.wish[f->whose] == LK_FUSE_YES)
        return lk_fail(LK_EUNSUPPORTED, "--fuse=%s: %s: %s", lk_fusion_name(f->whose), f->name,
                       why);
    f->used = !why;
    if (why)
        say(out, "own, %s", why);
    else if (!f->measured)
        say(out, "fused");
    else
        LK_PASS(try_fusion(m, c, i, out));
    return LK_OK;
}

/* Return true if something is chosen by time. */
static bool measures(const struct lk_model *m, const struct lk_fuse_config *c)
{
    for (size_t i = 0; i < m->n_fusions; i++)
        if (m->fusions[i].measured && c->fuse.wish[m->fusions[i].whose] == LK_FUSE_AUTO &&
            !lacks(m, c, &m->fusions[i]))
            return true;
    return false;
}

/* Refuse a demand for what the device or the model does not have. */
static enum lk_status check_demands(const struct lk_model *m, const struct lk_fuse_config *c)
{
    for (int which = 0; which < LK_FUSE_OPTIMIZER; which++) {
        bool has = false;

        for (size_t i = 0; i < m->n_fusions; i++)
            has |= m->fusions[i].whose == (enum lk_fusion)which;
        if (c->fuse.wish[which] == LK_FUSE_YES && !(has && lk_device_fuses(m->device)))
            return lk_fail(LK_EUNSUPPORTED, "--fuse=%s: %s %s does not fuse it",
                           lk_fusion_words.names[which], has ? "device" : "model",
                           has ? lk_device_name(m->device) : m->ops->name);
    }
    return LK_OK;
}

static enum lk_status choose_here(struct lk_model *m, const struct lk_fuse_config *c,
                                  struct choice *out)
{
    if (measures(m, c))
        LK_PASS(fill_buffers(m));
    for (size_t i = 0; i < m->n_fusions; i++)
        LK_PASS(choose_one(m, c, i, out));
    LK_PASS(lk_stream_sync(m->stream, lk_deadline_in(c->timeout_ns)));
    lk_log(LK_LOG_TRAIN, LK_INFO, "fusions: %s", out->text);
    return LK_OK;
}

/* Tell the other ranks what is chosen: a digit for each of the model's fusions, and the text. */
static enum lk_status tell(const struct lk_model *m, const struct lk_fuse_config *c,
                           const char *key, const struct choice *from)
{
    struct choice message = {.n = 0};

    for (size_t i = 0; i < m->n_fusions; i++)
        say(&message, "%d", m->fusions[i].used);
    say(&message, "%s", from->text);
    return lk_store_set(c->store, key, message.text, message.n);
}

static enum lk_status hear(struct lk_model *m, const struct lk_fuse_config *c, const char *key,
                           struct choice *out)
{
    enum lk_status st = LK_OK;
    void *message = NULL;
    size_t size;

    LK_TRY(lk_store_get(c->store, key, &message, &size));
    if (size < m->n_fusions)
        LK_TRY(
            lk_fail(LK_EINTERNAL, "rank 0 tells of %zu fusions, not of %zu", size, m->n_fusions));
    for (size_t i = 0; i < m->n_fusions; i++)
        m->fusions[i].used = ((const char *)message)[i] == '1';
    say(out, "%.*s", (int)(size - m->n_fusions), (const char *)message + m->n_fusions);
out:
    free(message);
    return st;
}

enum lk_status lk_fuse_choose(struct lk_model *m, const struct lk_fuse_config *c)
{
    struct choice choice = {.n = 0};
    char key[40];
    bool asked = false;

    LK_PASS(check_demands(m, c));
    if (!lk_device_fuses(m->device) || m->n_fusions == 0)
        return LK_OK;
    for (int which = 0; which < LK_FUSE_OPTIMIZER; which++)
        asked |= c->fuse.wish[which] != LK_FUSE_NO;
    if (!asked)
        say(&choice, "none");
    else if (c->rank == 0)
        LK_PASS(choose_here(m, c, &choice));
    if (asked && c->ranks > 1) {
        snprintf(key, sizeof key, "fusions-%" PRIu64, lk_store_next_id(c->store));
        LK_PASS(c->rank == 0 ? tell(m, c, key, &choice) : hear(m, c, key, &choice));
    }
    return lk_recorder_fact(c->recorder, "gpu_fusion", choice.text);
}

void lk_model_fusions(struct lk_model *m, struct lk_fused *own, const struct lk_fused *list,
                      size_t n)
{
    memcpy(own, list, n * sizeof *own);
    m->fusions = own;
    m->n_fusions = n;
}
