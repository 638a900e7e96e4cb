/* Short names of GPU kernels: the part of the Itanium C++ ABI's mangling (5.1) that names are. */
#include "profiler/kernel_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name under construction. */
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

/* Unnamed namespaces, and the scope that nvcc puts internal functions into. */
static bool is_nameless(const char *from, size_t n)
{
    static const char *const scopes[] = {"_GLOBAL__N", "_INTERNAL_"};

    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        if (n >= strlen(scopes[i]) && !strncmp(from, scopes[i], strlen(scopes[i])))
            return true;
    return false;
}

/* <source-name>: a length and as many characters. Returns what is behind it, or NULL. */
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

/* What may stand before a nested name's first identifier: qualifiers of a member function, and
 * "St" for std. */
static const char *skip_qualifiers(const char *at)
{
    at += strspn(at, "rVKRO");
    return strncmp(at, "St", 2) ? at : at + 2;
}

/* <encoding> behind "_Z". */
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

/* "void scope::kernel<float>(float *)". */
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
    const char *mangled = symbol;

    out[0] = '\0';
    if (!strncmp(symbol, "__nv_static_", 12)) /* nvcc's renaming of internal functions */
        mangled = strstr(symbol, "_Z");
    if (mangled && !strncmp(mangled, "_Z", 2) && read_mangled(&t, mangled + 2))
        return;
    read_demangled(&t, symbol, strcspn(symbol, "<("));
    if (t.n == 0)
        append(&t, symbol, strlen(symbol));
}
