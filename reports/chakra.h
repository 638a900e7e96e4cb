/*
 * Write Chakra execution traces, as ASTRA-sim's workload layer reads them: PREFIX.RANK.et, one a
 * rank.
 *
 * Every node has is_cpu_op = false: it occupies the rank's GPU, or its network. COMP nodes have
 * their duration, which ASTRA-sim replays; they have neither num_ops nor tensor_size, so its
 * roofline must be off. COMM_COLL nodes have comm_type and comm_size and no group: they are of all
 * ranks. The dependencies are data dependencies, which its feeders of all ages follow.
 */
#ifndef LK_REPORTS_CHAKRA_H
#define LK_REPORTS_CHAKRA_H

#include "base/status.h"
#include "facts/chakra.h"

#include <stdint.h>

/* The file's metadata says whose it is. Borrowed. */
struct lk_chakra_about {
    const char *writer; /* program and version */
    const char *model;
    int rank, world_size;
    uint32_t step;
};

/* Write one rank's file, the whole of it or nothing. LK_EIO. */
enum lk_status lk_chakra_write(const char *path, const struct lk_chakra_about *about,
                               const struct lk_chakra_graph *g);

#endif
