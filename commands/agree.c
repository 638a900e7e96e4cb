/* Compare the options of all ranks; see the header. */
#include "commands/agree.h"

#include "base/checksum.h"
#include "runtime/rendezvous/agree.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

/* Add the contents of a file that the rank reads. */
static enum lk_status add_file(struct lk_facts *f, const char *name, const char *path, bool apart)
{
    uint64_t sum = 0, bytes = 0;

    if (!*path || !apart)
        return lk_facts_add(f, name, "%s", path);
    LK_PASS(lk_fail_context(lk_checksum_file(path, &sum, &bytes), "%s", name));
    return lk_facts_add(f, name, "%" PRIu64 " bytes with checksum %016" PRIx64, bytes, sum);
}

enum lk_status agree_on_options(const struct lk_command *c, const void *options, const char *input,
                                bool apart, const struct lk_rank_env *env, struct lk_store *store)
{
    struct lk_facts f = {0};
    char name[80], value[PATH_MAX];
    enum lk_status st = LK_OK;

    if (env->world_size == 1)
        return LK_OK;
    LK_TRY(lk_facts_add(&f, "lockstep's version", "%s", LK_VERSION));
    LK_TRY(lk_facts_add(&f, "the command", "%s", c->name));
    if (input)
        LK_TRY(add_file(&f, "the file of the operand", input, apart));
    for (const struct lk_option *row = c->options; row->name; row++) {
        if (row->may_differ || row->role == LK_ROLE_OUTPUT || row->role == LK_ROLE_FOLDER)
            continue;
        snprintf(name, sizeof name, "--%s", row->name);
        lk_option_value(row, options, value, sizeof value);
        if (row->role == LK_ROLE_INPUT)
            LK_TRY(add_file(&f, name, value, apart));
        else
            LK_TRY(lk_facts_add(&f, name, "%s", value));
    }
    LK_TRY(lk_facts_agree(&f, store, env->rank, env->world_size, "the options"));
out:
    lk_facts_fini(&f);
    return st;
}
