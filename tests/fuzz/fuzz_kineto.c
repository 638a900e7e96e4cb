/* Kineto traces: the lexer, the reader, and a run made of what was read. */
#include "profiler/import/kineto.h"

#include "tests/fuzz/fuzz_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_events e;
    enum lk_status st = lk_kineto_read(fuzz_file(data, size), NULL, &e);

    fuzz_events(st, &e, size % 2);
    return 0;
}
