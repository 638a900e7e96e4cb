/* Dumps of Flight Recorder, as pickles and as JSON, and the comparison of two ranks' sequences. */
#include "profiler/import/flight_recorder.h"
#include "profiler/import/sequences.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    bool pickle = size > 0 && data[0] == 0x80;
    struct lk_sequences s = {0};
    struct lk_table *t = NULL;
    struct lk_events e;

    if ((pickle ? lk_flight_pickle_read : lk_flight_json_read)(path, NULL, &e) == LK_OK) {
        lk_events_sort(&e);
        fuzz_must(lk_sequences_add(&s, 0, &e));
        /* The other rank lacks the last collective and has another size in between. */
        if (e.n_events) {
            e.n_events--;
            e.details[e.n_details / 2].elements++;
        }
        fuzz_must(lk_sequences_add(&s, 1, &e));
        fuzz_must(lk_sequences_table(&s, &t));
        if (t && !s.n_items)
            abort();
    }
    lk_table_destroy(t);
    lk_sequences_fini(&s);
    lk_events_fini(&e);
    return 0;
}
