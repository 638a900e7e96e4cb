/* Reductions in 16 lanes; see the header. The inner loops are one vector operation each. */
#include "kernels/impl.h"

float lk_lanes_total(const float lanes[LK_LANES])
{
    float eight[8], four[4];

    for (size_t l = 0; l < 8; l++)
        eight[l] = lanes[l] + lanes[l + 8];
    for (size_t l = 0; l < 4; l++)
        four[l] = eight[l] + eight[l + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

float lk_lanes_sum(const float *x, size_t n)
{
    float lanes[LK_LANES] = {0};
    size_t i = 0;

    for (; i + LK_LANES <= n; i += LK_LANES)
#pragma omp simd
        for (size_t l = 0; l < LK_LANES; l++)
            lanes[l] += x[i + l];
    for (; i < n; i++)
        lanes[i % LK_LANES] += x[i];
    return lk_lanes_total(lanes);
}

float lk_lanes_dot(const float *x, const float *y, size_t n)
{
    float lanes[LK_LANES] = {0};
    size_t i = 0;

    for (; i + LK_LANES <= n; i += LK_LANES)
#pragma omp simd
        for (size_t l = 0; l < LK_LANES; l++)
            lanes[l] += x[i + l] * y[i + l];
    for (; i < n; i++)
        lanes[i % LK_LANES] += x[i] * y[i];
    return lk_lanes_total(lanes);
}

float lk_lanes_max(const float *x, size_t n)
{
    float lanes[LK_LANES], max;
    size_t i = 0;

    for (size_t l = 0; l < LK_LANES; l++)
        lanes[l] = x[0];
    for (; i + LK_LANES <= n; i += LK_LANES)
#pragma omp simd
        for (size_t l = 0; l < LK_LANES; l++)
            lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (; i < n; i++)
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    for (size_t l = 0; l < 8; l++)
        lanes[l] = lanes[l + 8] > lanes[l] ? lanes[l + 8] : lanes[l];
    max = lanes[0];
    for (size_t l = 1; l < 8; l++)
        max = lanes[l] > max ? lanes[l] : max;
    return max;
}
