/* Options that plant a fault: slow ranks, and collectives that fail. */
#include "commands/run_options.h"

#include "base/units.h"
#include "runtime/comm/comm_fault.h"

#include <stdlib.h>
#include <string.h>

/* Parse "RANK:FACTOR". */
static enum lk_status parse_slow_rank(const char *text, int64_t *out_rank, double *out_factor)
{
    return lk_fail_context(lk_parse_factor_at(text, 1023, out_rank, out_factor), "--slow-rank=%s",
                           text);
}

enum lk_status run_options_slowdown(const struct run_options *o, int rank, double *out)
{
    enum lk_status st = LK_OK;
    int64_t slow = -1;
    double factor = 1;

    if (o->slow_rank)
        st = parse_slow_rank(o->slow_rank, &slow, &factor);
    if (st == LK_OK)
        *out = slow == rank ? factor : 1;
    return st;
}

enum lk_status run_options_check_slow_rank(const struct run_options *o, int ranks)
{
    enum lk_status st = LK_OK;
    int64_t slow = -1;
    double factor;

    if (o->slow_rank)
        st = parse_slow_rank(o->slow_rank, &slow, &factor);
    if (st == LK_OK && slow >= ranks)
        st = lk_fail(LK_EUSAGE, "--slow-rank=%s: the ranks are 0 to %d", o->slow_rank, ranks - 1);
    return st;
}

enum lk_status run_options_check_fault(const struct run_options *o, int ranks)
{
    struct lk_fault *faults = NULL;
    enum lk_status st = LK_OK;
    size_t n;

    if (!o->train.comm_config.fault)
        return LK_OK;
    LK_PASS(lk_fault_parse(o->train.comm_config.fault, ranks, &faults, &n));
    for (size_t i = 0; i < n; i++)
        if ((faults[i].kind == LK_FAULT_SLOW || faults[i].kind == LK_FAULT_FLIP) &&
            !strcmp(run_devices[o->device], "cuda"))
            st = lk_fail(LK_EUSAGE,
                         "--fault=%s: slow links and flipped bits are for collectives of the host, "
                         "not for --device=cuda",
                         faults[i].text);
    free(faults);
    return st;
}
