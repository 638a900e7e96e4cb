/* DDP as an exchange (runtime/train/exchange.h): the reducer (runtime/train/reducer.h), and whole
 * parameters on every rank. */
#ifndef LK_RUNTIME_DDP_H
#define LK_RUNTIME_DDP_H

#include "base/status.h"

struct lk_exchange;
struct lk_model;
struct lk_reducer_config;
/* Create the reducer of the model's parameters. Collective. */
enum lk_status lk_ddp_create(const struct lk_reducer_config *config, struct lk_model *m,
                             struct lk_exchange **out);

#endif
