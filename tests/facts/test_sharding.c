/* Configurations under other shardings: what reduces, and who shares. */
#include "facts/config.h"
#include "tests/rigs/suite.h"

/* From one scheme and its reduction to another: as its library does; DDP as the job's own DDP did,
 * or, of a job that was sharded, in the last micro-batch; the same scheme stays as it is. */
static const struct {
    enum lk_sharding from;
    enum lk_reduction reduce;
    enum lk_sharding to;
    enum lk_reduction want;
} moves[] = {
    {LK_SHARDING_DDP, LK_REDUCTION_EVERY, LK_SHARDING_DDP, LK_REDUCTION_EVERY},
    {LK_SHARDING_DDP, LK_REDUCTION_LAST, LK_SHARDING_DDP, LK_REDUCTION_LAST},
    {LK_SHARDING_DDP, LK_REDUCTION_LAST, LK_SHARDING_ZERO1, LK_REDUCTION_LAST},
    {LK_SHARDING_DDP, LK_REDUCTION_LAST, LK_SHARDING_ZERO3, LK_REDUCTION_EVERY},
    {LK_SHARDING_DDP, LK_REDUCTION_EVERY, LK_SHARDING_LOCAL_SGD, LK_REDUCTION_EVERY},
    {LK_SHARDING_ZERO3, LK_REDUCTION_EVERY, LK_SHARDING_DDP, LK_REDUCTION_LAST},
    {LK_SHARDING_HSDP, LK_REDUCTION_SCATTER, LK_SHARDING_DDP, LK_REDUCTION_LAST},
    {LK_SHARDING_ZERO3, LK_REDUCTION_LAST, LK_SHARDING_ZERO3, LK_REDUCTION_LAST},
    {LK_SHARDING_HSDP, LK_REDUCTION_SCATTER, LK_SHARDING_HSDP, LK_REDUCTION_SCATTER},
    {LK_SHARDING_ZERO3, LK_REDUCTION_LAST, LK_SHARDING_ZERO2, LK_REDUCTION_EVERY},
};

START_TEST(a_scheme_reduces_as_its_library_does)
{
    struct lk_config c = {.sharding = moves[_i].from, .reduce = moves[_i].reduce};

    lk_config_shard(&c, moves[_i].to, c.reduce);
    ck_assert_int_eq(c.sharding, moves[_i].to);
    ck_assert_int_eq(c.reduce, moves[_i].want);
}
END_TEST

START_TEST(one_rank_shares_with_none)
{
    struct lk_config c = {.nodes = 1, .sharding = LK_SHARDING_HSDP, .shard_group = 2};

    c.world_size = 4;
    ck_assert_double_eq(lk_config_sharers(&c), 2);
    c.world_size = 1;
    ck_assert_double_eq(lk_config_sharers(&c), 1);
    c.sharding = LK_SHARDING_ZERO1;
    c.world_size = 4;
    ck_assert_double_eq(lk_config_sharers(&c), 4);
    c.sharding = LK_SHARDING_DDP;
    ck_assert_double_eq(lk_config_sharers(&c), 1);
}
END_TEST

SUITE(sharding, t)
{
    tcase_add_loop_test(t, a_scheme_reduces_as_its_library_does, 0,
                        (int)(sizeof moves / sizeof *moves));
    tcase_add_test(t, one_rank_shares_with_none);
}
