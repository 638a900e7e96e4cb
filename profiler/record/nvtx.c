/* Spans as NVTX ranges; see the header. */
#include "profiler/record/nvtx.h"

#include "base/array.h"
#include "facts/coll.h"

#ifdef LK_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOOL_ENV "NVTX_INJECTION64_PATH"

const char *lk_nvtx_tool(void)
{
    const char *path = getenv(TOOL_ENV);

    return path && path[0] ? path : NULL;
}

#ifdef LK_HAVE_NVTX

enum payload { PAYLOAD_STEP, PAYLOAD_INDEX, PAYLOAD_BYTES };

/* Appearance of a kind of span. Categories group ranges in a tool; colours are ARGB. */
struct look {
    const char *text; /* NULL: no ranges */
    const char *category;
    uint32_t colour;
    enum payload payload;
};

static const struct look looks[LK_SPAN_KIND_COUNT] = {
    [LK_SPAN_STEP] = {"step", "step", 0xff9e9e9e, PAYLOAD_STEP},
    [LK_SPAN_INPUT] = {"input", "input", 0xffedc948, PAYLOAD_INDEX},
    [LK_SPAN_FORWARD] = {"forward", "compute", 0xff4e79a7, PAYLOAD_INDEX},
    [LK_SPAN_BACKWARD] = {"backward", "compute", 0xff76b7b2, PAYLOAD_INDEX},
    [LK_SPAN_OPTIMIZER] = {"optimizer", "compute", 0xffb07aa1, PAYLOAD_STEP},
    [LK_SPAN_SYNC] = {"synchronize", "step", 0xffbab0ac, PAYLOAD_STEP},
    [LK_SPAN_KERNEL] = {"op", "op", 0xff59a14f, PAYLOAD_STEP},
    [LK_SPAN_COPY] = {"copy", "op", 0xff9c755f, PAYLOAD_BYTES},
    [LK_SPAN_COLLECTIVE] = {"collective", "communication", 0xfff28e2b, PAYLOAD_BYTES},
    [LK_SPAN_BUCKET] = {"bucket", "bucket", 0xffe15759, PAYLOAD_BYTES},
};

/* Names of buckets. */
struct buckets {
    nvtxStringHandle_t text[LK_NVTX_BUCKETS + 1]; /* the last is for all later ones */
};

struct lk_nvtx {
    nvtxDomainHandle_t domain;
    pid_t host; /* thread id of the thread that opened the sink */
    uint32_t categories[LK_SPAN_KIND_COUNT];
    nvtxStringHandle_t kinds[LK_SPAN_KIND_COUNT];
    nvtxStringHandle_t *names;      /* by id; a fixed-size table, so that it never moves */
    const struct buckets **by_name; /* by id; NULL: not a collective's name */
    struct buckets *buckets; /* of each of LK_COLL_MODELLED collectives, and of bucket ranges */
    struct track *tracks;    /* list of tracks to free */
};

struct track {
    struct lk_nvtx *sink;
    struct track *next;
    atomic_bool named; /* the issuing thread was named after it */
    char name[64];
};

enum { NAMES = UINT16_MAX + 1 };

static void name_categories(struct lk_nvtx *n)
{
    for (size_t i = 0; i < LK_SPAN_KIND_COUNT; i++) {
        size_t same = 0;

        if (!looks[i].text)
            continue;
        while (!looks[same].text || strcmp(looks[same].category, looks[i].category) != 0)
            same++;
        n->categories[i] = (uint32_t)same + 1; /* 0 means no category */
        if (same == i)
            nvtxDomainNameCategoryA(n->domain, n->categories[i], looks[i].category);
        n->kinds[i] = nvtxDomainRegisterStringA(n->domain, looks[i].text);
    }
}

static void name_buckets(struct lk_nvtx *n, struct buckets *b, const char *prefix)
{
    char text[64];

    for (int i = 0; i <= LK_NVTX_BUCKETS; i++) {
        (void)snprintf(text, sizeof text, "%sbucket %d%s", prefix, i,
                       i < LK_NVTX_BUCKETS ? "" : " or later");
        b->text[i] = nvtxDomainRegisterStringA(n->domain, text);
    }
}

enum lk_status lk_nvtx_open(struct lk_nvtx **out)
{
    struct lk_nvtx *n = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&n, 1, sizeof *n));
    LK_TRY(lk_alloc(&n->names, NAMES, sizeof *n->names));
    LK_TRY(lk_alloc(&n->by_name, NAMES, sizeof *n->by_name));
    LK_TRY(lk_alloc(&n->buckets, LK_COLL_MODELLED + 1, sizeof *n->buckets));
    n->domain = nvtxDomainCreateA("lockstep");
    if (!n->domain) {
        st = lk_nvtx_tool()
                 ? lk_fail(LK_EUNSUPPORTED,
                           "NVTX: " TOOL_ENV "=%s: it does not load, or takes no domains",
                           lk_nvtx_tool())
                 : lk_fail(LK_EUNSUPPORTED, "NVTX: no tool runs this program (nsys profile does)");
        goto out;
    }
    n->host = gettid();
    nvtxNameOsThreadA((uint32_t)n->host, "host");
    name_categories(n);
    name_buckets(n, &n->buckets[LK_COLL_MODELLED], "");
    LK_HAND_OVER(out, n);
