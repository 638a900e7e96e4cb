/* Chakra execution traces, protobuf and JSON: the readers, the replay of the graph, and a run made
 * of what was read. */
#include "profiler/import/chakra.h"
#include "tests/fuzz/fuzz_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    bool json = size > 0 && data[0] == '{';
    struct lk_events e;

    (void)lk_chakra_is(data, size);
    if ((json ? lk_chakra_json_read : lk_chakra_read)(path, NULL, &e) == LK_OK)
        fuzz_events(&e, size % 2);
    lk_events_fini(&e);
    return 0;
}
