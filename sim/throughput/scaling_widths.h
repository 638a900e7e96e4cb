/* `make accuracy` writes these scores of 90 % intervals on published series. */
/* clang-format off */
#ifndef LK_SIM_THROUGHPUT_SCALING_WIDTHS_H
#define LK_SIM_THROUGHPUT_SCALING_WIDTHS_H

/* A kind that fewer sources have is not judged. */
enum { LK_SCALING_SOURCES_LEAST = 10 };

/* X(strong, doublings, tests, sources, score of the law's own widths, score of constant
 * ones chosen on other sources, half width that is used, of ln; 0: the law's own) */
#define LK_SCALING_WIDTH_LIST(X) \
    X(0, 1, 607, 38, 0.4386, 0.5938, 0) \
    X(0, 2, 439, 40, 0.6439, 0.8086, 0) \
    X(0, 3, 269, 40, 0.9307, 1.1490, 0) \
    X(0, 4, 28, 15, 0.7424, 0.8906, 0) \
    X(0, 5, 29, 8, 1.1093, 1.6861, 0) \
    X(1, 1, 56, 9, 0.4472, 0.6205, 0) \
    X(1, 2, 41, 8, 0.4736, 0.5970, 0) \
    X(1, 3, 34, 8, 0.5986, 0.6715, 0) \
    X(1, 4, 16, 4, 0.7862, 0.2791, 0)

#endif
