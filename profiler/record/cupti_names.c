/*
 * Names of kernels. Divisions: short names, by the part of the Itanium C++ ABI's mangling (5.1) for
 * names; the tables of kernels and of their pairs with ops, hash tables that are half full at most.
 */
#include "profiler/record/cupti_names.h"

#include "base/array.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_SLOTS = 2 * LK_CUPTI_KERNELS, PAIR_SLOTS = 2 * LK_CUPTI_PAIRS };

_Static_assert((KERNEL_SLOTS & (KERNEL_SLOTS - 1)) == 0, "a power of two");
_Static_assert((PAIR_SLOTS & (PAIR_SLOTS - 1)) == 0, "a power of two");

/* ---- Short names ---- */

/* The name being built. */
struct text {
    char *out;
    size_t size, n;
};

static void append(struct text *t, const char *from, size_t n)
{
    if (t->n > 0)
        t->n += (size_t)snprintf(t->out + t->n, t->size - t->n, "::");
    if (t->n + 1 < t->size)
        t->n += (size_t)snprintf(t->out + t->n, t->size - t->n, "%.*s", (int)n, from);
    if (t->n >= t->size)
        t->n = t->size - 1;
}

/* Return true for unnamed namespaces, and for nvcc's scope of internal functions. */
static bool is_nameless(const char *from, size_t n)
{
    static const char *const scopes[] = {"_GLOBAL__N", "_INTERNAL_"};

    for (size_t i = 0; i < LK_COUNT(scopes); i++)
        if (n >= strlen(scopes[i]) && !strncmp(from, scopes[i], strlen(scopes[i])))
            return true;
    return false;
}

/* Parse <source-name>: a length and as many characters. Return its end, or NULL. */
static const char *source_name(struct text *t, const char *at)
{
    char *name;
    unsigned long n;

    if (*at < '1' || *at > '9')
        return NULL;
    n = strtoul(at, &name, 10);
    if (n > strlen(name))
        return NULL;
    if (!is_nameless(name, n))
        append(t, name, n);
    return name + n;
}

/* Skip the qualifiers of a member function, and "St" for std, before a nested name's
 * identifiers. */
static const char *skip_qualifiers(const char *at)
{
    at += strspn(at, "rVKRO");
    return strncmp(at, "St", 2) ? at : at + 2;
}

/* Parse <encoding> behind "_Z". */
static bool read_mangled(struct text *t, const char *at)
{
    bool nested = *at == 'N';

    if (nested)
        at = skip_qualifiers(at + 1);
    at += *at == 'L'; /* internal linkage */
    do {
        at = source_name(t, at);
    } while (nested && at && *at >= '1' && *at <= '9');
    return t->n > 0;
}

/* Parse "void scope::kernel<float>(float *)". */
static void read_demangled(struct text *t, const char *symbol, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (symbol[i] == ' ') {
            symbol += i + 1;
            n -= i + 1;
            i = (size_t)-1;
        }
    append(t, symbol, n);
}

void lk_kernel_name(const char *symbol, char *out, size_t size)
{
    struct text t = {.out = out, .size = size};
    static const char unnamed[] = "(anonymous namespace)::";
    const char *mangled = symbol;

    out[0] = '\0';
    if (!strncmp(symbol, "__nv_static_", 12)) /* nvcc's renaming of internal functions */
        mangled = strstr(symbol, "_Z");
    if (mangled && !strncmp(mangled, "_Z", 2) && read_mangled(&t, mangled + 2))
        return;
    for (const char *at = symbol, *end; at; at = end) {
        size_t n = strcspn(at, "<(");
        bool is_scope = !strncmp(at + n, unnamed, sizeof unnamed - 1);

        end = is_scope ? at + n + sizeof unnamed - 1 : NULL;
        if (is_scope && n >= 2)
            n -= 2; /* its "::" */
        if (n > 0)
            read_demangled(&t, at, n);
    }
    if (t.n == 0)
        append(&t, symbol, strlen(symbol));
}

/* ---- Tables ---- */

enum lk_status lk_cupti_names_init(struct lk_cupti_names *n, struct lk_recorder *recorder)
{
    enum lk_status st = LK_OK;

