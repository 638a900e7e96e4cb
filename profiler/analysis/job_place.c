#include "profiler/analysis/job_place.h"

#include "base/array.h"
#include "facts/run_facts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_listed(const char *list, const char *host)
{
    size_t n = strlen(host);

    for (const char *at = list; (at = strstr(at, host)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

/* Append the host of each rank, once. */
static enum lk_status set_hosts(const struct lk_run *run, struct lk_place *p)
{
    for (size_t k = 0; k < run->n; k++) {
        const char *host = run->traces[k].info.host;

        if (!strcmp(host, LK_HOST_UNKNOWN) || (p->hosts && is_listed(p->hosts, host)))
            continue;
        LK_PASS(lk_text_add(&p->hosts, "%s%s", p->hosts ? "," : "", host));
    }
    return LK_OK;
}

enum lk_status lk_job_place(const struct lk_run *run, struct lk_place *p)
{
    LK_PASS(lk_place_set_device(p, lk_run_about(run)->device));
    return set_hosts(run, p);
}
