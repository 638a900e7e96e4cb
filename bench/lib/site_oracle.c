/* Oracles on widths; see the header. */
#include "bench/lib/site_oracle.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/* Set the needs of the group that begins at v, sorted, and the sum of its widths; return how many
 * they are. */
static size_t take_group(const struct oracle_case *v, size_t n, double *needs, double *width)
{
    size_t k = 0;

    *width = 0;
    for (; k < n && v[k].group == v[0].group; k++) {
        needs[k] = v[k].needs;
        *width += v[k].width;
    }
    lk_stats_sort(needs, k);
    return k;
}

enum lk_status oracle_each(const struct oracle_case *v, size_t n, double share, struct oracle *out)
{
    double *needs, width;

    LK_PASS(lk_alloc(&needs, n, sizeof *needs));
    *out = (struct oracle){0};
    for (size_t at = 0, k; at < n; at += k) {
        double factor;

        k = take_group(v + at, n - at, needs, &width);
        factor = needs[(size_t)ceil(share * (double)k) - 1];
        for (size_t i = 0; i < k; i++)
            out->inside += needs[i] <= factor;
        out->width += factor * width;
        out->groups++;
    }
    free(needs);
    return LK_OK;
}

enum lk_status oracle_all(const struct oracle_case *v, size_t n, double share, struct oracle *out)
{
    enum lk_status st = LK_OK;
    double *needs = NULL, *least = NULL, *next = NULL, width; /* least[i]: width with i inside */
    size_t seen = 0, groups = 0, wanted = (size_t)ceil(share * (double)n);

    LK_TRY(lk_alloc(&needs, n, sizeof *needs));
    LK_TRY(lk_alloc(&least, n + 1, sizeof *least));
    LK_TRY(lk_alloc(&next, n + 1, sizeof *next));
    for (size_t k; seen < n; seen += k, groups++) {
        k = take_group(v + seen, n - seen, needs, &width);
        for (size_t i = 0; i <= seen + k; i++)
            next[i] = INFINITY;
        for (size_t i = 0; i <= seen; i++)
            for (size_t in = 0; in <= k; in++)
                next[i + in] = fmin(next[i + in], least[i] + (in ? needs[in - 1] * width : 0));
        for (size_t i = 0; i <= seen + k; i++)
            least[i] = next[i];
    }
    *out = (struct oracle){.groups = groups, .inside = wanted, .width = least[wanted]};
    for (size_t i = wanted; i <= n; i++)
        if (least[i] < out->width) {
            out->inside = i;
            out->width = least[i];
        }
out:
    free(next);
    free(least);
    free(needs);
    return st;
}
