/*
 * NVTX's injection: records the ranges that a program pushes and pops, or starts and ends, where
 * NVTX_INJECTION64_PATH names this library. Marks, categories, colours and payloads are not
 * recorded.
 *
 * Ranges that are pushed are a stack of the thread, those of all domains in one; each domain pops
 * its own. A range is recorded when it ends.
 */
#include "preload/handles.h"
#include "preload/nvtx_abi.h"
#include "preload/nvtx_names.h"
#include "preload/record.h"

#include "base/array.h"

enum { DEPTH = 64, OPEN_RANGES = 1 << 10, TAG_RANGE = 5 };

struct open_range {
    int64_t start_ns;
    struct lk_nvtx_name name;
    uint32_t domain;
};

struct stack {
    struct open_range ranges[DEPTH];
    uint32_t n;
    uint32_t beyond; /* ranges pushed on a full stack */
};

/* A range that is started; its thread is that which started it. */
struct started {
    struct open_range range;
    uint32_t thread;
};

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): NVTX passes no context */
static _Thread_local struct stack stack;
static _Atomic uint64_t started_states[OPEN_RANGES];
static struct started started[OPEN_RANGES];
static struct lk_handles started_handles = {.states = started_states, .n = OPEN_RANGES};
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

static void emit(const struct open_range *o, uint32_t thread)
{
    if (o->name.id)
        lk_foreign_emit(&(struct lk_foreign_record){.kind = LK_FOREIGN_RANGE,
                                                    .start_ns = o->start_ns,
                                                    .end_ns = lk_foreign_now(),
                                                    .name = o->name.id,
                                                    .count = o->name.number,
                                                    .lane = thread,
                                                    .peer = -1});
}

/* ---- Pushed ranges ---- */

/* Return the range's depth in its domain, from 0, as NVTX wants it. */
static int push(const void *domain, struct lk_nvtx_name name)
{
    struct stack *s = &stack;
    uint32_t number = lk_nvtx_domain_number(domain);
    int depth = 0;

    for (uint32_t i = 0; i < s->n; i++)
        depth += s->ranges[i].domain == number;
    if (s->n == DEPTH) {
        s->beyond++;
        if (name.id)
            lk_foreign_lose();
        return depth;
    }
    s->ranges[s->n++] = (struct open_range){name.id ? lk_foreign_now() : 0, name, number};
    return depth;
}

/* Pop the domain's last range. Ranges beyond the stack are popped first, whatever their domain. */
static int take_off(const void *domain)
{
    struct stack *s = &stack;
    uint32_t number = lk_nvtx_domain_number(domain), at = s->n;
    int depth = -1;

    if (s->beyond) {
        s->beyond--;
        return 0;
    }
    while (at > 0 && s->ranges[at - 1].domain != number)
        at--;
    if (!at)
        return depth; /* a pop without a push */
    emit(&s->ranges[at - 1], lk_foreign_thread());
    for (uint32_t i = at; i < s->n; i++)
        s->ranges[i - 1] = s->ranges[i];
    s->n--;
    for (uint32_t i = 0; i < s->n; i++)
        depth += s->ranges[i].domain == number;
    return depth + 1;
}

static int pop(const void *domain)
{
    const int64_t since = lk_foreign_cost_begin();
    const int depth = take_off(domain);

    lk_foreign_cost_end(since);
    return depth;
}

static int domain_push(void *domain, const struct nvtx_attributes *a)
{
    const int64_t since = lk_foreign_cost_begin();
    const int depth = push(domain, lk_nvtx_name_of_event(domain, a));

    lk_foreign_cost_end(since);
    return depth;
}

static int domain_pop(void *domain)
{
    return pop(domain);
}

static int push_event(const struct nvtx_attributes *a)
{
    return domain_push(NULL, a);
}

static int push_text(const char *text)
{
    const int64_t since = lk_foreign_cost_begin();
    const int depth = push(NULL, lk_nvtx_name_of(NULL, text));

    lk_foreign_cost_end(since);
    return depth;
}

static int push_wide(const wchar_t *text)
{
    return push(NULL, lk_nvtx_name_of_wide(NULL, text));
}

static int pop_default(void)
{
    return pop(NULL);
}

/* ---- Started ranges ---- */

