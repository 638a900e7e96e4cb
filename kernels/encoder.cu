/* Embeddings, forward and backward, and conversion of bytes to numbers. */
#include "kernels/map.cuh"

namespace
{

enum { THREADS = 256 };

/* Per element two reads and one write. A row's packs go to consecutive threads. */
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(T *out, const int32_t *tokens, const T *wte, const T *wpe, size_t rows,
                   size_t context, size_t channels)
{
    size_t packs = channels / N, stride = (size_t)gridDim.x * blockDim.x;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * packs; i += stride) {
        size_t row = i / packs, c = i % packs * N;
        pack<T, N> word = load<N>(wte + (size_t)tokens[row] * channels + c);
        pack<T, N> place = load<N>(wpe + row % context * channels + c);

#pragma unroll
        for (int k = 0; k < N; k++)
            word.x[k] = from_float<T>(to_float(word.x[k]) + to_float(place.x[k]));
        store<N>(out + row * channels + c, word);
    }
}

template <class T>
enum lk_status encoder_forward(const struct lk_encoder_forward_args &a, const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    T *out = static_cast<T *>(a.out);
    const T *wte = static_cast<const T *>(a.wte), *wpe = static_cast<const T *>(a.wpe);
    size_t rows = a.samples * a.context;
    bool wide = a.channels % N == 0 && fits<N>(out, wte, wpe);

    return lk_launch(c, "encoder_forward",
                     dim3(blocks_for(rows * a.channels, (size_t)THREADS * (wide ? N : 1))), THREADS,
                     0, wide ? forward_kernel<N, T> : forward_kernel<1, T>, out, a.tokens, wte, wpe,
                     rows, a.context, a.channels);
}

/* Each thread adds one pack of a position over the samples, in their order. */
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    position_kernel(T *dwpe, const T *dout, size_t samples, size_t context, size_t channels,
                    size_t wpe_rows, bool accumulate)
{
    size_t packs = channels / N, stride = (size_t)gridDim.x * blockDim.x;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < wpe_rows * packs;
         i += stride) {
        size_t t = i / packs, c = i % packs * N;
        T *to = dwpe + t * channels + c;
        pack<T, N> sum;
        float total[N] = {};

        if (accumulate) {
            sum = load<N>(to);
#pragma unroll
            for (int k = 0; k < N; k++)
                total[k] = to_float(sum.x[k]);
        }
        for (size_t s = 0; s < samples && t < context; s++) {
            pack<T, N> from = load<N>(dout + (s * context + t) * channels + c);

#pragma unroll
            for (int k = 0; k < N; k++)
                total[k] += to_float(from.x[k]);
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.x[k] = from_float<T>(total[k]);
        store<N>(to, sum);
    }
}

template <class T>
enum lk_status encoder_backward_position(const struct lk_encoder_backward_position_args &a,
                                         const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    T *dwpe = static_cast<T *>(a.dwpe);
    const T *dout = static_cast<const T *>(a.dout);
    size_t n = a.wpe_rows * a.channels;
    bool wide = a.channels % N == 0 && fits<N>(dwpe, dout);

    return lk_launch(c, "encoder_backward_position",
                     dim3(blocks_for(n, (size_t)THREADS * (wide ? N : 1))), THREADS, 0,
                     wide ? position_kernel<N, T> : position_kernel<1, T>, dwpe, dout, a.samples,
                     a.context, a.channels, a.wpe_rows, a.accumulate);
}

/*
 * The token embedding's gradient sums, for each word of the vocabulary, over the positions of that
 * word. Words repeat, and adding by atomics would give different bits every time. So the positions
 * are first sorted by word, stably, and then a warp adds one word's rows in that order.
 *
 * The counting sort needs no exchange of counts between blocks: a block owns RANGE words, reads all
 * tokens (64 KiB for 16 x 1024 of them, from the second-level cache), and counts its own words and
 * the tokens below its first word, which is where its positions begin.
 */
enum { RANGE = THREADS, EACH = 4, TILE = RANGE * EACH };

/* Return the sum of x over the threads before this one; *total is the sum over all. shared holds
 * 32. */
