/* Which run next: the page of `plan --narrow`, a ranked list of measurements with what each
 * promises, takes, and is asked for with. */
#ifndef LK_COMMANDS_PLAN_NEXT_H
#define LK_COMMANDS_PLAN_NEXT_H

#include "base/page.h"
#include "base/status.h"

#include <stdint.h>

struct evidence_inputs;
struct forecast_question;

struct plan_next_options {
    int64_t narrow;    /* GPUs of the forecast that is to be narrowed; 0: not asked for */
    int64_t available; /* most GPUs of a measurement; 0: half of those */
    double run_s;      /* that a measurement takes */
};

/* Rank the measurements that the opened source can take, and fill the page. The forecast as it is
 * is kept. */
enum lk_status plan_next(const struct plan_next_options *o, const struct forecast_question *q,
                         const struct evidence_inputs *in, struct lk_page *page);

#endif
