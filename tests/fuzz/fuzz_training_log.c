/* Logs of training programs. */
#include "profiler/import/training_log.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    struct lk_training_log l = {0};

    if (lk_training_log_read(path, &l) == LK_OK && (!l.n || !l.format || !(l.rates[0] > 0)))
        abort();
    lk_training_log_fini(&l);
    return 0;
}
