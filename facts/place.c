/* Places: names of devices, and what a place is to a cluster. */
#include "facts/place.h"

#include "base/array.h"
#include "facts/cluster.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Devices ---- */

/* Names that tell no device: those of imports and of cluster files that say none, and the device
 * that waits in place of computing. */
static const char *const nameless[] = {"", "any", "gpu", "timed", "unknown"};

static bool is_named(const char *device)
{
    bool named = device != NULL;

    for (size_t i = 0; named && i < LK_COUNT(nameless); i++)
        named = strcasecmp(device, nameless[i]) != 0;
    return named;
}

/* Return the model in a device's name, "A100" of "NVIDIA A100-SXM4-40GB"; *len is 0 without one. */
static const char *model_in(const char *name, size_t *len)
{
    static const char *const others[] = {"SXM", "HBM", "NVL"}; /* forms of it, with a digit each */

    for (const char *p = name; *p; p += *len) {
        bool other = false;

        p += strspn(p, " -_/()");
        *len = strcspn(p, " -_/()");
        for (size_t i = 0; i < LK_COUNT(others); i++)
            other |= !strncasecmp(p, others[i], strlen(others[i]));
        other |= *len > 2 && !strncasecmp(p + *len - 2, "GB", 2);
        if (!other && strcspn(p, "0123456789") < *len)
            return p;
    }
    *len = 0;
    return name;
}

int lk_device_same(const char *a, const char *b)
{
    size_t n_a, n_b;
    const char *x, *y;

    if (!is_named(a) || !is_named(b))
        return 0;
    if (!strcasecmp(a, b))
        return 1;
    if (!strcasecmp(a, "cpu") || !strcasecmp(b, "cpu"))
        return -1;
    x = model_in(a, &n_a);
    y = model_in(b, &n_b);
    if (!n_a || !n_b)
        return 0;
    if (n_a != n_b || strncasecmp(x, y, n_a) != 0)
        return -1;
    /* A card and a module of one model differ in clock and power. */
    return (strcasestr(a, "PCIe") && strcasestr(b, "SXM")) ||
                   (strcasestr(a, "SXM") && strcasestr(b, "PCIe"))
               ? -1
               : 1;
}

/* ---- Places ---- */

static bool is_given(const void *base)
{
    return lk_place_known(base);
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_place, field, key, __VA_ARGS__)
static const struct lk_member place_rows[] = {
    ROW(cluster, "cluster", TEXT, SPARSE,
        .help = "name of the cluster that it was, or \"elsewhere\": it decides where it counts",
        .without = "not said"),
    ROW(device, "device", TEXT, SPARSE, .help = "name of the GPU, or \"cpu\"",
        .without = "not known"),
    ROW(network, "network", TEXT, SPARSE,
        .help = "network between nodes, as a cluster's topology names it", .without = "not known"),
    ROW(hosts, "hosts", TEXT, SPARSE, .help = "names of the hosts, apart by commas",
        .without = "not known"),
    LK_MEMBER_END,
};
#undef ROW
const struct lk_record lk_place_record = {
    .size = sizeof(struct lk_place), .rows = place_rows, .one_line = true, .given = is_given};

bool lk_place_known(const struct lk_place *p)
{
    return p->cluster || p->device || p->hosts || p->network;
}

static enum lk_status set_text(char **to, const char *text)
{
    char *copy;

    LK_PASS(lk_strdup(&copy, text));
    free(*to);
    *to = copy;
    return LK_OK;
}

enum lk_status lk_place_say(struct lk_place *p, const char *cluster)
{
    return set_text(&p->cluster, cluster);
}

enum lk_status lk_place_set_device(struct lk_place *p, const char *device)
{
    return is_named(device) ? set_text(&p->device, device) : LK_OK;
}

enum lk_place_on lk_place_on(const struct lk_place *p, const struct lk_cluster *c, int nodes)
{
    int device = lk_device_same(p->device, c->gpu);
    bool other_network = nodes > 1 && p->network && c->topology.network &&
                         strcmp(p->network, lk_network_words.names[c->topology.network]) != 0;

    if (p->cluster && *p->cluster)
        return !strcmp(p->cluster, LK_PLACE_HERE_WORD) || !strcmp(p->cluster, c->name)
                   ? LK_PLACE_SAID
                   : LK_PLACE_ELSEWHERE;
    if (device < 0 || other_network)
        return LK_PLACE_ELSEWHERE;
    return device > 0 ? LK_PLACE_AGREES : LK_PLACE_UNKNOWN;
}
