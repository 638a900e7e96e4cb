#include "tests/rigs/failing_alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A hash table of the blocks that are held: no reader of a small file needs more places. */
enum { HELD_MAX = 1 << 12 };

static struct {
    bool on, for_good;
    size_t at;
    struct failing_alloc seen;
    size_t used; /* places that hold a block, or did */
    const void *held[HELD_MAX];
} state;

static const void *const gone = &state; /* a place whose block was released */

static size_t place_of(const void *p)
{
    return (size_t)((uintptr_t)p / 16 * 2654435761U) % HELD_MAX;
}

static void hold(const void *p)
{
    size_t i = place_of(p);

    if (!state.on || !p)
        return;
    while (state.held[i] && state.held[i] != gone)
        i = (i + 1) % HELD_MAX;
    state.used += !state.held[i];
    if (state.used > HELD_MAX / 2) /* no assertion here: libcheck allocates */
        abort();
    state.seen.held++;
    state.held[i] = p;
}

/* Blocks that others have allocated are not there. */
static void release(const void *p)
{
    if (!state.on || !p)
        return;
    for (size_t i = place_of(p); state.held[i]; i = (i + 1) % HELD_MAX)
        if (state.held[i] == p) {
            state.held[i] = gone;
            state.seen.held--;
            return;
        }
}

static bool fails(void)
{
    if (!state.on)
        return false;
    state.seen.calls++;
    if (state.seen.calls != state.at &&
        !(state.for_good && state.at && state.seen.calls > state.at))
        return false;
    state.seen.failed = true;
    return true;
}

void failing_alloc_begin(size_t at, bool for_good)
{
    memset(&state, 0, sizeof state);
    state.at = at;
    state.for_good = for_good;
    state.on = true;
}

struct failing_alloc failing_alloc_end(void)
{
    state.on = false;
    return state.seen;
}

/* ---- What the linker puts in place of the C library's ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strndup(const char *text, size_t n);
char *__real_strdup(const char *text);
int __real_vasprintf(char **out, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void __real_free(void *p);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strndup(const char *text, size_t n);
char *__wrap_strdup(const char *text);
int __wrap_vasprintf(char **out, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void __wrap_free(void *p);

void *__wrap_malloc(size_t size)
{
    void *p = fails() ? NULL : __real_malloc(size);

    hold(p);
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = fails() ? NULL : __real_calloc(n, size);

    hold(p);
    return p;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *p;

    if (fails())
        return NULL;
    release(old);
    p = __real_realloc(old, size);
    hold(p ? p : old);
    return p;
}

char *__wrap_strndup(const char *text, size_t n)
{
    char *p = fails() ? NULL : __real_strndup(text, n);

    hold(p);
    return p;
}

char *__wrap_strdup(const char *text)
{
    char *p = fails() ? NULL : __real_strdup(text);

    hold(p);
    return p;
}

int __wrap_vasprintf(char **out, const char *fmt, va_list ap)
{
    int n = fails() ? -1 : __real_vasprintf(out, fmt, ap);

    if (n >= 0)
        hold(*out);
    return n;
}

void __wrap_free(void *p)
{
    release(p);
    __real_free(p);
}
