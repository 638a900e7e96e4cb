/* Hosts of a launch; see the header. */
#include "runtime/rendezvous/hosts.h"

#include "base/array.h"
#include "base/units.h"
#include "runtime/rendezvous/net.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 1024 };

/* Return whether ssh may be given the name: it is no option, and one word in any shell. */
static bool is_name(const char *s)
{
    if (!*s || *s == '-')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("._-@:%", *s))
            return false;
    return true;
}

/* Read one element of the list, of n characters. */
static enum lk_status parse_one(const char *text, size_t n, struct lk_host *out)
{
    char item[sizeof out->name], *name = item, *slots;
    int64_t v = 1;

    if (n >= sizeof item)
        return lk_fail(LK_EUSAGE, "the name of a host is too long");
    memcpy(item, text, n);
    item[n] = '\0';
    if (*item == '[') { /* an IPv6 address, whose colons are no limits */
        slots = strchr(++name, ']');
        if (!slots)
            return lk_fail(LK_EUSAGE, "'%s' has no ]", item);
        *slots++ = '\0';
    } else {
        slots = strchr(name, ':');
    }
    if (slots && *slots) {
        if (*slots != ':')
            return lk_fail(LK_EUSAGE, "'%s' is not HOST:SLOTS", item);
        *slots++ = '\0';
        LK_PASS(lk_fail_context(lk_parse_int64(slots, 1, SLOTS_MAX, &v), "the slots of %s", name));
    }
    if (!is_name(name))
        return lk_fail(LK_EUSAGE, "'%s' is not the name of a host", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->slots = (int)v;
    return LK_OK;
}

enum lk_status lk_hosts_parse(const char *text, struct lk_hosts *out)
{
    struct lk_hosts h = {0};
    enum lk_status st = LK_OK;
    size_t capacity = 0;

    do {
        size_t n = strcspn(text, ",");

        LK_TRY(lk_array_grow(&h.v, &capacity, h.n + 1, sizeof *h.v));
        LK_TRY(parse_one(text, n, &h.v[h.n]));
        for (size_t i = 0; i < h.n; i++)
            if (!strcmp(h.v[i].name, h.v[h.n].name))
                LK_TRY(lk_fail(LK_EUSAGE, "%s is there twice: give it slots, %s:2", h.v[i].name,
                               h.v[i].name));
        h.slots += h.v[h.n++].slots;
        text += n;
    } while (*text++ == ',');
    *out = h;
    h = (struct lk_hosts){0};
out:
    lk_hosts_fini(&h);
    return st;
}

void lk_hosts_fini(struct lk_hosts *h)
{
    free(h->v);
    *h = (struct lk_hosts){0};
}

struct lk_rank_place lk_hosts_place(const struct lk_hosts *hosts, int rank, int ranks)
{
    struct lk_rank_place p = {NULL, rank, ranks, 1};
    int first = 0;

    if (!hosts)
        return p;
    p.hosts = 0;
    for (size_t i = 0; i < hosts->n && first < ranks; i++) {
        int left = ranks - first, here = left < hosts->v[i].slots ? left : hosts->v[i].slots;

        if (rank >= first && rank < first + here) {
            p.host = hosts->v[i].name;
            p.local_rank = rank - first;
            p.local_size = here;
        }
        p.hosts++;
        first += here;
    }
    return p;
}

enum lk_status lk_hosts_address(const struct lk_hosts *h, char *out, size_t size)
{
    const char *given = getenv("MASTER_ADDR");
    bool loopback = true;

    if (given) {
        snprintf(out, size, "%s", given);
        return LK_OK;
    }
    for (size_t i = 0; i < h->n && loopback; i++) {
        const char *at = strchr(h->v[i].name, '@');

        if (lk_net_route(at ? at + 1 : h->v[i].name, out, size) != LK_OK)
            return lk_fail(LK_EUSAGE,
                           "%s; set MASTER_ADDR to the address by which the hosts reach this one",
                           lk_error_text());
        loopback = lk_net_is_loopback(out);
    }
    return LK_OK;
}