    *n = (struct lk_cupti_names){.recorder = recorder};
    LK_TRY(lk_alloc(&n->kernels, KERNEL_SLOTS, sizeof *n->kernels));
    LK_TRY(lk_alloc(&n->pairs, PAIR_SLOTS, sizeof *n->pairs));
    if (pthread_mutex_init(&n->lock, NULL))
        st = lk_fail(LK_ENOMEM, "cannot make a mutex");
out:
    if (st != LK_OK) {
        free(n->kernels);
        free(n->pairs);
        *n = (struct lk_cupti_names){0};
    }
    return st;
}

void lk_cupti_names_fini(struct lk_cupti_names *n)
{
    if (!n->kernels)
        return;
    for (size_t i = 0; i < KERNEL_SLOTS; i++)
        free(n->kernels[i].symbol);
    for (size_t i = 0; i < LK_CUPTI_OPS; i++)
        free(n->ops[i]);
    free(n->kernels);
    free(n->pairs);
    pthread_mutex_destroy(&n->lock);
    *n = (struct lk_cupti_names){0};
}

enum lk_status lk_cupti_names_add(struct lk_cupti_names *n, uint16_t id, const char *text)
{
    enum lk_status st = LK_OK;

    pthread_mutex_lock(&n->lock);
    if (id < LK_CUPTI_OPS && !n->ops[id])
        st = lk_strdup(&n->ops[id], text);
    pthread_mutex_unlock(&n->lock);
    return st;
}

int lk_cupti_names_kernel(struct lk_cupti_names *n, const char *symbol)
{
    size_t i = lk_hash(symbol, strlen(symbol)) & (KERNEL_SLOTS - 1);

    while (n->kernels[i].symbol && strcmp(n->kernels[i].symbol, symbol) != 0)
        i = (i + 1) & (KERNEL_SLOTS - 1);
    if (!n->kernels[i].symbol) {
        if (n->n_kernels == LK_CUPTI_KERNELS || lk_strdup(&n->kernels[i].symbol, symbol) != LK_OK)
            return 0;
        lk_kernel_name(symbol, n->kernels[i].text, sizeof n->kernels[i].text);
        n->n_kernels++;
    }
    return (int)i + 1;
}

bool lk_cupti_names_is_nccl(const struct lk_cupti_names *n, int kernel)
{
    return kernel > 0 && !strncmp(n->kernels[kernel - 1].text, "nccl", 4);
}

/* Write the op's name in front of the kernel's, unless the kernel's contains it. */
static void write_text(struct lk_cupti_names *n, int kernel, uint16_t op,
                       char text[static LK_CUPTI_NAME_BYTES])
{
    const char *own = n->kernels[kernel - 1].text;

    pthread_mutex_lock(&n->lock);
    if (op > 0 && op < LK_CUPTI_OPS && n->ops[op] && !strstr(own, n->ops[op]))
        snprintf(text, LK_CUPTI_NAME_BYTES, "%.40s: %.50s", n->ops[op], own);
    else
        snprintf(text, LK_CUPTI_NAME_BYTES, "%s", own);
    pthread_mutex_unlock(&n->lock);
}

uint16_t lk_cupti_names_span(struct lk_cupti_names *n, int kernel, uint16_t op)
{
    size_t i = ((size_t)kernel * 0x9e3779b1U ^ op) & (PAIR_SLOTS - 1);
    char text[LK_CUPTI_NAME_BYTES];

    if (kernel == 0)
        return op;
    while (n->pairs[i].kernel && (n->pairs[i].kernel != kernel || n->pairs[i].op != op))
        i = (i + 1) & (PAIR_SLOTS - 1);
    if (n->pairs[i].kernel)
        return n->pairs[i].name;
    if (n->n_pairs == LK_CUPTI_PAIRS)
        return op;
    write_text(n, kernel, op, text);
    n->pairs[i].kernel = kernel;
    n->pairs[i].op = op;
    n->pairs[i].name = op;
    n->n_pairs++;
    (void)lk_recorder_name(n->recorder, text, &n->pairs[i].name);
    return n->pairs[i].name;
}
