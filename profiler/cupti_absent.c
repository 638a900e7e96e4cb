/* GPU records in a build without CUPTI's headers: the reason, when they are asked for. */
#include "profiler/cupti.h"

#ifndef LK_HAVE_CUPTI

enum lk_status lk_cupti_open(const struct lk_cupti_config *config, struct lk_cupti **out)
{
    (void)config;
    (void)out;
    return lk_fail(LK_EUNSUPPORTED, "this build has no CUPTI");
}

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    (void)sink;
    (void)info;
    (void)out_ctx;
    return lk_fail(LK_EINTERNAL, "this build has no CUPTI");
}

static void emit(void *track_ctx, const struct lk_span *s)
{
    (void)track_ctx;
    (void)s;
}

const struct lk_sink_ops lk_cupti_ops = {.name = "cupti", .track_open = track_open, .emit = emit};

const char *lk_cupti_text(const struct lk_cupti *g)
{
    (void)g;
    return "";
}

enum lk_status lk_cupti_close(struct lk_cupti *g, struct lk_deadline deadline,
                              struct lk_cupti_counts *out)
{
    (void)g;
    (void)deadline;
    if (out)
        *out = (struct lk_cupti_counts){0};
    return LK_OK;
}

#endif
