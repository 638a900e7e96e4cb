/* Files as NCCL Inspector writes them, in each form that it has had
 * (profiler/import/nccl_inspector.h): made here from the format's description. */
#ifndef LK_TESTS_INSPECTOR_LOG_H
#define LK_TESTS_INSPECTOR_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum inspector_form {
    INSPECTOR_V40_OLD, /* of NCCL 2.28: a communicator has no name, and there are no p2p objects */
    INSPECTOR_V40,     /* of NCCL 2.30 */
    INSPECTOR_V41,
    INSPECTOR_V42,
    INSPECTOR_V43,
    INSPECTOR_V44,
    INSPECTOR_FORMS
};

/* A collective of a rank, as NCCL names it and Inspector counts it. */
struct inspector_coll {
    const char *name;
    uint64_t number, bytes;
    unsigned us;
    const char *source; /* NULL: kernel_gpu */
};

/* A rank of a communicator, and the dump that it writes. */
struct inspector_rank {
    enum inspector_form form;
    const char *id, *version; /* NULL: "0x7f8c496ae9f661"; that of the form */
    int rank, ranks, nodes;
    size_t lost;    /* of dump_stats */
    double rates;   /* what the rates are multiplied with; 0: 1 */
    double bus;     /* what busbw is multiplied with besides; 0: 1 */
    int is_verbose; /* with the events of the channels */
};

/* Write a dump of n collectives; from 2.30 on with a send, and in 4.3 and later with what the proxy
 * did, which belong to it, too. */
void inspector_dump(FILE *f, const struct inspector_rank *r, const struct inspector_coll *c,
                    size_t n);

/* Write folder/NAME-pidRANK.log of one dump. */
void inspector_put(const char *folder, const struct inspector_rank *r,
                   const struct inspector_coll *c, size_t n);

#endif
