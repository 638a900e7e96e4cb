/* Reads the typed facts of a run; see the header. */
#include "base/run_facts.h"

#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *text, const char *word)
{
    return text && !strcmp(text, word);
}

static enum lk_job_optimizer optimizer_of(const char *rule, const char *momentum)
{
    if (is(rule, "sgd") && momentum && strtod(momentum, NULL) > 0)
        return LK_JOB_OPTIMIZER_MOMENTUM;
    for (int o = 0; o < LK_JOB_OPTIMIZER_COUNT; o++)
        if (is(rule, lk_job_optimizer_words.names[o]))
            return (enum lk_job_optimizer)o;
    return LK_JOB_OPTIMIZER_UNKNOWN;
}

static double number_of(const char *text)
{
    double v;

    return text && lk_parse_double(text, &v) == LK_OK ? v : NAN;
}

enum lk_status lk_run_facts_read(const struct lk_run_info *info, struct lk_run_facts *out)
{
    static const char none[] = "none: ";
    const char *prefetch = lk_run_info_value(info, "prefetch");
    const char *records = lk_run_info_value(info, LK_CUPTI_CONFIG_KEY);
    int64_t depth = -1;

    if (prefetch && lk_parse_int64(prefetch, 0, 1 << 20, &depth) != LK_OK)
        return lk_fail(LK_EPARSE, "configuration prefetch: '%s' is no count", prefetch);
    *out = (struct lk_run_facts){
        .optimizer =
            optimizer_of(lk_run_info_value(info, "optimizer"), lk_run_info_value(info, "momentum")),
        .master_weights = is(lk_run_info_value(info, "dtype"), "bfloat16"),
        .prefetch = (int)depth,
        .shared_gpu = is(lk_run_info_value(info, "share-gpu"), "yes"),
        .gpu_max_sm_clock_mhz = number_of(lk_run_info_value(info, LK_GPU_CONFIG_MAX_CLOCK)),
        .gpu_power_limit_w = number_of(lk_run_info_value(info, LK_GPU_CONFIG_POWER_LIMIT)),
    };
    if (records && !strncmp(records, none, sizeof none - 1))
        out->no_gpu_records = records + sizeof none - 1;
    return LK_OK;
}
