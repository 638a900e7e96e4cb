/* What the readers of collective times share. */
#include "profiler/bench_log.h"

#include "base/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lk_bench_fini(struct lk_bench *b)
{
    for (size_t i = 0; i < b->n_points; i++)
        lk_quantity_fini(&b->points[i].time_s);
    free(b->points);
    free(b->gpu);
    free(b->nccl_version);
    *b = (struct lk_bench){0};
}

/* nccl-tests' programs that time what no cluster file has: src/ of NVIDIA/nccl-tests 2.19. */
static const char *const others[] = {"alltoall", "alltoallv", "gather",   "hypercube",
                                     "reduce",   "scatter",   "sendrecv", "send_recv"};

static bool is_word(const char *word, const char *text, size_t len)
{
    return strlen(word) == len && !strncmp(word, text, len);
}

bool lk_bench_coll(const char *name, size_t len, enum lk_coll *out, bool *out_known)
{
    for (int c = 0; c < LK_COLL_COUNT; c++)
        if (is_word(lk_coll_name((enum lk_coll)c), name, len)) {
            *out = (enum lk_coll)c;
            *out_known = true;
            return true;
        }
    for (size_t i = 0; i < LK_COUNT(others); i++)
        if (is_word(others[i], name, len)) {
            *out_known = false;
            return true;
        }
    return false;
}

enum lk_status lk_bench_add(struct lk_bench *b, enum lk_coll coll, enum lk_algo algo, int ranks,
                            int nodes, uint64_t bytes, double seconds, const char *source, ...)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_point p = {coll,  algo,  LK_TIMING_BACK_TO_BACK, ranks,
                                 nodes, bytes, lk_quantity_none()};
    char *text = NULL;
    va_list ap;
    int n;

    va_start(ap, source);
    n = vasprintf(&text, source, ap);
    va_end(ap);
    if (n < 0)
        return lk_fail(LK_ENOMEM, "cannot format a source");
    LK_TRY(lk_array_grow(&b->points, &b->capacity, b->n_points + 1, sizeof *b->points));
    LK_TRY(lk_quantity_set(&p.time_s, seconds, NAN, NAN, 1, "%s", text));
    b->points[b->n_points++] = p;
out:
    free(text);
    return st;
}
