/* The lines of Python; see the header. */
#include "commands/profile_snippet.h"

enum { WARMUP_STEPS = 2 }; /* recorded and thrown away: the recorder's first moments are slow */

void profile_snippet_print(int64_t steps, int64_t after, const char *folder, FILE *out)
{
    fprintf(out,
            "# before the training loop\n"
            "import os, torch, torch.distributed as dist\n"
            "os.makedirs(\"%s\", exist_ok=True)\n"
            "profiler = torch.profiler.profile(record_shapes=True,\n"
            "    schedule=torch.profiler.schedule(wait=%lld, warmup=%d, active=%lld, repeat=1),\n"
            "    on_trace_ready=lambda p: p.export_chrome_trace(\n"
            "        \"%s/rank%%d.json\" %% (dist.get_rank() if dist.is_initialized() else 0)))\n"
            "profiler.start()\n"
            "# at the end of each step; after the loop: profiler.stop()\n"
            "profiler.step()\n",
            folder, (long long)(after > WARMUP_STEPS ? after - WARMUP_STEPS : 0), WARMUP_STEPS,
            (long long)steps, folder);
}
