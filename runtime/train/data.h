/* Training data: a sampler (PyTorch's DistributedSampler with the same index arithmetic, but our
 * own shuffling: docs/ddp.md), datasets, and a loader that prepares batches ahead. */
#ifndef LK_RUNTIME_DATA_H
#define LK_RUNTIME_DATA_H

#include "base/status.h"
#include "facts/span.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(uneven, name, help): what becomes of the samples of an epoch that do not fill the last batch of
 * all ranks. */
#define LK_UNEVEN_LIST(X)                                                                          \
    X(LK_UNEVEN_AUTO, "auto", "drop of synthetic data, which lose nothing, else error")            \
    X(LK_UNEVEN_ERROR, "error", "a run that comes to them is refused")                             \
    X(LK_UNEVEN_PAD, "pad", "the first samples again, so that ranks have equally many")            \
    X(LK_UNEVEN_DROP, "drop", "left out")                                                          \
    X(LK_UNEVEN_JOIN, "join", "ranks that ran out shadow the collectives of the others")
enum lk_uneven { LK_UNEVEN_LIST(LK_WORD_VALUE) };

/*
 * Samples are dealt in blocks, one a global micro-batch. Position p of the epoch's order belongs to
 * block p / B, B the samples of all ranks. In a block ranks take one sample each in turn, and
 * who has its batch full is passed over. With equal batches that is rank, rank + R, rank + 2 R, ...
 */
struct lk_sampler_config {
    size_t samples; /* N of the dataset; > 0 */
    int ranks, rank;
    bool shuffle;
    enum lk_uneven uneven;
    /* Borrowed, by rank: samples of a micro-batch (NULL: equally many), and the most that a rank
     * reads in an epoch (NULL: all that it is dealt). */
    const int64_t *batches, *most;
    uint64_t seed;
};
struct lk_sampler;
enum lk_status lk_sampler_create(const struct lk_sampler_config *config, struct lk_sampler **out);
void lk_sampler_destroy(struct lk_sampler *s); /* NULL is legal */
/* Reshuffle for an epoch with seed + epoch. Without it every epoch repeats. */
void lk_sampler_set_epoch(struct lk_sampler *s, uint64_t epoch);
/* Return the number of samples that a rank reads in an epoch: unless padded or joined, those of
 * whole blocks, or, with equal batches, of whole rounds. */
size_t lk_sampler_count(const struct lk_sampler *s);
size_t lk_sampler_count_of(const struct lk_sampler_config *c, int rank);
/* Return the dataset index of this rank's i-th sample. pre: i < count. */
size_t lk_sampler_index(const struct lk_sampler *s, size_t i);

/* The sampler's words, and NULL. */
extern const char *const lk_unevens[];

/* ---- Shares ---- */

/*
 * Shares: how many samples each rank has in every micro-batch of a run, and what its mean loss
 * weighs there. All ranks compute them alike from the sampler's configuration, so nobody has to be
 * asked who has run out.
 *
 * Micro-batches are numbered from the run's first; a step has `accumulation` of them. Where samples
 * of an epoch are left out (`drop`, `error`) all micro-batches are whole, and steps go on across
 * the ends of epochs. Where none is (`pad`, `join`) an epoch ends with a step of its own, which may
 * have fewer micro-batches; its numbers are as many all the same, so that step s begins at s times
 * accumulation. A rank's last batch of an epoch may be short, and behind it come empty ones.
 *
 * The gradient of a step is the sum over ranks r and micro-batches m of w(r, m) times the mean
 * gradient of r's samples in m. With n(r, m) samples, b(r) of a whole batch, A micro-batches:
 *
 *   samples    n(r, m) / sum of n        the mean over all samples of the step: one rank on the
 *                                        global batch, exactly
 *   initial    b(r) / sum of b / A       PyTorch's divide_by_initial_world_size: 1 / (ranks A)
 *   active     the same, the sum over ranks that have samples in m
 *
 * All agree where all batches are whole. `initial` and `active` are for `join`; else it is
 * `samples`.
 */
/* X(divide, name, help) */
#define LK_DIVIDE_LIST(X)                                                                          \
    X(LK_DIVIDE_INITIAL, "initial", "by all ranks, as Join does")                                  \
    X(LK_DIVIDE_ACTIVE, "active", "by those that have samples")                                    \
    X(LK_DIVIDE_SAMPLES, "samples", "by their samples, as one rank on all of them")
