/* Data bases of Nsight Systems: the reader, on whatever SQLite makes of the file, and a run. */
#include "profiler/import/nsys.h"
#include "tests/fuzz/fuzz_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_events e;

    if (lk_nsys_read(fuzz_file(data, size), NULL, &e) == LK_OK)
        fuzz_events(&e, size % 2);
    lk_events_fini(&e);
    return 0;
}
