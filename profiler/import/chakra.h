/*
 * Read a Chakra execution trace: the sequence of protobuf messages, plain or gzipped, or its JSON
 * form, {"workload_graph": [{"Id", "Name", "NodeType", "runtime", "data_deps", "is_cpu_op"}]}.
 *
 * A trace of one rank becomes events as a profiler would have recorded them:
 *
 *   nodes of the GPU    kernels on their stream; those of collectives with function and bytes
 *   nodes of the host   launches of what depends on them, and ranges where their name is one of
 *                       profiler/import/event_kind.h
 *   no nodes of a host  each kernel is launched when it starts, a collective behind the start of
 *                       what it waits for; passes are those that the nodes name
 *
 * A step is a ProfilerStep node up to the next one's start; without one the file is one step. Notes
 * of the events say how many nodes there are, where the times are from, and what is not known.
 */
#ifndef LK_PROFILER_IMPORT_CHAKRA_H
#define LK_PROFILER_IMPORT_CHAKRA_H

#include "profiler/import/event.h"

#include <stdbool.h>
#include <stddef.h>

/* Read a file as lk_kineto_read does. It fails with LK_EPARSE for a file without nodes, and as
 * lk_et_run does. The rank is that of the file, else that of its name, PREFIX.RANK.et. */
enum lk_status lk_chakra_read(const char *path, const char *step_range, struct lk_events *out);
enum lk_status lk_chakra_json_read(const char *path, const char *step_range, struct lk_events *out);
/* Return true if bytes are the start of such a file: its first messages are those of the schema. */
bool lk_chakra_is(const unsigned char *bytes, size_t n);

#endif
