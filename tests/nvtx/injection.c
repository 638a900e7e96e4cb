/*
 * An NVTX tool like Nsight Systems: a library that NVTX loads into the program when
 * NVTX_INJECTION64_PATH names it. It checks the calls, and writes them to $NVTX_LOG.PID, one line a
 * call, in the order of the calls:
 *
 *     domain NAME
 *     category ID NAME
 *     thread TID NAME
 *     stream KNOWN NAME                           KNOWN: 1, it has a handle
 *     push TID DEPTH CATEGORY PAYLOAD TEXT        depth before the push, from 0
 *     pop TID DEPTH                               depth after the pop
 *     error TEXT
 *
 * Without NVTX_LOG it takes the calls and keeps nothing: this shows the cost of ranges
 * without a tool's own cost.
 *
 * The tables are those of nvtx3/nvtxDetail/nvtxTypes.h.
 */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): NVTX passes no context */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file;
static char *strings[1 << 16]; /* registered strings; the handle is the index, from 1 */
static size_t n_strings;
static char domain_name[64];
static _Thread_local int depth;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list ap;

    if (!log_file)
        return;
    pthread_mutex_lock(&lock);
    va_start(ap, format);
    vfprintf(log_file, format, ap);
    va_end(ap);
    fputc('\n', log_file);
    fflush(log_file);
    pthread_mutex_unlock(&lock);
}

static nvtxDomainHandle_t domain_create(const char *name)
{
    snprintf(domain_name, sizeof domain_name, "%s", name);
    say("domain %s", name);
    return (nvtxDomainHandle_t)domain_name;
}

static void check_domain(nvtxDomainHandle_t domain)
{
    if (domain != (nvtxDomainHandle_t)domain_name)
        say("error a call in another domain");
}

static nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char *text)
{
    size_t place = 0;

    check_domain(domain);
    pthread_mutex_lock(&lock);
    if (n_strings + 1 < sizeof strings / sizeof *strings) {
        place = ++n_strings;
        strings[place] = strdup(text);
    }
    pthread_mutex_unlock(&lock);
    return (nvtxStringHandle_t)(uintptr_t)place;
}

static void name_category(nvtxDomainHandle_t domain, uint32_t id, const char *name)
{
    check_domain(domain);
    say("category %u %s", id, name);
}

static void name_thread(uint32_t tid, const char *name)
{
    say("thread %u %s", tid, name);
}

/* Return the text of the attributes; wrong attributes are an error. */
static const char *text_of(const nvtxEventAttributes_t *a)
{
    size_t place = (size_t)(uintptr_t)a->message.registered;

    if (a->version != NVTX_VERSION || a->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE ||
        a->colorType != NVTX_COLOR_ARGB || a->color >> 24 != 0xff)
        return "error in the attributes";
    if (a->messageType != NVTX_MESSAGE_TYPE_REGISTERED || place == 0 || place > n_strings)
        return "error: no registered string";
    return strings[place];
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
    char payload[32] = "-";

    check_domain(domain);
    if (!log_file)
        return depth++;
    if (a->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64)
        snprintf(payload, sizeof payload, "%llu", (unsigned long long)a->payload.ullValue);
    if (a->payloadType == NVTX_PAYLOAD_TYPE_INT64)
        snprintf(payload, sizeof payload, "%lld", (long long)a->payload.llValue);
    say("push %d %d %u %s %s", gettid(), depth, a->category, payload, text_of(a));
    return depth++;
}

static int pop(nvtxDomainHandle_t domain)
{
    check_domain(domain);
    depth--;
    if (log_file)
        say("pop %d %d", gettid(), depth);
    return depth;
}

/* Log a call of the module for CUDA's run-time library; the program has no
 * stream number to compare with. */
static void name_stream(nvtx_cudaStream_t stream, const char *name)
{
    say("stream %d %s", stream != NULL, name);
}

static void domain_destroy(nvtxDomainHandle_t domain)
{
    check_domain(domain);
    say("end");
}

struct hook {
    NvtxCallbackModule module;
    unsigned int id;
    NvtxFunctionPointer fn;
};

#define HOOK(module, id, fn)                                                                       \
    NVTX_CB_MODULE_##module, NVTX_CBID_##module##_##id, (NvtxFunctionPointer)fn

static const struct hook hooks[] = {
    {HOOK(CORE, NameOsThreadA, name_thread)},
    {HOOK(CUDART, NameCudaStreamA, name_stream)},
    {HOOK(CORE2, DomainCreateA, domain_create)},
    {HOOK(CORE2, DomainDestroy, domain_destroy)},
    {HOOK(CORE2, DomainRegisterStringA, register_string)},
    {HOOK(CORE2, DomainNameCategoryA, name_category)},
    {HOOK(CORE2, DomainRangePushEx, push)},
    {HOOK(CORE2, DomainRangePop, pop)},
};

static int open_log(void)
{
    const char *path = getenv("NVTX_LOG");
    char name[4096];

    if (!path)
        return 1;
    snprintf(name, sizeof name, "%s.%d", path, getpid());
    log_file = fopen(name, "w");
    return log_file != NULL;
}

/* Entry point that NVTX looks for in the library (nvtx3/nvtxDetail/nvtxInit.h). */
__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);

    if (!callbacks || !open_log())
        return 0;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        NvtxFunctionTable table = NULL;
        unsigned int size = 0;

        if (!callbacks->GetModuleFunctionTable(hooks[i].module, &table, &size) ||
            hooks[i].id >= size)
            return 0;
        *table[hooks[i].id] = hooks[i].fn;
    }
    return 1;
}
