/* Where more nodes stop paying. */
#include "sim/knee.h"

static enum lk_status throughput(struct lk_predictor *p, struct lk_config c, int gpus_per_node,
                                 int nodes, double *out)
{
    enum lk_status st = LK_OK;
    double step_s;

    c.nodes = nodes;
    c.gpus = nodes * gpus_per_node;
    LK_TRY(lk_predictor_estimate(p, &c, &step_s));
    *out = (double)c.gpus * c.local_batch * c.accumulation / step_s;
out:
    return st;
}

enum lk_status lk_knee_find(struct lk_predictor *p, const struct lk_config *like, int gpus_per_node,
                            int most, int *out_nodes)
{
    enum lk_status st = LK_OK;
    double first, last;
    int at = 1;

    LK_TRY(throughput(p, *like, gpus_per_node, 1, &first));
    last = first;
    while (at < most) {
        int next = at + (at / 4 > 1 ? at / 4 : 1);
        double now;

        if (next > most)
            next = most;
        LK_TRY(throughput(p, *like, gpus_per_node, next, &now));
        if ((now - last) / (next - at) < first / 2)
            break;
        last = now;
        at = next;
    }
    *out_nodes = at;
out:
    return st;
}
