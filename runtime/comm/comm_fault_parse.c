/* Parse fault specifications; the grammar is in the header. */
#include "runtime/comm/comm_fault.h"

#include "base/array.h"
#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int allowed, needed;
} kinds[] = {
#define ROW(kind, name, allowed, needed) [kind] = {name, allowed, needed},
    LK_FAULT_LIST(ROW)
#undef ROW
};

static const struct {
    const char *name;
    enum lk_fault_key key;
} keys[] = {
    {"call", LK_FAULT_CALL},       {"from", LK_FAULT_FROM}, {"to", LK_FAULT_TO},
    {"rank", LK_FAULT_RANK},       {"time", LK_FAULT_TIME}, {"rate", LK_FAULT_RATE},
    {"latency", LK_FAULT_LATENCY},
};

static const double time_max_s = 3600;

static enum lk_status parse_time(const char *text, double *out)
{
    enum lk_status st = lk_units_parse(LK_DIM_TIME, text, out);

    if (st == LK_OK && (*out < 0 || *out > time_max_s))
        st = lk_fail(LK_EUSAGE, "'%s' is not from 0 to %g s", text, time_max_s);
    return st;
}

static enum lk_status parse_value(struct lk_fault *f, enum lk_fault_key key, const char *text,
                                  int world_size)
{
    enum lk_status st = LK_OK;
    int64_t n = 0;

    switch (key) {
    case LK_FAULT_TIME:
        return parse_time(text, &f->time_s);
    case LK_FAULT_LATENCY:
        return parse_time(text, &f->latency_s);
    case LK_FAULT_RATE:
        LK_TRY(lk_units_parse(LK_DIM_RATE, text, &f->rate_Bps));
        return f->rate_Bps > 0 ? LK_OK : lk_fail(LK_EUSAGE, "a rate must be positive");
    case LK_FAULT_RANK:
        LK_TRY(lk_parse_int64(text, 0, world_size - 1, &n));
        f->rank = (int)n;
        return LK_OK;
    default:
        LK_TRY(lk_parse_int64(text, 0, INT64_MAX, &n));
        f->from = key == LK_FAULT_TO ? f->from : (uint64_t)n;
        f->to = key == LK_FAULT_FROM ? f->to : (uint64_t)n;
    }
out:
    return st;
}

/* Parse one pair, "call=12", into the fault. Overwrites the "=" with a NUL. */
static enum lk_status parse_pair(struct lk_fault *f, char *pair, int world_size)
{
    char *value = strchr(pair, '=');
    enum lk_fault_key key = 0;

    if (!value)
        return lk_fail(LK_EUSAGE, "'%s' is not KEY=VALUE", pair);
    *value++ = '\0';
    for (size_t i = 0; i < LK_COUNT(keys); i++)
        if (!strcmp(keys[i].name, pair))
            key = keys[i].key;
    if (!key || !(kinds[f->kind].allowed & (int)key))
        return lk_fail(LK_EUSAGE, "%s has no '%s'", kinds[f->kind].name, pair);
    if (f->given & (int)key)
        return lk_fail(LK_EUSAGE, "'%s' is given twice", pair);
    f->given |= (int)key;
    return lk_fail_context(parse_value(f, key, value, world_size), "%s", pair);
}

static enum lk_status check_fault(const struct lk_fault *f)
{
    if ((f->given & LK_FAULT_CALL) && (f->given & (LK_FAULT_FROM | LK_FAULT_TO)))
        return lk_fail(LK_EUSAGE, "'call' is one call, 'from' and 'to' a range: not both");
    if (f->from > f->to)
        return lk_fail(LK_EUSAGE, "'from' is after 'to'");
    if ((f->given & kinds[f->kind].needed) != kinds[f->kind].needed)
        return lk_fail(LK_EUSAGE, "delay needs 'time'");
    if (f->kind == LK_FAULT_SLOW && !(f->given & (LK_FAULT_RATE | LK_FAULT_LATENCY)))
        return lk_fail(LK_EUSAGE, "slow needs 'rate' or 'latency'");
    return LK_OK;
}

/* Parse one fault. Modifies the text. */
static enum lk_status parse_fault(char *text, int world_size, struct lk_fault *out)
{
    struct lk_fault f = {.to = UINT64_MAX, .rank = -1};
    char *rest = strchr(text, ':'), *pair;
    size_t kind = 0;
    enum lk_status st = LK_OK;

    if ((size_t)snprintf(f.text, sizeof f.text, "%s", text) >= sizeof f.text)
        return lk_fail(LK_EUSAGE, "'%s' is too long", text);
    if (rest)
        *rest++ = '\0';
    while (kind < LK_COUNT(kinds) && strcmp(kinds[kind].name, text) != 0)
        kind++;
    if (kind == LK_COUNT(kinds))
        return lk_fail(LK_EUSAGE, "'%s' is no fault; they are fail, kill, stall, delay and slow",
                       text);
    f.kind = (enum lk_fault_kind)kind;
    while ((pair = strsep(&rest, ",")) != NULL)
        LK_TRY(parse_pair(&f, pair, world_size));
    LK_TRY(check_fault(&f));
    *out = f;
out:
    return lk_fail_context(st, "%s", text);
}

enum lk_status lk_fault_parse(const char *spec, int world_size, struct lk_fault **out,
                              size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct lk_fault *faults = NULL;
    char *copy = NULL, *rest, *one;
    size_t n = 0, capacity = 0;

    LK_TRY(lk_strdup(&copy, spec));
    rest = copy;
    while ((one = strsep(&rest, ";")) != NULL) {
        LK_TRY(lk_array_grow(&faults, &capacity, n + 1, sizeof *faults));
        LK_TRY(parse_fault(one, world_size, &faults[n]));
        n++;
    }
    *out = faults;
    *out_n = n;
    faults = NULL;
out:
    free(faults);
    free(copy);
    return lk_fail_context(st, "fault '%s'", spec);
}