__device__ unsigned exclusive_sum(unsigned x, unsigned *total, unsigned *shared)
{
    unsigned lane = threadIdx.x % LK_WARP, warp = threadIdx.x / LK_WARP;
    unsigned sum = x, before = 0, all = 0;

    for (int d = 1; d < LK_WARP; d *= 2) {
        unsigned other = __shfl_up_sync((unsigned)LK_ALL_LANES, sum, (unsigned)d);

        if (lane >= (unsigned)d)
            sum += other;
    }
    if (lane == LK_WARP - 1)
        shared[warp] = sum;
    __syncthreads();
    for (unsigned w = 0; w < blockDim.x / LK_WARP; w++) {
        if (w < warp)
            before += shared[w];
        all += shared[w];
    }
    __syncthreads();
    *total = all;
    return before + sum - x;
}

/* Sort the n positions by word, then by position, into `positions`; those of word v begin at
 * first[v]. */
__global__ void __launch_bounds__(THREADS)
    sort_kernel(unsigned *first, unsigned *positions, const int32_t *tokens, size_t n, size_t vocab)
{
    LK_SHARED(unsigned, counts, RANGE);
    LK_SHARED(unsigned, shared, LK_WARP);
    LK_SHARED(unsigned, word, TILE);
    LK_SHARED(unsigned, place, TILE);
    size_t base = (size_t)blockIdx.x * RANGE;
    unsigned below = 0, found, cursor;

    counts[threadIdx.x] = 0;
    __syncthreads();
    for (size_t i = threadIdx.x; i < n; i += RANGE) {
        size_t token = (size_t)tokens[i];

        if (token < base)
            below++;
        else if (token - base < RANGE)
            atomicAdd(&counts[token - base], 1U);
    }
    __syncthreads();
    below = block_reduce(below, add{}, 0U, shared);
    cursor = below + exclusive_sum(counts[threadIdx.x], &found, shared);
    if (base + threadIdx.x < vocab)
        first[base + threadIdx.x] = cursor;
    if (base + threadIdx.x + 1 == vocab)
        first[vocab] = (unsigned)n;
    for (size_t tile = 0; tile < n; tile += TILE) {
        size_t i = tile + (size_t)threadIdx.x * EACH;
        unsigned mine = 0, at, local[EACH];

        for (int k = 0; k < EACH; k++) {
            size_t token = i + (size_t)k < n ? (size_t)tokens[i + (size_t)k] : SIZE_MAX;

            local[k] =
                token >= base && token - base < RANGE ? (unsigned)(token - base) : (unsigned)RANGE;
            mine += local[k] < RANGE;
        }
        if (!__syncthreads_or((int)mine))
            continue;
        at = exclusive_sum(mine, &found, shared);
        for (int k = 0; k < EACH; k++)
            if (local[k] < RANGE) {
                word[at] = local[k];
                place[at++] = (unsigned)(i + (size_t)k);
            }
        __syncthreads();
        for (unsigned e = 0; e < found; e++)
            if (word[e] == threadIdx.x)
                positions[cursor++] = place[e];
    }
}

/* Add rows of dout at every `step`-th of these positions, one pack of each. */
template <int N, class T>
__device__ void add_rows(float (&total)[N], const T *dout, const unsigned *positions,
                         unsigned begin, unsigned end, unsigned step, size_t channels)
{
#pragma unroll 4
    for (unsigned i = begin; i < end; i += step) {
        pack<T, N> from = load<N>(dout + (size_t)positions[i] * channels);

#pragma unroll
        for (int k = 0; k < N; k++)
            total[k] += to_float(from.x[k]);
    }
}

/* to = total, plus what is there if accumulate. */
template <int N, class T> __device__ void finish_word(T *to, float (&total)[N], bool accumulate)
{
    pack<T, N> sum = {};

    if (accumulate)
        sum = load<N>(to);
#pragma unroll
    for (int k = 0; k < N; k++)
        sum.x[k] = from_float<T>((accumulate ? to_float(sum.x[k]) : 0) + total[k]);
    store<N>(to, sum);
}

/* A word that occurs more often (the commonest of a text is every twentieth) is added by all warps
 * of its block. */
enum { OFTEN = 64, WORDS = THREADS / LK_WARP };

