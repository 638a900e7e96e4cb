/* Files of the preload library, and runs made of them. */
#include "profiler/import/preload.h"
#include "tests/fuzz/fuzz_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_events e;

    if (lk_preload_read(fuzz_file(data, size), NULL, &e) == LK_OK) {
        for (size_t i = 0; i < e.n_events; i++)
            if (e.events[i].end_ns < e.events[i].start_ns)
                abort();
        fuzz_events(&e, false);
    }
    lk_events_fini(&e);
    return 0;
}
