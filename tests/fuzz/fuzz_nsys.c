/* Data bases of Nsight Systems: the reader, on whatever SQLite makes of the file, and a run. */
#include "profiler/import/nsys.h"

#include "tests/fuzz/fuzz_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_events e;
    enum lk_status st = lk_nsys_read(fuzz_file(data, size), NULL, &e);

    fuzz_events(st, &e, size % 2);
    return 0;
}
