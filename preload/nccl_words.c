#include "preload/nccl_words.h"

#include "base/array.h"
#include "facts/dtype.h"
#include "facts/foreign_file.h"

#include <string.h>

/* ncclFuncToString (NCCL 2.28.9, src/collectives.cc). */
static const struct lk_nccl_function functions[] = {
    {"AllReduce", LK_FOREIGN_FUNCTION(LK_ALL_REDUCE), false, false},
    {"AllGather", LK_FOREIGN_FUNCTION(LK_ALL_GATHER), false, false},
    {"ReduceScatter", LK_FOREIGN_FUNCTION(LK_REDUCE_SCATTER), true, false},
    {"Broadcast", LK_FOREIGN_FUNCTION(LK_BROADCAST), false, true},
    {"Reduce", LK_FOREIGN_FUNCTION(LK_REDUCE), false, true},
    {"AlltoAll", LK_FOREIGN_FUNCTION(LK_ALL_TO_ALL), true, false},
    {"Gather", LK_FOREIGN_FUNCTION(LK_GATHER), false, true},
    {"Scatter", LK_FOREIGN_FUNCTION(LK_SCATTER), true, true},
    {"Send", LK_FOREIGN_FUNCTION(LK_SEND), false, true},
    {"Recv", LK_FOREIGN_FUNCTION(LK_RECV), false, true},
};

/* ncclDatatypeToString. Bytes must be right; signs and formats of one byte are no matter here. */
static const struct {
    const char *name;
    enum lk_dtype dtype;
} dtypes[] = {
    {"ncclFloat32", LK_F32}, {"ncclBfloat16", LK_BF16}, {"ncclFloat16", LK_F16},
    {"ncclInt8", LK_U8},     {"ncclUint8", LK_U8},      {"ncclInt32", LK_I32},
    {"ncclUint32", LK_I32},  {"ncclInt64", LK_I64},     {"ncclUint64", LK_I64},
    {"ncclFloat64", LK_F64}, {"ncclFloat8e4m3", LK_U8}, {"ncclFloat8e5m2", LK_U8},
};

const struct lk_nccl_function *lk_nccl_function_of(const char *name)
{
    static const struct lk_nccl_function none = {"", 0, false, false};

    for (size_t i = 0; name && i < LK_COUNT(functions); i++)
        if (!strcmp(name, functions[i].name))
            return &functions[i];
    return &none;
}

uint8_t lk_nccl_dtype_of(const char *name)
{
    for (size_t i = 0; name && i < LK_COUNT(dtypes); i++)
        if (!strcmp(name, dtypes[i].name))
            return (uint8_t)(dtypes[i].dtype + 1);
    return 0;
}