out:
    lk_nvtx_close(n);
    return st;
}

void lk_nvtx_close(struct lk_nvtx *n)
{
    if (!n)
        return;
    if (n->domain)
        nvtxDomainDestroy(n->domain);
    while (n->tracks) {
        struct track *next = n->tracks->next;

        free(n->tracks);
        n->tracks = next;
    }
    free(n->names);
    free(n->by_name);
    free(n->buckets);
    free(n);
}

/* ---- The sink ---- */

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    struct lk_nvtx *n = sink;
    struct track *t = NULL;

    LK_PASS(lk_alloc(&t, 1, sizeof *t));
    t->sink = n;
    t->next = n->tracks;
    n->tracks = t;
    (void)snprintf(t->name, sizeof t->name, "%s", info->name);
    *out_ctx = t;
    return LK_OK;
}

/* Register a name. Threads get the id only after this, so the tables need no lock. */
static enum lk_status name_added(void *sink, uint16_t id, const char *name)
{
    struct lk_nvtx *n = sink;
    char prefix[32];

    n->names[id] = nvtxDomainRegisterStringA(n->domain, name);
    for (int coll = 0; coll < LK_COLL_MODELLED; coll++)
        if (!strcmp(name, lk_coll_name((enum lk_coll)coll))) {
            (void)snprintf(prefix, sizeof prefix, "%s ", name);
            name_buckets(n, &n->buckets[coll], prefix);
            n->by_name[id] = &n->buckets[coll];
        }
    return LK_OK;
}

static nvtxStringHandle_t text_of(const struct lk_nvtx *n, const struct lk_span *s)
{
    const struct buckets *b =
        s->kind == LK_SPAN_BUCKET ? &n->buckets[LK_COLL_MODELLED] : n->by_name[s->name];

    if (b && s->index >= 0)
        return b->text[s->index < LK_NVTX_BUCKETS ? s->index : LK_NVTX_BUCKETS];
    return s->name ? n->names[s->name] : n->kinds[s->kind];
}

static void set_payload(nvtxEventAttributes_t *a, const struct lk_span *s)
{
    switch (looks[s->kind].payload) {
    case PAYLOAD_STEP:
        a->payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        a->payload.ullValue = s->step;
        break;
    case PAYLOAD_INDEX:
        a->payloadType = NVTX_PAYLOAD_TYPE_INT64;
        a->payload.llValue = s->index;
        break;
    case PAYLOAD_BYTES:
        if (s->bytes == 0) /* unknown when the range starts */
            break;
        a->payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        a->payload.ullValue = s->bytes;
        break;
    }
}

/* Name a stream's thread after its track, once a track. The host thread, which drives a GPU's
 * streams, keeps its own name. */
static void name_thread(struct track *t)
{
    pid_t self = gettid();

    atomic_store_explicit(&t->named, true, memory_order_relaxed);
    if (self != t->sink->host)
        nvtxNameOsThreadA((uint32_t)self, t->name);
}

static void enter(void *ctx, const struct lk_span *s)
{
    struct track *t = ctx;
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};

    if (!looks[s->kind].text)
        return;
    if (!atomic_load_explicit(&t->named, memory_order_relaxed))
        name_thread(t);
    a.category = t->sink->categories[s->kind];
    a.colorType = NVTX_COLOR_ARGB;
    a.color = looks[s->kind].colour;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = text_of(t->sink, s);
    set_payload(&a, s);
    (void)nvtxDomainRangePushEx(t->sink->domain, &a);
}

static void leave(void *ctx, const struct lk_span *s)
{
    const struct track *t = ctx;

    if (looks[s->kind].text)
        (void)nvtxDomainRangePop(t->sink->domain);
}

const struct lk_sink_ops lk_nvtx_ops = {
    .name = "NVTX",
    .track_open = track_open,
    .name_added = name_added,
    .enter = enter,
    .leave = leave,
};

#else

enum lk_status lk_nvtx_open(struct lk_nvtx **out)
{
    (void)out;
    return lk_fail(LK_EUNSUPPORTED, "NVTX: this build has none (nvtx3/nvToolsExt.h was not found)");
}

void lk_nvtx_close(struct lk_nvtx *n)
{
    (void)n;
}

const struct lk_sink_ops lk_nvtx_ops = {.name = "NVTX"}; /* never attached: no sink opens */

#endif
