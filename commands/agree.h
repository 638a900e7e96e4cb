/* Ranks of a run must be given the same options: what a row of the command's table does not allow
 * to differ is compared before anything is trained or measured. */
#ifndef LK_COMMANDS_AGREE_H
#define LK_COMMANDS_AGREE_H

#include "base/status.h"
#include "commands/command.h"
#include "runtime/rendezvous/rank_env.h"
#include "runtime/rendezvous/store.h"

/*
 * Compare this rank's options with those of all others, each of which makes this call. Paths of
 * files that are written may differ. Of a file
 * that is read, its contents are compared, not its path; the file of an operand is `input` (NULL:
 * none). The verdict names the option that differs, its values, the ranks and hosts. apart: the
 * ranks may have been started apart; else they have the same files, which are not read for this.
 */
enum lk_status agree_on_options(const struct lk_command *c, const void *options, const char *input,
                                bool apart, const struct lk_rank_env *env, struct lk_store *store);

/*
 * Claim the folder of a run whose ranks another launcher started: rank 0 makes it, new or empty,
 * and all others, each of which makes this call, must see a file that it leaves there meanwhile.
 * The verdict names the rank and host that do not.
 */
enum lk_status agree_on_folder(const char *folder, const struct lk_rank_env *env,
                               struct lk_store *store);

/* These are the parts of agree_on_folder for a launcher that has made the folder: it leaves a mark
 * there and takes it away again; its ranks must see it within 5 s. */
enum { FOLDER_MARK_BYTES = 33 };
enum lk_status folder_mark(const char *folder, char text[FOLDER_MARK_BYTES]);
enum lk_status folder_unmark(const char *folder);
/* LK_EUSAGE says whose folder (such as "the launcher's") the rank on this host does not see. */
enum lk_status folder_see(const char *folder, const char *mark, int rank, const char *whose);

#endif
