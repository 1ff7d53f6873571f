/* trace: training steps as they ran in Python on tensors without storage, operator by operator.
 *
 * What python/plimsoll/capture.py records and src/import/trace.c reads (docs/formats.md): every
 * operator below autograd with its tensors, and where each storage dies. Storages are born with the
 * first operator that gives them back. What kernels allocate for themselves is not in it; tape adds
 * it (src/tape/replay.h).
 *
 * Everything lives in the trace's arena. `graph` holds names only: one node per operator (its
 * target and module, no arguments), the modules, a tensor for each parameter and buffer; so that a
 * tape's blocks refer to it as those of other tapes refer to theirs. */
#ifndef PL_GRAPH_TRACE_H
#define PL_GRAPH_TRACE_H

#include "graph/graph.h"

typedef struct pl_trace_storage {
    int64_t bytes;
    int32_t tensor; /* of graph: the parameter or buffer that lies in it, -1: none */
    int8_t kind;    /* pl_kind, -1: not said */
    uint8_t stream; /* it was allocated on; 0: the default one */
} pl_trace_storage;

typedef struct pl_trace_tensor {
    int32_t storage;
    pl_dtype dtype;
    uint8_t dims;
    int64_t *sizes, *strides; /* [dims]; strides in elements */
} pl_trace_tensor;

typedef struct pl_trace_event {
    int32_t node;    /* of graph; -1: no operator, the outputs are there from now on; -2: a death */
    int32_t storage; /* that dies */
    int32_t function;          /* autograd's, in `functions`; -1: not inside backward */
    int32_t *inputs, *outputs; /* tensors; -1: None, or not on the card */
    pl_arg *attributes;        /* other arguments, in order, without names */
    uint32_t input_count, output_count, attribute_count;
} pl_trace_event;
enum { PL_TRACE_BIRTH = -1, PL_TRACE_DEATH = -2 };

typedef struct pl_trace_mark {
    size_t event; /* first of the phase */
    uint8_t phase, step;
} pl_trace_mark;

/* A module without children, in the order of the first forward pass. */
typedef struct pl_trace_layer {
    const char *type;   /* "Linear" */
    int64_t outputs;    /* elements of its output per sample */
    int64_t parameters; /* its own */
} pl_trace_layer;

typedef struct pl_trace {
    pl_arena *arena;
    pl_graph graph;
    pl_trace_storage *storages;
    pl_trace_tensor *tensors;
    pl_trace_event *events;
    pl_trace_mark *marks; /* by event */
    pl_trace_layer *layers;
    const char **functions, **warnings;
    size_t storage_count, tensor_count, event_count, mark_count, layer_count, function_count,
        warning_count;
    /* The job it was recorded as; "" and 0: not said. */
    const char *precision, *optimizer, *loss;
    bool nccl;            /* the ranks talk by it */
    const char *parallel; /* how the models are spread over the ranks: "ddp", "fsdp2", "fsdp" */
    int64_t batch, accumulate, world, rank; /* world: processes of the job */
    int steps; /* of training, at least 1; marks of later steps: what came after them */
    bool checkpoint, channels_last, cudnn_benchmark;
    bool bounded;    /* a size that depends on numbers was taken as large as it can be */
    bool unfinished; /* it was stopped while it held more and more */
    int64_t beyond;  /* bytes that later steps may take more than those that were recorded */
    bool compiled;   /* the code is compiled when it runs, and was recorded as it is written */
    int cc_major, cc_minor; /* of the card imagined: attention's kernels were chosen for it */
} pl_trace;

void pl_trace_close(pl_trace **trace); /* nulls; takes NULL */

#endif