enum lk_divide { LK_DIVIDE_LIST(LK_WORD_VALUE) };
/* Their names, and NULL. */
extern const char *const lk_divides[];

struct lk_shares_config {
    struct lk_sampler_config sampler; /* its rank is not read */
    int local_batch;                  /* of every rank, where the sampler has no batches */
    int accumulation;
    enum lk_divide divide; /* with LK_UNEVEN_JOIN */
};

/* A rank has these samples in a micro-batch. */
struct lk_share {
    uint64_t epoch;
    size_t first; /* of its samples, in sampler order */
    int samples;  /* 0: it has run out */
};

struct lk_shares;
/* The batches are borrowed. LK_EUSAGE: an epoch has no whole micro-batch where only whole ones
 * count, or no sample for some rank. */
enum lk_status lk_shares_create(const struct lk_shares_config *c, struct lk_shares **out);
void lk_shares_destroy(struct lk_shares *s); /* NULL is legal */
/*
 * LK_EUSAGE with LK_UNEVEN_ERROR, if n micro-batches from the first come to samples that do not
 * fill one of all ranks. The text names `data`, the counts and the options.
 */
enum lk_status lk_shares_check(const struct lk_shares *s, const char *data, uint64_t n);

/* Return the samples of a micro-batch of all ranks, whole. */
int64_t lk_shares_batch(const struct lk_shares *s);
/* Return the steps of an epoch, a fraction where they go on across its end. */
double lk_shares_steps_an_epoch(const struct lk_shares *s);
/* Return a rank's share of micro-batch n. */
struct lk_share lk_shares_of(const struct lk_shares *s, int rank, uint64_t n);

/* ---- A step; n is its first micro-batch ---- */

/* Return true if all its batches are whole. */
bool lk_shares_is_whole(const struct lk_shares *s, uint64_t n);
/* Return true if an epoch ends with it, where epochs end steps. */
bool lk_shares_ends_epoch(const struct lk_shares *s, uint64_t n);
/* Return how many of its micro-batches any rank has samples in, 1 or more. */
int lk_shares_micro_batches(const struct lk_shares *s, uint64_t n);
int64_t lk_shares_samples(const struct lk_shares *s, uint64_t n); /* of all ranks */
/*
 * Return what the mean gradient of a rank's micro-batch n + m weighs, times ranks and accumulation:
 * 1 where all batches are whole and equal. The same by samples, whatever divides gradients: the
 * mean over ranks and micro-batches of losses times it is the mean loss of all samples.
 */
double lk_shares_weight(const struct lk_shares *s, int rank, uint64_t n, int m);
double lk_shares_of_samples(const struct lk_shares *s, int rank, uint64_t n, int m);
/* Return the highest rank that has samples in micro-batch n + m. pre: m is below the count above.
 */
int lk_shares_last_rank(const struct lk_shares *s, uint64_t n, int m);

/* ---- Data sets and loaders ---- */

/* A dataset: samples of one shape. The targets of a text are the next tokens, that of an image its
 * class. */
struct lk_dataset;
/*
 * Create synthetic samples, a function of seed and sample number alone, the same on every rank. A
 * model has something to learn: three tokens in four follow from the one before (5 t + 1 mod
 * classes), the rest is uniform; pixels are noise about levels that depend on the class, plane and
 * 4 x 4 patches of the image.
 */
enum lk_status lk_dataset_synthetic(size_t samples, const struct lk_sample_shape *shape,
                                    int classes, uint64_t seed, struct lk_dataset **out);

/* X(format, name): files of data. AUTO: bytes for texts; for images MNIST's if the file begins as
 * an idx file does, else CIFAR-10's. */
#define LK_DATA_FORMAT_LIST(X)                                                                     \
    X(LK_DATA_AUTO, "auto")                                                                        \
    X(LK_DATA_BYTES, "bytes")                                                                      \
    X(LK_DATA_UINT16, "uint16")                                                                    \
    X(LK_DATA_UINT32, "uint32")                                                                    \
    X(LK_DATA_CIFAR10, "cifar10")                                                                  \
    X(LK_DATA_MNIST, "mnist")
