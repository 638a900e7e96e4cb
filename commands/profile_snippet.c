/* The lines of Python; see the header. Their names shadow none that a training loop is likely to
 * have: an import within a function makes its name local to the whole function. */
#include "commands/profile_snippet.h"

enum { WARMUP_STEPS = 2 }; /* recorded and thrown away: the recorder's first moments are slow */

void profile_snippet_print(int64_t steps, int64_t after, const char *folder, FILE *out)
{
    fprintf(
        out,
        "# before the training loop\n"
        "from os import makedirs\n"
        "from torch import distributed as world, profiler as tracing\n"
        "makedirs(\"%s\", exist_ok=True)\n"
        "recorder = tracing.profile(record_shapes=True,\n"
        "    schedule=tracing.schedule(wait=%lld, warmup=%d, active=%lld, repeat=1),\n"
        "    on_trace_ready=lambda p: p.export_chrome_trace(\"%s/rank%%d.json\" %%\n"
        "        (world.get_rank() if world.is_available() and world.is_initialized() else 0)))\n"
        "recorder.start()\n"
        "# at the end of each step; after the loop: recorder.stop()\n"
        "recorder.step()\n",
        folder, (long long)(after > WARMUP_STEPS ? after - WARMUP_STEPS : 0), WARMUP_STEPS,
        (long long)steps, folder);
}
