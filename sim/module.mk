# Same input, same bytes out: no fused multiply-add where the compiler happens to find one.
sim_CFLAGS := -ffp-contract=off
