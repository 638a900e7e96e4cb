/*
 * Measured collectives are held against a preset or cluster file, and public tables. The
 * verdicts are sim/judged.h's, the suspects sim/suspects.h's; here they become sentences.
 */
#ifndef LK_COMMANDS_EXPECTED_H
#define LK_COMMANDS_EXPECTED_H

#include "base/page.h"
#include "facts/cluster.h"
#include "sim/judged.h"

struct expected {
    struct lk_cluster machine; /* owned */
    struct lk_public_tables tables;
    struct lk_expectation e;
    struct lk_verdicts v;
    char *missing; /* why nothing is expected, and what would change that; NULL: something is */
};

/*
 * Judge the points of a cluster. base: the preset or file that says what the machine should reach.
 * NULL: the cluster's own datasheet numbers if it has any, else the one preset of its device; where
 * none is found, or several are, out->missing says so. The points must outlive *out.
 */
enum lk_status expected_judge(const struct lk_cluster *c, const char *base, struct expected *out);
void expected_fini(struct expected *x); /* safe on a zeroed one */

/* Write "all_reduce on 16 GPUs of 2 nodes, 64 MiB: 5.4 GB/s, expected 120 (104 to 131): 4 %". */
void expected_sentence(const struct lk_judged_set *s, const struct lk_judged_band *band, char *buf,
                       size_t size);
/* Say the verdict: the slow bands, at most `most`, each slow set's first suspect, or that all are
 * as expected; prefix ("A: ") stands before each sentence. Return the number of slow bands in
 * *slow. */
enum lk_status expected_say(const struct expected *x, const char *prefix, int most,
                            struct lk_page *page, size_t *slow);

#endif
