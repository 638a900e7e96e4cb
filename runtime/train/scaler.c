/* The rule of the loss scale; see the header. */
#include "runtime/train/scaler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float growth = 2, backoff = 0.5F;

const struct lk_words lk_loss_scale_words = LK_WORDS("a loss scale", LK_LOSS_SCALE_LIST);

enum lk_status lk_scaler_parse(const char *text, struct lk_scaler_config *config)
{
    static const char dynamic[] = "dynamic:";
    bool starts = !strncmp(text, dynamic, sizeof dynamic - 1);
    const char *number = starts ? text + sizeof dynamic - 1 : text;
    char *end = NULL;
    double value = strtod(number, &end);
    int kind = -1;

    config->start = LK_SCALER_START;
    config->kind = starts ? LK_LOSS_SCALE_DYNAMIC : LK_LOSS_SCALE_FIXED;
    if (!starts)
        lk_quietly_(lk_words_find(&lk_loss_scale_words, text, &kind));
    if (kind >= 0) {
        config->kind = (enum lk_loss_scale)kind;
        return LK_OK;
    }
    if (end == number || *end || !(value >= FLT_MIN && value <= FLT_MAX))
        return lk_fail(LK_EUSAGE,
                       "'%s' is no scale of the loss: none, dynamic, dynamic:START or a number "
                       "above 0",
                       text);
    config->start = value;
    return LK_OK;
}

enum lk_loss_scale lk_scaler_kind(const struct lk_scaler_config *config, enum lk_dtype dtype)
{
    if (config->kind != LK_LOSS_SCALE_AUTO)
        return config->kind;
    return dtype == LK_F16 ? LK_LOSS_SCALE_DYNAMIC : LK_LOSS_SCALE_NONE;
}

bool lk_scaler_scales(const struct lk_scaler_config *config, enum lk_dtype dtype)
{
    return lk_scaler_kind(config, dtype) != LK_LOSS_SCALE_NONE;
}

enum lk_status lk_scaler_init(struct lk_scaler *s, const struct lk_scaler_config *config,
                              enum lk_dtype dtype)
{
    *s = (struct lk_scaler){.config = *config, .scale = 1};
    s->config.kind = lk_scaler_kind(config, dtype);
    if (s->config.kind == LK_LOSS_SCALE_NONE)
        return LK_OK;
    if (!(config->start > 0 && config->start <= FLT_MAX))
        return lk_fail(LK_EUSAGE, "a loss scale of %g", config->start);
    if (s->config.kind == LK_LOSS_SCALE_DYNAMIC && config->growth_interval < 1)
        return lk_fail(LK_EUSAGE, "a loss scale that grows every %d steps",
                       config->growth_interval);
    s->scale = (float)config->start;
    return LK_OK;
}

bool lk_scaler_is_on(const struct lk_scaler *s)
{
    return s->config.kind != LK_LOSS_SCALE_NONE;
}

void lk_scaler_step(struct lk_scaler *s, bool applied)
{
    s->skipped += !applied;
    if (s->config.kind != LK_LOSS_SCALE_DYNAMIC)
        return;
    if (!applied) {
        s->scale *= backoff;
        s->good = 0;
    } else if (++s->good >= s->config.growth_interval) {
        if (isfinite(s->scale * growth))
            s->scale *= growth;
        s->good = 0;
    }
}
