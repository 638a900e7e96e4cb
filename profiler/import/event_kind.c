#include "profiler/import/event_kind.h"

#include "base/array.h"
#include "base/json_scan.h"
#include "facts/coll.h"
#include "facts/range_names.h"

#include <string.h>

/* By the start of a name; the first that fits. */
struct row {
    const char *start;
    enum lk_event_kind kind;
};

static const struct row calls[] = {
    {"cudaLaunch", LK_EVENT_LAUNCH},
    {"cuLaunch", LK_EVENT_LAUNCH},
    {"hipLaunch", LK_EVENT_LAUNCH},
    {"hipExtModuleLaunch", LK_EVENT_LAUNCH},
    {"hipModuleLaunch", LK_EVENT_LAUNCH},
    {"hipExtLaunch", LK_EVENT_LAUNCH},
    {"cudaGraphLaunch", LK_EVENT_LAUNCH},
    {"cuGraphLaunch", LK_EVENT_LAUNCH},
    {"hipGraphLaunch", LK_EVENT_LAUNCH},
    {"cudaMemcpy", LK_EVENT_LAUNCH},
    {"cudaMemset", LK_EVENT_LAUNCH},
    {"cuMemcpy", LK_EVENT_LAUNCH},
    {"cuMemset", LK_EVENT_LAUNCH},
    {"hipMemcpy", LK_EVENT_LAUNCH},
    {"hipMemset", LK_EVENT_LAUNCH},
    {"cudaStreamSynchronize", LK_EVENT_SYNC},
    {"cudaDeviceSynchronize", LK_EVENT_SYNC},
    {"cudaEventSynchronize", LK_EVENT_SYNC},
    {"hipStreamSynchronize", LK_EVENT_SYNC},
    {"hipDeviceSynchronize", LK_EVENT_SYNC},
    {"hipEventSynchronize", LK_EVENT_SYNC},
};

#define ROW(start, kind) {start, LK_EVENT_##kind},
static const struct row ranges[] = {LK_RANGE_LIST(ROW)};
#undef ROW

/* NCCL's kernels have the name of their collective in theirs. The first row that fits counts. */
static const struct {
    const char *in;
    enum lk_coll coll;
} of_kernels[] = {
    {"AllReduce", LK_ALL_REDUCE},         {"AllGather", LK_ALL_GATHER},
    {"ReduceScatter", LK_REDUCE_SCATTER}, {"Broadcast", LK_BROADCAST},
    {"SendRecv", LK_SEND_RECV},           {"Reduce_", LK_REDUCE},
};

/* NCCL's kernels are called by their type: up to 2.18 as in C, since then as in its own tables. The
 * first row that fits counts. */
static const struct {
    const char *in;
    enum lk_dtype dtype;
} types[] = {
    {"_bf16_", LK_BF16}, {"_bfloat16", LK_BF16}, {"_f16_", LK_F16},    {"_half", LK_F16},
    {"_f64_", LK_F64},   {"_double", LK_F64},    {"_f32_", LK_F32},    {"_float", LK_F32},
    {"_u64_", LK_I64},   {"_i64_", LK_I64},      {"_int64_t", LK_I64}, {"_uint64_t", LK_I64},
    {"_u32_", LK_I32},   {"_i32_", LK_I32},      {"_int32_t", LK_I32}, {"_uint32_t", LK_I32},
    {"_u8_", LK_U8},     {"_i8_", LK_U8},        {"_int8_t", LK_U8},   {"_uint8_t", LK_U8},
};

static bool find(const struct row *rows, size_t n_rows, const char *name, size_t n,
                 enum lk_event_kind *out)
{
    for (size_t i = 0; i < n_rows; i++) {
        size_t m = strlen(rows[i].start);

        if (n >= m && !memcmp(name, rows[i].start, m)) {
            *out = rows[i].kind;
            return true;
        }
    }
    return false;
}

bool lk_event_kind_of_call(const char *name, size_t n, enum lk_event_kind *out)
{
    return find(calls, LK_COUNT(calls), name, n, out);
}

bool lk_event_kind_of_range(const struct lk_events *e, const char *name, size_t n,
                            enum lk_event_kind *out)
{
    size_t m = e->step_range ? strlen(e->step_range) : 0;

    if (m > 0 && n >= m && !memcmp(name, e->step_range, m)) {
        *out = LK_EVENT_STEP;
        return true;
    }
    return find(ranges, LK_COUNT(ranges), name, n, out);
}

uint32_t lk_event_step_number(const char *name, size_t n)
{
    const char *mark = memchr(name, '#', n);
    int64_t v = 0;

    if (mark)
        (void)lk_scan_fixed(mark + 1, n - (size_t)(mark - name) - 1, 0, &v);
    return v >= 0 && v < UINT32_MAX ? (uint32_t)v : 0;
}

const char *lk_event_function_of_nccl(const char *name)
{
    for (size_t i = 0; i < LK_COUNT(of_kernels); i++)
        if (strstr(name, of_kernels[i].in))
            return lk_coll_name(of_kernels[i].coll);
    return "";
}

bool lk_event_dtype_of_kernel(const char *name, enum lk_dtype *out)
{
    for (size_t i = 0; i < LK_COUNT(types) && strstr(name, "nccl"); i++)
        if (strstr(name, types[i].in)) {
            *out = types[i].dtype;
            return true;
        }
    return false;
}
