/* Messages of a process to libkineto's daemon, and its environment. */
#include "profiler/daemon/process.h"
#include "profiler/daemon/protocol.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lk_process_rank rank = lk_process_rank_in((const char *)data, size);
    struct lk_kineto_message m = {0};
    char *answer = NULL;
    size_t n = 0;

    if ((rank.rank < 0) != (rank.world_size < 0) || rank.rank > rank.world_size)
        abort();
    if (lk_kineto_parse(data, size, &m) != LK_OK)
        return 0;
    if (m.pid < 1 || size > LK_KINETO_MESSAGE_BYTES ||
        lk_kineto_answer(m.type, m.pid, "x", &answer, &n) != LK_OK || n <= LK_KINETO_HEADER_BYTES)
        abort();
    free(answer);
    return 0;
}
