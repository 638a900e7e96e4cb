/* `make accuracy` writes these scores of 90 % intervals on published series. */
/* clang-format off */
#ifndef LK_SIM_THROUGHPUT_SCALING_WIDTHS_H
#define LK_SIM_THROUGHPUT_SCALING_WIDTHS_H

/* A kind that fewer sources have is not judged. */
enum { LK_SCALING_SOURCES_LEAST = 10 };

/* X(strong, doublings, tests, sources, score of the law's own widths, score of constant
 * ones chosen on other sources, half width that is used, of ln; 0: the law's own) */
#define LK_SCALING_WIDTH_LIST(X) \
    X(0, 1, 607, 38, 0.4410, 0.5942, 0) \
    X(0, 2, 439, 40, 0.6451, 0.8055, 0) \
    X(0, 3, 269, 40, 0.9347, 1.1488, 0) \
    X(0, 4, 28, 15, 0.7295, 0.8907, 0) \
    X(0, 5, 29, 8, 1.1732, 1.6936, 0) \
    X(1, 1, 56, 9, 0.4516, 0.6227, 0) \
    X(1, 2, 41, 8, 0.4637, 0.6045, 0) \
    X(1, 3, 34, 8, 0.5729, 0.6765, 0) \
    X(1, 4, 16, 4, 0.7575, 0.2729, 0)

#endif
