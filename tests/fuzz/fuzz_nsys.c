/* Data bases of Nsight Systems: the reader, on whatever SQLite makes of the file, and a run. */
#include "profiler/import/nsys.h"
#include "tests/fuzz/fuzz_events.h"

/* SQLite follows links, and a file without a folder cannot be opened: write one that has a name. */
static const char *named_file(const uint8_t *data, size_t size)
{
    FILE *f = fopen(fuzz_output(), "wb");

    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
    return fuzz_output();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_events e;

    if (lk_nsys_read(named_file(data, size), NULL, &e) == LK_OK)
        fuzz_events(&e, size % 2);
    lk_events_fini(&e);
    return 0;
}
