# The same bits everywhere: no fused multiply-add where the compiler happens to find one.
facts_CFLAGS := -ffp-contract=off
