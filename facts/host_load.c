#include "facts/host_load.h"

#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A system's own daemons take less of a host's time. */
static const double busy_share = 0.1;

const struct lk_words lk_host_time_words = LK_WORDS("a time of a host", LK_HOST_TIME_LIST);

struct lk_host_use lk_host_use_sum(const struct lk_host_seen *ranks, size_t n, const char *machine)
{
    struct lk_host_use u = {0};
    double busy = 0, own = 0;

    for (const struct lk_host_seen *r = ranks; r < ranks + n; r++) {
        if (strcmp(r->machine, machine) != 0 || !(r->window_s > 0))
            continue;
        u.n_ranks++;
        u.window_s += r->window_s;
        u.waited_s += r->load.s[LK_HOST_WAITED];
        u.processors += r->load.s[LK_HOST_AVAILABLE] / r->window_s;
        u.stolen += r->load.s[LK_HOST_STOLEN] / r->window_s;
        busy += r->load.s[LK_HOST_BUSY] / r->window_s;
        own += r->load.s[LK_HOST_OWN] / r->window_s;
    }
    u.window_s /= (double)u.n_ranks;
    u.processors /= (double)u.n_ranks; /* all of them saw the same machine */
    u.stolen /= (double)u.n_ranks;
    u.others = fmax(busy / (double)u.n_ranks - own, 0); /* the kernel counts both in its own way */
    return u;
}

bool lk_host_is_busy(const struct lk_host_use *u)
{
    double waited = isnan(u->waited_s) ? 0 : u->waited_s / u->window_s;

    return fmin(waited, u->others) + u->stolen >= busy_share;
}

void lk_host_use_text(const struct lk_host_use *u, char *out, size_t size)
{
    char stolen[64] = "", waited[32], window[32];
    size_t n;

    if (u->stolen >= busy_share)
        snprintf(stolen, sizeof stolen, ", other guests of the machine %.1f", u->stolen);
    n = (size_t)snprintf(out, size, "other work took %.1f of %.0f processors%s", u->others,
                         u->processors, stolen);
    if (isnan(u->waited_s) || n >= size)
        return;
    (void)lk_units_format(LK_DIM_TIME, u->waited_s, waited, sizeof waited);
    (void)lk_units_format(LK_DIM_TIME, u->window_s, window, sizeof window);
    snprintf(out + n, size - n, ", and the threads of %zu rank%s waited %s for one in %s",
             u->n_ranks, u->n_ranks == 1 ? "" : "s", waited, window);
}
