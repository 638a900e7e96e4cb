#include "preload/nvtx_names.h"

#include "facts/range_names.h"
#include "preload/record.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOMAIN_BYTES = 64, NUMBER_DIGITS = 9 };

struct domain {
    char name[DOMAIN_BYTES];
    _Atomic bool whole;
};

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): NVTX passes no context */
static struct domain domains[LK_NVTX_DOMAINS]; /* the first has no name, the last is the others' */
static _Atomic uint32_t n_domains = 1;
static char step_range[128];
static bool all;
static _Atomic int begun; /* 1: a thread reads the environment, 2: it is read */
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

void lk_nvtx_names_begin(void)
{
    const char *wanted = secure_getenv("LOCKSTEP_PROFILE_NVTX");
    const char *step = secure_getenv("LOCKSTEP_PROFILE_STEP_RANGE");
    int new = 0;

    if (!atomic_compare_exchange_strong(&begun, &new, 1))
        return;
    all = wanted && !strcmp(wanted, "all");
    (void)snprintf(step_range, sizeof step_range, "%s", step ? step : "");
    (void)snprintf(domains[LK_NVTX_DOMAINS - 1].name, DOMAIN_BYTES, "other");
    atomic_store(&begun, 2);
}

/* ---- Domains ---- */

/* Numbers begin at 1: NULL is the domain without a name. */
static void *handle_of(uint32_t domain)
{
    return (void *)(uintptr_t)(domain + 1);
}

void *lk_nvtx_domain_of(const char *name)
{
    uint32_t n = atomic_load(&n_domains), i;

    if (!name || !*name)
        return handle_of(0);
    for (i = 1; i < n && i < LK_NVTX_DOMAINS - 1; i++)
        if (atomic_load(&domains[i].whole) && !strncmp(domains[i].name, name, DOMAIN_BYTES - 1))
            return handle_of(i);
    if (n >= LK_NVTX_DOMAINS - 1 || (i = atomic_fetch_add(&n_domains, 1)) >= LK_NVTX_DOMAINS - 1)
        return handle_of(LK_NVTX_DOMAINS - 1);
    (void)snprintf(domains[i].name, DOMAIN_BYTES, "%s", name);
    atomic_store(&domains[i].whole, true);
    return handle_of(i);
}

uint32_t lk_nvtx_domain_number(const void *domain)
{
    uint64_t number = (uint64_t)(uintptr_t)domain;

    return number > LK_NVTX_DOMAINS ? LK_NVTX_DOMAINS - 1 : number ? (uint32_t)number - 1 : 0;
}

/* ---- Names ---- */

static bool is_recorded(const char *text)
{
    return all || (step_range[0] && !strncmp(text, step_range, strlen(step_range))) ||
           lk_range_is_known(text);
}

/* Cut a text at what differs each time; return the number behind its #. */
static uint32_t cut(char *text)
{
    char *seq = strstr(text, ", seq = "), *mark;
    uint32_t number = 0;
    size_t digits;

    if (seq)
        *seq = '\0';
    mark = strrchr(text, '#');
    digits = mark ? strspn(mark + 1, "0123456789") : 0;
    if (!digits || digits > NUMBER_DIGITS || mark[1 + digits])
        return 0;
    number = (uint32_t)strtoul(mark + 1, NULL, 10);
    mark[1] = '\0';
    return number;
}

struct lk_nvtx_name lk_nvtx_name_of(const void *domain, const char *text)
{
    const uint32_t number = lk_nvtx_domain_number(domain);
    char whole[DOMAIN_BYTES + LK_FOREIGN_NAME_BYTES];
    struct lk_nvtx_name name = {0, 0};

    if (!text || !*text || atomic_load(&begun) != 2 || !is_recorded(text))
        return name;
    (void)snprintf(whole, sizeof whole, "%s%s%.*s", domains[number].name, number ? "/" : "",
                   LK_FOREIGN_NAME_BYTES - 1, text);
    name.number = cut(whole);
    name.id = lk_foreign_name(whole);
    return name;
}

void lk_nvtx_from_wide(const wchar_t *text, char *out, size_t size)
{
    size_t n = 0;

    for (; text && *text && n + 4 < size; text++) {
        uint32_t c = (uint32_t)*text;

        if (c > 0x10ffff)
            c = 0xfffd; /* the replacement character */
        if (c < 0x80) {
            out[n++] = (char)c;
        } else if (c < 0x800) {
            out[n++] = (char)(0xc0 | c >> 6);
            out[n++] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            out[n++] = (char)(0xe0 | c >> 12);
            out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[n++] = (char)(0x80 | (c & 0x3f));
        } else {
            out[n++] = (char)(0xf0 | c >> 18);
            out[n++] = (char)(0x80 | (c >> 12 & 0x3f));
            out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[n++] = (char)(0x80 | (c & 0x3f));
        }
    }
    out[n] = '\0';
}

struct lk_nvtx_name lk_nvtx_name_of_wide(const void *domain, const wchar_t *text)
{
    char narrow[LK_FOREIGN_NAME_BYTES];

    lk_nvtx_from_wide(text, narrow, sizeof narrow);
    return lk_nvtx_name_of(domain, narrow);
}

/* ---- Registered strings ---- */

/* The lowest bit is set, so that none is NULL. */
void *lk_nvtx_register(struct lk_nvtx_name name)
{
    return (void *)(uintptr_t)((uint64_t)name.id << 32 | (uint64_t)name.number << 1 | 1);
}

struct lk_nvtx_name lk_nvtx_name_of_event(const void *domain, const struct nvtx_attributes *a)
{
    const uint64_t bits = a ? (uint64_t)(uintptr_t)a->message.registered : 0;

    if (!a || a->size < sizeof *a)
        return (struct lk_nvtx_name){0, 0};
    switch (a->message_type) {
    case NVTX_ASCII:
        return lk_nvtx_name_of(domain, a->message.ascii);
    case NVTX_UNICODE:
        return lk_nvtx_name_of_wide(domain, a->message.unicode);
    case NVTX_REGISTERED:
        if (bits & 1)
            return (struct lk_nvtx_name){(uint32_t)(bits >> 32), (uint32_t)bits >> 1};
        break;
    default:
        break;
    }
    return (struct lk_nvtx_name){0, 0};
}
