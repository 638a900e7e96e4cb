/* Compare the options of all ranks; see the header. */
#include "commands/agree.h"

#include "base/array.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/file.h"
#include "commands/paths.h"
#include "runtime/rendezvous/agree.h"
#include "runtime/rendezvous/ticket.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file that rank 0 leaves in the run's folder until all have seen it. */
static const char CLAIM[] = ".lockstep-claim";

enum {
    SEEN_MS = 5000, /* for a network's file system to show the file */
    LOOK_MS = 50,   /* between two looks */
};

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

/* ---- The folder ---- */

enum lk_status folder_mark(const char *folder, char text[FOLDER_MARK_BYTES])
{
    unsigned char nonce[LK_NONCE_BYTES];
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_path_join(&path, folder, CLAIM));
    LK_TRY(lk_nonce(nonce));
    for (size_t i = 0; i < sizeof nonce; i++)
        snprintf(text + 2 * i, 3, "%02x", nonce[i]);
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(lk_writer_printf(w, "%s", text));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    free(path);
    return st;
}

enum lk_status folder_unmark(const char *folder)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_path_join(&path, folder, CLAIM));
    if (unlink(path))
        st = lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
out:
    free(path);
    return st;
}

enum lk_status folder_see(const char *folder, const char *mark, int rank, const char *whose)
{
    struct lk_deadline deadline = lk_deadline_in(SEEN_MS * LK_NS_PER_MS);
    enum lk_status st = LK_OK;
    char *path = NULL, *text = NULL, host[256] = "";
    size_t size = 0;
    bool same = false;

    LK_TRY(lk_path_join(&path, folder, CLAIM));
    while (!same && lk_deadline_left_ns(deadline)) {
        if (lk_file_read(path, &text, &size) == LK_OK)
            same = size == strlen(mark) && !memcmp(text, mark, size);
        free(text);
        text = NULL;
        if (!same)
            lk_sleep_until_ns(lk_monotonic_ns() + LOOK_MS * LK_NS_PER_MS);
    }
    if (!same && gethostname(host, sizeof host - 1))
        snprintf(host, sizeof host, "unknown");
    if (!same)
        st = lk_fail(LK_EUSAGE, "--out: rank %d on host %s does not see %s folder as %s", rank,
                     host, whose, folder);
out:
    free(path);
    return st;
}

/* Make the folder and mark it; the store has the mark, too. */
static enum lk_status claim(const char *folder, struct lk_store *store)
{
    char mark[FOLDER_MARK_BYTES];

    LK_PASS(claim_folder(folder, false));
    LK_PASS(lk_mkdirs(folder));
    LK_PASS(folder_mark(folder, mark));
    return lk_store_set(store, CLAIM, mark, strlen(mark));
}

/* Wait until rank 0's mark is to be seen. */
static enum lk_status see(const char *folder, int rank, struct lk_store *store)
{
    char mark[FOLDER_MARK_BYTES] = "";
    void *value = NULL;
    size_t n = 0;

    LK_PASS(lk_store_get(store, CLAIM, &value, &n));
    memcpy(mark, value, n < sizeof mark ? n : sizeof mark - 1);
    free(value);
    return folder_see(folder, mark, rank, "rank 0's");
}

enum lk_status agree_on_folder(const char *folder, const struct lk_rank_env *env,
                               struct lk_store *store)
{
    enum lk_status st = LK_OK;
    bool claimed = false;

    LK_TRY(env->rank == 0 ? claim(folder, store) : see(folder, env->rank, store));
    claimed = env->rank == 0;
    LK_TRY(lk_store_barrier(store, "the run's folder"));
out:
    if (claimed)
        LK_KEEP(folder_unmark(folder));
    return st;
}
