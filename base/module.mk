# The same bits everywhere: no fused multiply-add where the compiler happens to find one.
base_CFLAGS := -ffp-contract=off
