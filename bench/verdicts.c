/*
 * Print how the verdicts on collectives score on public nccl-tests tables, nested by source:
 *
 *     build/bench/verdicts nccl_tables.csv [CLUSTERS_DIR]
 *
 * Of sound tables as few as possible are flagged, of those with a fault as many as possible
 * (bench/lib/planted.h).
 */
#include "bench/lib/planted.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct planted_score score[PLANTED_COUNT], bad = {0};

    if (argc < 2) {
        fprintf(stderr, "usage: %s nccl_tables.csv [CLUSTERS_DIR]\n", argv[0]);
        return 2;
    }
    if (planted_score_all(argv[1], argc > 2 ? argv[2] : NULL, score) != LK_OK) {
        fprintf(stderr, "%s\n", lk_error_text());
        return 1;
    }
    printf(
        "| tables | n | flagged | of known cause | first suspect right |\n|---|---|---|---|---|\n");
    for (int i = 0; i < PLANTED_COUNT; i++) {
        const struct planted_score *s = &score[i];

        printf("| %s | %zu | %zu | %zu | %zu |\n", planted_names[i], s->n, s->flagged, s->stated,
               s->right);
        if (i == PLANTED_NONE)
            continue;
        bad.n += s->n;
        bad.flagged += s->flagged;
        bad.stated += s->stated;
        bad.right += s->right;
    }
    printf("| all with a fault | %zu | %zu | %zu | %zu |\n", bad.n, bad.flagged, bad.stated,
           bad.right);
    return 0;
}
