/* The lines of Python that record a job where nothing can be recorded without a change. */
#ifndef LK_COMMANDS_PROFILE_SNIPPET_H
#define LK_COMMANDS_PROFILE_SNIPPET_H

#include <stdint.h>
#include <stdio.h>

/* Print them: torch.profiler records `steps` steps after the first `after`, and writes them into
 * `folder`, which they make, as a file a rank that `lockstep import` reads. */
void profile_snippet_print(int64_t steps, int64_t after, const char *folder, FILE *out);

#endif
