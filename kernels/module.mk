# -fopenmp-simd: only the pragma `omp simd`, which says loop by loop where a sum may be reordered; no
# OpenMP runtime. -ffp-contract=fast: a multiply and an add become one instruction (ISO C mode turns
# that off). Both leave NaN and infinity as they are, and the same build gives the same bits.
kernels_CFLAGS := -fopenmp-simd -ffp-contract=fast
# gcc halves the vectors of AVX-512 unless told not to; where the compiler does not know the option,
# there is none of that.
kernels_CFLAGS += $(shell echo | $(CC) -mprefer-vector-width=512 -x c -E - > /dev/null 2>&1 && \
                          echo -mprefer-vector-width=512)
