/*
 * What CUPTI records: activity on the GPU, and the API calls that cause it, which carry the ids
 * that we push (cuptiActivityPushExternalCorrelationId: an id comes with records of calls only).
 *
 * Of the calls only those that put work on a GPU are recorded. The kinds RUNTIME and DRIVER as a
 * whole would be records of every event query and context switch, at some cost each. A kernel whose
 * launch is not in this list still has its record, by its stream, without an op. That ids come with
 * calls chosen one by one is CUPTI's documentation (cupti_activity.h); a session looks whether they
 * do, and else takes the kinds, which override the choice. Kinds are switched off only where they
 * were on: once cuptiActivityDisable was called for one of them, calls chosen later give no records
 * any more in that process (seen on an H200, CUPTI 130001).
 */
#include "profiler/record/cupti_impl_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "facts/cupti_abi.h"

#include <stdio.h>

struct kind {
    CUpti_ActivityKind kind;
    const char *what;
};

static const struct kind kinds[] = {
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "external correlation"},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"},
    {CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between GPUs"},
    {CUPTI_ACTIVITY_KIND_MEMSET, "memsets"},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels"},
};

/* For a library that cannot choose calls (before CUDA 12.6), or gives no ids for those. */
static const struct kind all_calls[] = {
    {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls"},
    {CUPTI_ACTIVITY_KIND_DRIVER, "driver calls"},
};

bool lk_cupti_can_choose(const struct lk_cupti_calls *call)
{
    return call->ActivityEnableRuntimeApi && call->ActivityEnableDriverApi;
}

static enum lk_status enable_kinds(const struct lk_cupti_calls *call, const struct kind *k,
                                   size_t n)
{
    char what[64];

    for (size_t i = 0; i < n; i++) {
        snprintf(what, sizeof what, "recording %s", k[i].what);
        LK_PASS(lk_cupti_check(call, call->ActivityEnable(k[i].kind), what));
    }
    return LK_OK;
}

/* A call that this driver does not know is made by nobody: refusals are of no interest. */
static void choose_calls(const struct lk_cupti_calls *call, uint8_t on)
{
#define CHOOSE_RUNTIME               call->ActivityEnableRuntimeApi
#define CHOOSE_DRIVER                call->ActivityEnableDriverApi
#define CHOOSE(domain, name, number) (void)CHOOSE_##domain(number, on);
    CUPTI_LAUNCH_LIST(CHOOSE)
    CUPTI_COPY_LIST(CHOOSE)
#undef CHOOSE
#undef CHOOSE_DRIVER
#undef CHOOSE_RUNTIME
}

enum lk_status lk_cupti_enable_all_calls(const struct lk_cupti_calls *call)
{
    return enable_kinds(call, all_calls, LK_COUNT(all_calls));
}

enum lk_status lk_cupti_enable(const struct lk_cupti_calls *call)
{
    const bool chooses = lk_cupti_can_choose(call);
    enum lk_status st = enable_kinds(call, kinds, LK_COUNT(kinds));

    if (st == LK_OK && chooses)
        choose_calls(call, 1);
    else if (st == LK_OK)
        st = lk_cupti_enable_all_calls(call);
    if (st != LK_OK)
        lk_cupti_disable(call, chooses);
    return st;
}

void lk_cupti_disable(const struct lk_cupti_calls *call, bool chose)
{
    if (lk_cupti_can_choose(call))
        choose_calls(call, 0);
    for (size_t i = LK_COUNT(all_calls); !chose && i-- > 0;)
        (void)call->ActivityDisable(all_calls[i].kind);
    for (size_t i = LK_COUNT(kinds); i-- > 0;)
        (void)call->ActivityDisable(kinds[i].kind);
}

#endif
