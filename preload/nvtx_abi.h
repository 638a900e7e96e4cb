/*
 * NVTX 3's interface to tools, as far as it is used here: numbers and layouts of its binary
 * interface (nvtx3/nvToolsExt.h and nvtx3/nvtxDetail/nvtxTypes.h of CUDA 13.0, unchanged since
 * version 3). A test compares them with the headers where those are installed.
 *
 * At its first call of NVTX each library of a program opens the one that NVTX_INJECTION64_PATH
 * names and calls its InitializeInjectionNvtx2, which fills in that library's table of functions.
 * What a tool does not fill in does nothing.
 */
#ifndef LK_PRELOAD_NVTX_ABI_H
#define LK_PRELOAD_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum { NVTX_TABLE_OF_CALLBACKS = 1 }; /* NVTX_ETID_CALLBACKS */

/* Modules and the functions of each. Functions of version 1 are of the domain without a name. */
enum nvtx_module { NVTX_CORE = 1, NVTX_CORE2 = 5 };
enum nvtx_core {
    NVTX_START_EX = 4,
    NVTX_START_A,
    NVTX_START_W,
    NVTX_END,
    NVTX_PUSH_EX,
    NVTX_PUSH_A,
    NVTX_PUSH_W,
    NVTX_POP
};
enum nvtx_core2 {
    NVTX_DOMAIN_START_EX = 2,
    NVTX_DOMAIN_END,
    NVTX_DOMAIN_PUSH_EX,
    NVTX_DOMAIN_POP,
    NVTX_DOMAIN_REGISTER_A = 10,
    NVTX_DOMAIN_REGISTER_W,
    NVTX_DOMAIN_CREATE_A,
    NVTX_DOMAIN_CREATE_W
};

enum nvtx_message { NVTX_ASCII = 1, NVTX_UNICODE, NVTX_REGISTERED };

/* nvtxEventAttributes_t */
struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type; /* enum nvtx_message */
    union {
        const char *ascii;
        const wchar_t *unicode;
        const void *registered; /* what register returned */
    } message;
};

typedef void nvtx_function(void);

/* NvtxExportTableCallbacks: out_table points to n pointers to places of functions. */
struct nvtx_callbacks {
    size_t bytes;
    int (*module_functions)(int module, nvtx_function ****out_table, unsigned int *out_n);
};

/* NvtxGetExportTableFunc_t */
typedef const void *nvtx_get_table(uint32_t id);

#endif
