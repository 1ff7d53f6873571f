/* onnx_build: an ONNX graph on its way to operators of PyTorch, for one batch and sequence.
 *
 * Every value has a slot: its type and sizes, its numbers where they follow from sizes and
 * constants alone (a file with an open batch computes its shapes with operators), and the tensor of
 * the graph in the making once there is one. onnx_shape*.c fill types and sizes, onnx_fold.c
 * numbers, onnx_emit*.c and onnx_fx*.c make tensors. */
#ifndef PL_IMPORT_ONNX_BUILD_H
#define PL_IMPORT_ONNX_BUILD_H

#include "graph/aten.h"
#include "import/onnx_model.h"

/* Most spatial dimensions of a convolution, pool or resize. */
enum { ONNX_SPATIAL = 3 };

typedef struct onnx_slot onnx_slot;
struct onnx_slot {
    pl_dtype dtype;
    int dims; /* -1: not known */
    int64_t sizes[PL_MAX_DIMS];
    const double *numbers; /* or NULL */
    int32_t tensor;        /* PL_NONE: none yet */
    const onnx_slot *list; /* a sequence's elements */
    int list_count;
    int32_t list_tensor; /* the first of their tensors, which follow each other */
};

typedef struct onnx_build {
    const onnx_graph *g;
    pl_builder *b;
    pl_arena *scratch;
    onnx_slot *slots;      /* [value_count] */
    const int64_t *params; /* [param_count]: open dimensions, -1: not known */
    bool no_memory;
    int32_t *entered; /* [depth] modules entered so far */
    int depth;
    int32_t *made; /* [node_count] the first of the weights that were made for a node, PL_NONE */
    const char **copied, **copies; /* a small cache of texts copied into the graph */
} onnx_build;

static inline onnx_slot *onnx_in(const onnx_build *c, const onnx_node *n, uint32_t i) {
    return i < n->input_count && n->inputs[i] >= 0 ? &c->slots[n->inputs[i]] : NULL;
}
static inline onnx_slot *onnx_out(const onnx_build *c, const onnx_node *n, uint32_t i) {
    return i < n->output_count && n->outputs[i] >= 0 ? &c->slots[n->outputs[i]] : NULL;
}

static inline bool onnx_known(const onnx_slot *s) {
    return s && s->dims >= 0;
}

/* The tensor of a value, made where it is a constant; PL_NONE for value -1, and where its node has
 * not been emitted. */
int32_t pl_onnx_tensor(onnx_build *c, int32_t value);
/* The tensor whose type a float value has that was made of nothing (x.new_zeros, zeros_like,
 * empty(size, dtype=x.dtype)): the one whose sizes it was made with, which a job's precision may
 * have given another type than the file's. The file cannot tell these from zeros(size), which would
 * stay float32. PL_NONE: none. */
int32_t pl_onnx_like(const onnx_build *c, int32_t value);
/* A text for as long as the graph lives. */
const char *pl_onnx_copy(onnx_build *c, const char *text);

/* Elements; -1 where not known or too many. */
int64_t pl_onnx_elements(const onnx_slot *s);
/* A number as an integer: huge ones become the largest. */
int64_t pl_onnx_integer(double number);
/* The numbers of a slot as integers: how many, at most `most`; -1 where they are not known. */
int pl_onnx_integers(const onnx_slot *s, int64_t *out, int most);
/* Integers from an attribute or, in newer versions of operators, from an input; -1: neither. */
int pl_onnx_list(const onnx_build *c, const onnx_node *n, const char *attr, uint32_t input,
                 int64_t *out, int most);

/* Fills a node's output slots with types and sizes; what cannot be known stays dims -1. */
void pl_onnx_infer(onnx_build *c, const onnx_node *n);
/* Fills in numbers where they can be had. */
void pl_onnx_fold(onnx_build *c, const onnx_node *n);
/* Start, end and step of a Slice along each dimension, clamped; false: not known. */
bool pl_onnx_slice(const onnx_build *c, const onnx_node *n, int64_t *start, int64_t *count,
                   int64_t *step);
/* Pads, strides and dilations of a pool or convolution with `dims` spatial ones, kernel known.
 * pads: [2 * dims], begins then ends. */
void pl_onnx_window(const onnx_node *n, int dims, const int64_t *in, const int64_t *kernel,
                    int64_t *stride, int64_t *pads, int64_t *dilation);

#endif
