/* For tests: files of Chakra's protobuf form, made node by node. */
#ifndef LK_TESTS_CHAKRA_FILE_H
#define LK_TESTS_CHAKRA_FILE_H

#include "base/protobuf.h"
#include "facts/chakra.h"

#include <stdint.h>

/* A node to write; what is zero is left out, as protobuf does. */
struct chakra_node {
    uint64_t id;
    const char *name;
    enum lk_chakra_type type;
    uint64_t data[8], ctrl[8]; /* ids, ended by 0 */
    uint64_t duration_us, start_us;
    bool on_host;
    int64_t stream;              /* 0: not said */
    const char *comm_size_field; /* "int64", "uint64", "sint64"; NULL: no collective */
    int64_t comm_type, comm_size;
    const char *phase;
    const char *shapes, *types; /* of inputs; NULL: none */
};

/* Append a GlobalMetadata without attributes, and nodes. */
void chakra_put_head(struct lk_pb_out *file);
void chakra_put(struct lk_pb_out *file, const struct chakra_node *node);

#endif