/* A block has 8 words and 32 packs of their channels. Each warp owns a word; words that occur often
 * come after the others, one by one: each warp adds every 8th row, and the sums are added in the
 * order of warps. */
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    token_kernel(T *dwte, const T *dout, const unsigned *first, const unsigned *positions,
                 size_t channels, size_t vocab, bool accumulate)
{
    LK_SHARED(float, parts, THREADS *N);
    unsigned warp = threadIdx.x / LK_WARP, lane = threadIdx.x % LK_WARP;
    size_t words = (size_t)blockIdx.x * WORDS, v = words + warp;
    size_t c = ((size_t)blockIdx.y * LK_WARP + lane) * N;
    unsigned begin = v < vocab ? first[v] : 0, n = v < vocab ? first[v + 1] - begin : 0;
    float total[N] = {};

    if (v < vocab && c < channels && n <= OFTEN && (n > 0 || !accumulate)) {
        add_rows<N>(total, dout + c, positions, begin, begin + n, 1, channels);
        finish_word<N>(dwte + v * channels + c, total, accumulate);
    }
    if (!__syncthreads_or(n > OFTEN))
        return;
    for (v = words; v < words + WORDS && v < vocab; v++) {
        begin = first[v];
        n = first[v + 1] - begin;
        if (n <= OFTEN)
            continue;
#pragma unroll
        for (int k = 0; k < N; k++)
            total[k] = 0;
        if (c < channels)
            add_rows<N>(total, dout + c, positions, begin + warp, begin + n, WORDS, channels);
#pragma unroll
        for (int k = 0; k < N; k++)
            parts[k * THREADS + threadIdx.x] = total[k];
        __syncthreads();
        for (unsigned w = 1; w < WORDS && warp == 0; w++)
#pragma unroll
            for (int k = 0; k < N; k++)
                total[k] += parts[k * THREADS + w * LK_WARP + lane];
        if (warp == 0 && c < channels)
            finish_word<N>(dwte + v * channels + c, total, accumulate);
        __syncthreads();
    }
}

template <int N, class T>
enum lk_status add_tokens(const struct lk_encoder_backward_token_args &a, const struct lk_cuda *c,
                          const unsigned *first, const unsigned *positions)
{
    dim3 grid(blocks_for(a.vocab, THREADS / LK_WARP, UINT32_MAX),
              blocks_for(a.channels, (size_t)N * LK_WARP));

    return lk_launch(c, "encoder_backward_token", grid, THREADS, 0, token_kernel<N, T>,
                     static_cast<T *>(a.dwte), static_cast<const T *>(a.dout), first, positions,
                     a.channels, a.vocab, a.accumulate);
}

template <class T>
enum lk_status encoder_backward_token(const struct lk_encoder_backward_token_args &a,
                                      const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    size_t n = a.samples * a.context;
    unsigned *first = static_cast<unsigned *>(c->workspace), *positions = first + a.vocab + 1;
    enum lk_status st;

    if ((a.vocab + 1 + n) * sizeof *first > LK_CUDA_WORKSPACE_BYTES)
        return lk_fail(LK_EUNSUPPORTED, "encoder_backward_token: %zu words and %zu positions",
                       a.vocab, n);
    st = lk_launch(c, "encoder_backward_token", dim3(blocks_for(a.vocab, RANGE)), THREADS, 0,
                   sort_kernel, first, positions, a.tokens, n, a.vocab);
    if (st != LK_OK)
        return st;
    if (a.channels % N == 0 && fits<N>(static_cast<T *>(a.dwte), static_cast<const T *>(a.dout)))
        return add_tokens<N, T>(a, c, first, positions);
    return add_tokens<1, T>(a, c, first, positions);
}

template <class T> struct shifted {
    float factor, shift;

    __device__ T operator()(int32_t token) const
    {
        return from_float<T>((float)token * factor + shift);
    }
};

template <class T>
enum lk_status bytes_forward(const struct lk_bytes_forward_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "bytes_forward", static_cast<T *>(a.out), a.tokens, a.n,
                  shifted<T>{(float)a.factor, (float)a.shift});
}

} // namespace

LK_CUDA_OP(encoder_forward)
LK_CUDA_OP(encoder_backward_position)
LK_CUDA_OP(encoder_backward_token)
LK_CUDA_OP(bytes_forward)
