/*
 * Networks of images, as a list of nodes in the order in which forward computes them: private to
 * the models resnet and vgg, which make the list. What a node computes, and its parameters, have
 * the names and the order of torchvision's modules.
 *
 * Backward goes through the list from its end, as autograd does, so gradients become ready in the
 * reverse order of registration (a norm's weight before its bias).
 */
#ifndef LK_RUNTIME_MODEL_IMAGE_H
#define LK_RUNTIME_MODEL_IMAGE_H

#include "kernels/ops_image.h"
#include "runtime/model/model_impl.h"

struct lk_image;

/* The output of a node: its number, -1 for the image; and its size. */
struct lk_image_out {
    int node;
    size_t height, width, channels;
};

/* A convolution and what follows it. */
struct lk_image_conv {
    const char *name; /* e.g. "layer1.0.conv1" */
    const char *norm; /* batch norm behind it, e.g. "layer1.0.bn1"; NULL: none, but a bias */
    size_t outputs, kernel, stride, padding;
    bool relu;
};

/* Add a node that computes from *in; *out may be *in. */
enum lk_status lk_image_conv(struct lk_image *g, const struct lk_image_conv *c,
                             const struct lk_image_out *in, struct lk_image_out *out);
enum lk_status lk_image_maxpool(struct lk_image *g, const struct lk_image_out *in, size_t kernel,
                                size_t stride, size_t padding, struct lk_image_out *out);
/* Average to size x size. The output is a vector a sample: height and width are 1. */
enum lk_status lk_image_avgpool(struct lk_image *g, const struct lk_image_out *in, size_t size,
                                struct lk_image_out *out);
/* A linear layer of a vector. std: deviation of its initial weights; its bias starts at 0. */
enum lk_status lk_image_linear(struct lk_image *g, const char *name, const struct lk_image_out *in,
                               size_t outputs, double std, bool relu, struct lk_image_out *out);
/* The positive part of the sum of two outputs. The first is overwritten: no other node may use it.
 */
enum lk_status lk_image_add_relu(struct lk_image *g, const struct lk_image_out *in,
                                 const struct lk_image_out *residual, struct lk_image_out *out);

/*
 * Create a model: `build` adds its nodes, the last of which makes the logits, and writes a line of
 * text on them, "layers 18, channels 64". config: image, colours and vocab are filled in.
 */
enum lk_status lk_image_create(const struct lk_model_ops *ops, struct lk_device *d,
                               struct lk_stream *s, const struct lk_model_config *config,
                               enum lk_status (*build)(struct lk_image *g,
                                                       const struct lk_model_config *config,
                                                       char *text, size_t size),
                               struct lk_model **out);

/* All of them do these (struct lk_model_ops). */
void lk_image_destroy(struct lk_model *m);
enum lk_status lk_image_forward(struct lk_model *m, const struct lk_batch *batch, double seed);
enum lk_status lk_image_backward(struct lk_model *m, const struct lk_batch *batch, double seed,
                                 bool accumulate, const struct lk_grad_hook *hook);
enum lk_status lk_image_join(struct lk_model *m, struct lk_comm *comm, struct lk_stream *net);

/* ---- The network, for its construction (model_image.c) and its passes (model_image_pass.c) ----
 */

enum lk_image_kind {
    LK_IMAGE_CONV,
    LK_IMAGE_MAXPOOL,
    LK_IMAGE_AVGPOOL,
    LK_IMAGE_LINEAR,
    LK_IMAGE_ADD_RELU
};

enum {
    LK_IMAGE_NAME = 64,
    LK_IMAGE_GRADS = 3 /* gradients of outputs that are alive at a time: a residual connection's, a
                          node's and its input's */
};

struct lk_image_node {
    enum lk_image_kind kind;
    int in, residual; /* nodes; -1: the image */
    char name[LK_IMAGE_NAME];
    /* It is the input's; samples are those of a batch. A linear layer has inputs and outputs only.
     */
    struct lk_conv_shape shape;
    size_t out_pixels; /* of a sample */
    size_t size;       /* of an average pooling */
    bool norm, relu;
    size_t param;  /* first one: the weight; then bias, or the norm's weight and bias */
    size_t buffer; /* norm: running mean; then running variance */
    size_t layer;  /* norm: its number */
    /* Kept for backward. */
    lk_real *conv;  /* norm: the convolution's output */
    lk_wide *joint; /* norm: the statistics that normalised it */
    lk_real *out;   /* (max_samples, out_pixels, outputs) */
};

struct lk_image {
    struct lk_model base;
    struct lk_image_node *nodes;
    size_t n_nodes, nodes_capacity;
    struct lk_image_param { /* of the construction */
        char name[LK_IMAGE_NAME];
        struct lk_model_param how;
    } * params;
    size_t n_params, params_capacity, n_norms, widest_norm;
    size_t max_samples;
    lk_real *activations; /* allocation of all buffers below, and of the nodes' */
    lk_real *image;       /* (max_samples, pixels, colours) */
    lk_wide *log_sum;     /* (max_samples) */
    lk_real *scratch;     /* (scratch_elems), of the convolutions */
    size_t scratch_elems;
    lk_real *dconv; /* gradient of a normalised convolution's output */
    lk_real *grads[LK_IMAGE_GRADS];
    lk_wide *statistics; /* of the widest norm */
    lk_wide *sums;       /* likewise */
    /* During backward: the buffer of each node's gradient, -1 without; the number of nodes whose
     * gradient a buffer is. */
    int *grad_of;
    int uses[LK_IMAGE_GRADS];
    /* SyncBatchNorm; comm NULL: statistics are the rank's own. */
    struct lk_comm *comm; /* borrowed, as the stream */
    struct lk_stream *net;
    lk_wide *gathered;       /* statistics of all ranks, of the widest norm */
    struct lk_event **there; /* layer i reached: in forward at 2 i, in backward at 2 i + 1 */
    struct lk_event *back;
};

#endif