/* Return the range's id; of one that is not recorded, 0. */
static uint64_t start(const void *domain, struct lk_nvtx_name name)
{
    uint32_t place;
    void *handle;

    if (!name.id)
        return 0;
    handle = lk_handle_take(&started_handles, TAG_RANGE, &place);
    if (!handle) {
        lk_foreign_lose();
        return 0;
    }
    started[place].range =
        (struct open_range){lk_foreign_now(), name, lk_nvtx_domain_number(domain)};
    started[place].thread = lk_foreign_thread();
    return (uint64_t)(uintptr_t)handle; /* it stays pinned until it ends */
}

static void end(uint64_t id)
{
    const void *handle = (const void *)(uintptr_t)id;
    struct started ended;
    uint32_t place;

    if (lk_handle_tag(handle) != TAG_RANGE || !lk_handle_pin(&started_handles, handle, &place))
        return;
    ended = started[place];
    if (lk_handle_end(&started_handles, handle))
        emit(&ended.range, ended.thread);
    lk_handle_unpin(&started_handles, place);
}

static uint64_t domain_start(void *domain, const struct nvtx_attributes *a)
{
    return start(domain, lk_nvtx_name_of_event(domain, a));
}

static void domain_end(void *domain, uint64_t id)
{
    (void)domain;
    end(id);
}

static uint64_t start_event(const struct nvtx_attributes *a)
{
    return domain_start(NULL, a);
}

static uint64_t start_text(const char *text)
{
    return start(NULL, lk_nvtx_name_of(NULL, text));
}

static uint64_t start_wide(const wchar_t *text)
{
    return start(NULL, lk_nvtx_name_of_wide(NULL, text));
}

/* ---- Domains and registered strings ---- */

static void *domain_create(const char *name)
{
    return lk_nvtx_domain_of(name);
}

static void *domain_create_wide(const wchar_t *name)
{
    char narrow[LK_FOREIGN_NAME_BYTES];

    lk_nvtx_from_wide(name, narrow, sizeof narrow);
    return lk_nvtx_domain_of(narrow);
}

static void *register_text(void *domain, const char *text)
{
    return lk_nvtx_register(lk_nvtx_name_of(domain, text));
}

static void *register_wide(void *domain, const wchar_t *text)
{
    return lk_nvtx_register(lk_nvtx_name_of_wide(domain, text));
}

/* ---- The injection ---- */

#define HOOK(module, id, f)                                                                        \
    {                                                                                              \
        module, id, (nvtx_function *)(f)                                                           \
    }

static const struct {
    int module;
    unsigned int id;
    nvtx_function *function;
} hooks[] = {
    HOOK(NVTX_CORE, NVTX_START_EX, start_event),
    HOOK(NVTX_CORE, NVTX_START_A, start_text),
    HOOK(NVTX_CORE, NVTX_START_W, start_wide),
    HOOK(NVTX_CORE, NVTX_END, end),
    HOOK(NVTX_CORE, NVTX_PUSH_EX, push_event),
    HOOK(NVTX_CORE, NVTX_PUSH_A, push_text),
    HOOK(NVTX_CORE, NVTX_PUSH_W, push_wide),
    HOOK(NVTX_CORE, NVTX_POP, pop_default),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_START_EX, domain_start),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_END, domain_end),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_PUSH_EX, domain_push),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_POP, domain_pop),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_REGISTER_A, register_text),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_REGISTER_W, register_wide),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_CREATE_A, domain_create),
    HOOK(NVTX_CORE2, NVTX_DOMAIN_CREATE_W, domain_create_wide),
};

/* NVTX's entry point. 0: this library takes no calls, and NVTX makes none. */
LK_FOREIGN_EXPORT int InitializeInjectionNvtx2(nvtx_get_table *get_table);

int InitializeInjectionNvtx2(nvtx_get_table *get_table)
{
    const struct nvtx_callbacks *callbacks = get_table(NVTX_TABLE_OF_CALLBACKS);
    nvtx_function ***table;
    unsigned int n;

    if (!callbacks || callbacks->bytes < sizeof *callbacks || !lk_foreign_begin())
        return 0;
    lk_nvtx_names_begin();
    for (size_t i = 0; i < LK_COUNT(hooks); i++)
        if (callbacks->module_functions(hooks[i].module, &table, &n) && hooks[i].id < n)
            *table[hooks[i].id] = hooks[i].function;
    return 1;
}
