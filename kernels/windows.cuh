/*
 * Private to kernels/NAME.cu: where the windows of convolutions and poolings lie. Sizes and indices
 * of pixels have 32 bits, which a GPU divides several times as fast as 64; addresses are size_t.
 */
#ifndef LK_KERNELS_WINDOWS_CUH
#define LK_KERNELS_WINDOWS_CUH

#include "kernels/ptx.cuh"

extern "C" {
#include "kernels/ops_image.h"
}

struct windows {
    unsigned height, width, channels; /* of the input; it has channels last */
    unsigned out_height, out_width;
    unsigned kernel, stride, padding;

    /* Return the element of pixel (y, x) of an image of the input, or of an output pixel. */
    __device__ size_t in_at(size_t sample, unsigned y, unsigned x) const
    {
        return ((sample * height + y) * width + x) * channels;
    }

    __device__ size_t out_at(size_t sample, unsigned y, unsigned x) const
    {
        return ((sample * out_height + y) * out_width + x) * channels;
    }

    /*
     * Call f(row of the window, column of it, y, x of its output pixel) for every window that has
     * the pixel (y, x) of the padded image; windows further down and to the right come first.
     */
    template <class F> __device__ void over(unsigned y, unsigned x, F f) const
    {
        for (unsigned ky = y % stride; ky < kernel && ky <= y; ky += stride)
            for (unsigned kx = x % stride; kx < kernel && kx <= x; kx += stride)
                if ((y - ky) / stride < out_height && (x - kx) / stride < out_width)
                    f(ky, kx, (y - ky) / stride, (x - kx) / stride);
    }
};

/* Fill in the windows of a shape. LK_EUNSUPPORTED: its pixels do not fit 32 bits. */
inline enum lk_status windows_of(const struct lk_conv_shape &s, const char *name,
                                 struct windows *out)
{
    size_t height = lk_conv_out(s.height, s.kernel, s.stride, s.padding);
    size_t width = lk_conv_out(s.width, s.kernel, s.stride, s.padding);

    if (s.samples * height * width > INT32_MAX || s.samples * s.height * s.width > INT32_MAX ||
        s.kernel * s.kernel * s.inputs > INT32_MAX)
        return lk_fail(LK_EUNSUPPORTED, "%s: %zu images of %zu x %zu pixels, a window of %zu", name,
                       s.samples, s.height, s.width, s.kernel);
    *out = {(unsigned)s.height, (unsigned)s.width,  (unsigned)s.inputs, (unsigned)height,
            (unsigned)width,    (unsigned)s.kernel, (unsigned)s.stride, (unsigned)s.padding};
    return LK_OK;
}

#endif
