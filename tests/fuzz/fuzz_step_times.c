/* Tables of ranks' times in steps, and who is slowest in them. */
#include "profiler/analysis/step_turns.h"
#include "profiler/import/step_times.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    struct lk_step_times t = {0};
    struct lk_turns u = {0};

    if (lk_step_times_read(path, &t) == LK_OK) {
        if (t.n_ranks < 2 || !t.n_steps)
            abort();
        if (lk_turns_of(&t, &u) == LK_OK &&
            !(u.without_s <= u.step_s && u.mean_s <= u.step_s * (1 + 1e-9)))
            abort();
    }
    lk_turns_fini(&u);
    lk_step_times_fini(&t);
    return 0;
}
