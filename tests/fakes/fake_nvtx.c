#include "tests/fakes/fake_nvtx.h"

#include <check.h>
#include <dlfcn.h>

typedef int injection(nvtx_get_table *get_table);

/* The library that is being opened: NVTX passes no context. */
static struct fake_nvtx *opened;

static int module_functions(int module, nvtx_function ****out_table, unsigned int *out_n)
{
    *out_n = FAKE_NVTX_FUNCTIONS;
    *out_table = module == NVTX_CORE ? opened->core_places : opened->core2_places;
    return module == NVTX_CORE || module == NVTX_CORE2;
}

static const void *get_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, module_functions};

    return id == NVTX_TABLE_OF_CALLBACKS ? &callbacks : NULL;
}

bool fake_nvtx_open(struct fake_nvtx *f, const char *tool)
{
    void *library = dlopen(tool, RTLD_NOW | RTLD_LOCAL);
    injection *begin;

    ck_assert_msg(library != NULL, "%s", dlerror());
    begin = (injection *)(uintptr_t)dlsym(library, "InitializeInjectionNvtx2");
    ck_assert(begin != NULL);
    *f = (struct fake_nvtx){{NULL}, {NULL}, {NULL}, {NULL}};
    for (int i = 0; i < FAKE_NVTX_FUNCTIONS; i++) {
        f->core_places[i] = &f->core[i];
        f->core2_places[i] = &f->core2[i];
    }
    opened = f;
    return begin(get_table) == 1;
}

int fake_nvtx_push(struct fake_nvtx *f, const char *text)
{
    return ((int (*)(const char *))f->core[NVTX_PUSH_A])(text);
}

int fake_nvtx_push_wide(struct fake_nvtx *f, const wchar_t *text)
{
    return ((int (*)(const wchar_t *))f->core[NVTX_PUSH_W])(text);
}

int fake_nvtx_pop(struct fake_nvtx *f)
{
    return ((int (*)(void))f->core[NVTX_POP])();
}

uint64_t fake_nvtx_start(struct fake_nvtx *f, const char *text)
{
    return ((uint64_t(*)(const char *))f->core[NVTX_START_A])(text);
}

void fake_nvtx_end(struct fake_nvtx *f, uint64_t id)
{
    ((void (*)(uint64_t))f->core[NVTX_END])(id);
}

void *fake_nvtx_domain(struct fake_nvtx *f, const char *name)
{
    return ((void *(*)(const char *))f->core2[NVTX_DOMAIN_CREATE_A])(name);
}

void *fake_nvtx_register(struct fake_nvtx *f, void *domain, const char *text)
{
    return ((void *(*)(void *, const char *))f->core2[NVTX_DOMAIN_REGISTER_A])(domain, text);
}

int fake_nvtx_domain_push(struct fake_nvtx *f, void *domain, int type, const void *text)
{
    struct nvtx_attributes a = {
        .version = 3, .size = sizeof a, .message_type = type, .message.registered = text};

    return ((int (*)(void *, const struct nvtx_attributes *))f->core2[NVTX_DOMAIN_PUSH_EX])(domain,
                                                                                            &a);
}

int fake_nvtx_domain_pop(struct fake_nvtx *f, void *domain)
{
    return ((int (*)(void *))f->core2[NVTX_DOMAIN_POP])(domain);
}
