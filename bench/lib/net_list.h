/* The list of measured runs that tests/net/validate and bench/net_torch.sh write. */
#ifndef LK_BENCH_LIB_NET_LIST_H
#define LK_BENCH_LIB_NET_LIST_H

#include "base/csv.h"
#include "base/status.h"
#include "facts/job.h"

#include <stddef.h>
#include <stdint.h>

/* A held-out configuration, and the evidence that it is to be forecast from. Several runs of one
 * have blanks between their paths. Texts belong to the list. */
struct net_run {
    const char *group;
    const char *single, *pair;         /* evidence: runs of 1 and 2 ranks, or a job file and NULL */
    const char *cluster;               /* file of the 2-rank calibration */
    const char *run;                   /* directories of the runs, or a job file that has one */
    const char *hosts;                 /* what tests/net/hosts wrote beside it */
    const char *rate, *cap;            /* of the links and of buckets, as written there */
    const char *slow_rank, *slow_link; /* what is known of them; NULL: nothing */
    const char *setting; /* of other axes: "sharding=hsdp shard-group=2"; NULL: the job's */
    int ranks, accumulation;
    uint64_t cap_bytes;
};

/* Load the list; to be freed with lk_csv_free. */
enum lk_status net_list_load(const char *path, struct lk_csv **out);
enum lk_status net_list_row(const struct lk_csv *t, size_t row, struct net_run *out);

/* Build a job of the evidence, ended by the caller. */
enum lk_status net_run_evidence(const struct net_run *r, struct lk_job *out);
/* Compute the mean of the runs' mean steps. */
enum lk_status net_run_step_s(const struct net_run *r, double *out);

#endif
