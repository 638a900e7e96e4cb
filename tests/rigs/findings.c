#include "tests/rigs/findings.h"

#include <stdio.h>
#include <string.h>

bool has_finding(const struct lk_analysis *a, const char *start)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (!strncmp(a->findings[i].text, start, strlen(start)))
            return true;
    return false;
}

void print_findings(const struct lk_analysis *a)
{
    for (size_t i = 0; i < a->n_findings; i++)
        fprintf(stderr, "  found: %s\n", a->findings[i].text);
}
