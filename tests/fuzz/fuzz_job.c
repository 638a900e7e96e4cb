/* job.json: any bytes are read or refused. */
#include "base/job.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_job job;

    if (lk_job_read(fuzz_file(data, size), &job) == LK_OK)
        lk_job_fini(&job);
    return 0;
}
