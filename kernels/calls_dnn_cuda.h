/* Declare what the files of cuDNN's attention share: the table of functions that they call, so that
 * they can be tested without a GPU, and plans. Private to kernels/dnn*_cuda.c and their tests. */
#ifndef LK_KERNELS_CALLS_DNN_CUDA_H
#define LK_KERNELS_CALLS_DNN_CUDA_H

#include "kernels/attention_graph.h"
#include "kernels/cuda.h"
#include "kernels/dnn.h"

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

/* X(function): cudnn<function>. */
#define LK_DNN_CALL_LIST(X)                                                                        \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(SetStream)                                                                                   \
    X(GetVersion)                                                                                  \
    X(GetErrorString)                                                                              \
    X(GetLastErrorString)                                                                          \
    X(BackendCreateDescriptor)                                                                     \
    X(BackendDestroyDescriptor)                                                                    \
    X(BackendSetAttribute)                                                                         \
    X(BackendGetAttribute)                                                                         \
    X(BackendFinalize)                                                                             \
    X(BackendExecute)

struct lk_dnn_calls {
#define LK_DNN_CALL_MEMBER_(function) __typeof__(cudnn##function) *function;
    LK_DNN_CALL_LIST(LK_DNN_CALL_MEMBER_)
#undef LK_DNN_CALL_MEMBER_
    cudaError_t (*Malloc)(void **out, size_t bytes);
    cudaError_t (*Free)(void *p);
};

/* Return LK_OK for success, else "cuDNN: what: text": LK_EUNSUPPORTED where cuDNN says so. */
enum lk_status lk_dnn_check(const struct lk_dnn_calls *call, cudnnStatus_t status,
                            const char *what);

enum { LK_DNN_DESCRIPTORS_MAX = 160, LK_DNN_ALIGNMENT = 16 /* bytes, of all addresses */ };

/* Descriptors that live and die together. Zeroed but for `call`, it is empty. */
struct lk_dnn_bag {
    const struct lk_dnn_calls *call;
    cudnnBackendDescriptor_t made[LK_DNN_DESCRIPTORS_MAX];
    size_t n;
};
void lk_dnn_bag_empty(struct lk_dnn_bag *b);

/* What a plan is made for: the GPU of a handle, or else one that a description names, as
 * CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION has it (cuDNN 9.8 or newer). */
struct lk_dnn_target {
    cudnnHandle_t handle;
    const char *json;
    int major; /* of its compute capability */
};

struct lk_dnn_plan {
    struct lk_dnn_bag bag;
    cudnnBackendDescriptor_t plan;
    size_t workspace_bytes;
    int64_t engine; /* its number, which names the kernel: "eng2" in cuDNN's logs */
};

/* Return LK_OK if cuDNN's heuristic names an engine for the graph, LK_EUNSUPPORTED if it has none.
 */
enum lk_status lk_dnn_plan_find(const struct lk_dnn_calls *call, const struct lk_dnn_target *target,
                                const struct lk_attention_graph *graph);
/* Make a plan of the first engine that takes the graph. The caller empties the bag. */
enum lk_status lk_dnn_plan_make(const struct lk_dnn_calls *call, const struct lk_dnn_target *target,
                                const struct lk_attention_graph *graph, struct lk_dnn_plan *out);

/* Enqueue a plan on the handle's stream. at: the address of each place that the graph has. */
enum lk_status lk_dnn_plan_run(const struct lk_dnn_plan *p, cudnnHandle_t handle,
                               const struct lk_attention_graph *graph, void *const at[LK_AT_PLACES],
                               void *workspace);

/* As lk_cuda_dnn_open, with these functions (copied) for this target; opens no library. */
enum lk_status lk_cuda_dnn_open_calls(const struct lk_dnn_calls *calls,
                                      const struct lk_dnn_target *target, enum lk_attention by,
                                      bool deterministic, struct lk_cuda_dnn **out);

#endif
