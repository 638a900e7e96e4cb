/* Kineto traces: the lexer, the reader, and a run made of what was read, analysed. */
#include "profiler/import/kineto.h"
#include "tests/fuzz/fuzz_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_events e;

    if (lk_kineto_read(fuzz_file(data, size), NULL, &e) == LK_OK)
        fuzz_events(&e, size % 2);
    lk_events_fini(&e);
    return 0;
}