enum lk_data_format { LK_DATA_FORMAT_LIST(LK_WORD_VALUE) };
/* Their names, and NULL. */
extern const char *const lk_data_formats[];

/*
 * Open a file, memory-mapped (runtime/train/dataset_file.c has the formats); sample i of a text
 * starts at token i * width. LK_EUSAGE when it is no regular file, is too short for one sample, or
 * has other samples than `shape` or more classes than `classes`; LK_EPARSE when it is not of the
 * format.
 */
enum lk_status lk_dataset_file(const char *path, enum lk_data_format format,
                               const struct lk_sample_shape *shape, int classes,
                               struct lk_dataset **out);
void lk_dataset_destroy(struct lk_dataset *d); /* NULL is legal */
size_t lk_dataset_samples(const struct lk_dataset *d);
const struct lk_sample_shape *lk_dataset_shape(const struct lk_dataset *d);
/*
 * Copy sample i: inputs and targets. pre: i < samples. Any thread. LK_EPARSE for a token or a label
 * that is none of the classes. LK_EIO when the file became shorter since it was opened. (If it
 * shrinks between that check and the copy, or the medium fails, the kernel raises SIGBUS; the
 * launcher then reports the rank's signal.)
 */
enum lk_status lk_dataset_read(const struct lk_dataset *d, size_t i, void *inputs,
                               int32_t *targets);

/*
 * A loader: threads that prepare `depth` batches ahead (depth 0: on the caller), walking epochs.
 * Batch n of an epoch holds the rank's samples n * local_batch ... in sampler order; whether the
 * last one of an epoch is short, empty or left out is said below. Each thread takes
 * the next batch that nobody prepares yet, and batches are handed out in order: they are the same,
 * bit for bit, for any number of threads.
 *
 * A thread's track has an INPUT span for every batch it prepared (step and micro-batch counted
 * from the first batch); the trainer's INPUT span on the host track is the time a step waited.
 *
 * On a device that does not use host memory a batch passes through three buffers:
 *
 *   page-locked memory   a thread writes it
 *   a slot on the GPU    the thread enqueues the copy on the loader's own stream (track COPY, an
 *                        INPUT range "copy batch") as soon as the batch is written, so it is there
 *                        ahead of its step. The slot is reused after the step has copied it
 *   the step's buffer    lk_loader_next enqueues, on the compute stream, the wait for the copy and
 *                        one more copy, on the GPU, to the buffer that the model reads
 *
 * Micro-batch m of every step has the same buffer, so that a captured step (a CUDA graph) always
 * reads the same addresses: call lk_loader_next for all of its micro-batches before the graph is
 * launched, and not while capturing. The copies of lk_loader_next run in order on the compute
 * stream, after the work that read the buffer's previous content. The loader's thread calls the
 * device while others do, also during a capture, which must be of mode "thread local" or "relaxed".
 */
struct lk_loader_config {
    struct lk_dataset *dataset;       /* borrowed */
    struct lk_sampler_config sampler; /* samples: 0 takes the dataset's */
    struct lk_stream *compute;        /* reads the batches; borrowed. NULL if ops use host memory */
    int local_batch, depth;
    int workers;                  /* threads; 0: one. More than depth are of no use */
    int accumulation;             /* batches per step, all valid at a time; >= 1 */
    uint64_t first;               /* batch that comes first; 0: the run's first */
    uint64_t first_step;          /* step that gets it */
    struct lk_recorder *recorder; /* NULL: none */
    double delay_s; /* a batch takes at least this long to prepare, for known-truth runs */
};
struct lk_loader;
/* Create a loader and start its threads. LK_EUSAGE as lk_shares_create's. */
enum lk_status lk_loader_create(struct lk_device *d, const struct lk_loader_config *config,
                                struct lk_loader **out);
void lk_loader_destroy(struct lk_loader *l); /* stops the threads; NULL is legal */
/*
 * Return the next batch, which has no samples where this rank ran out. It stays valid until
 * `accumulation` more calls were made; on the GPU for work enqueued on the compute stream until
 * then. LK_ETIMEOUT past the deadline. Call from the device's thread.
 */
enum lk_status lk_loader_next(struct lk_loader *l, struct lk_deadline deadline,
                              struct lk_batch *out);

#endif
