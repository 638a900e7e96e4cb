#include "facts/hops.h"

const struct lk_words lk_hop_value_words = LK_WORDS("a value of a hop", LK_HOP_VALUE_LIST);
