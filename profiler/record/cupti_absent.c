/* GPU records in a build without CUPTI's headers: opening fails with that reason. */
#include "profiler/record/cupti.h"

#ifndef LK_HAVE_CUPTI

enum lk_status lk_cupti_open(const struct lk_cupti_config *config, struct lk_cupti **out)
{
    (void)config;
    (void)out;
    return lk_fail(LK_EUNSUPPORTED, "this build has no CUPTI");
}

const struct lk_sink_ops lk_cupti_ops = {.name = "cupti"}; /* never attached: none opens */

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
