/* workspace_request: what must be known of an operator to say how much temporary memory its library
 * takes.
 *
 * Filled by the tape from an operator's tensors, answered by src/device/workspace.h. Sizes are in
 * elements. */
#ifndef PL_TAPE_WORKSPACE_REQUEST_H
#define PL_TAPE_WORKSPACE_REQUEST_H

#include "graph/graph.h"

/* One aten.convolution. A 1d convolution may be given as it is (dims 1): it runs as 2d with a
 * height of 1. */
typedef struct pl_conv {
    int dims; /* spatial, 1 to 3 */
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[3], kernel[3], stride[3], padding[3], dilation[3], out[3]; /* [dims] */
    bool transposed;
    pl_dtype dtype; /* of the input as the kernel sees it: under autocast the lower type */
    bool tf32;      /* torch.backends.cudnn.allow_tf32: PyTorch's default is true, matmul's flag is
                       another */
    bool channels_last; /* the input's or the weight's strides are channels-last: the kernel runs so
                         */
    bool benchmark;     /* torch.backends.cudnn.benchmark */
} pl_conv;

typedef enum pl_conv_pass {
    PL_CONV_FORWARD,
    PL_CONV_BACKWARD_DATA,
    PL_CONV_BACKWARD_WEIGHT,
    PL_CONV_PASSES
} pl_conv_pass;

typedef enum pl_rnn_mode { PL_RNN_RELU, PL_RNN_TANH, PL_RNN_LSTM, PL_RNN_GRU } pl_rnn_mode;

/* One aten._cudnn_rnn: every layer and direction of an nn.LSTM, nn.GRU or nn.RNN. */
typedef struct pl_rnn {
    pl_rnn_mode mode;
    int64_t layers, directions; /* directions: 1, or 2 where bidirectional */
    int64_t batch, seq, input, hidden;
    int64_t projection; /* LSTM's proj_size; 0: none */
    bool bias;
    bool training;  /* keeps the reserve for backward */
    double dropout; /* between layers */
    pl_dtype dtype;
} pl_rnn;

typedef struct pl_rnn_memory {
    int64_t weights; /* elements in the packed weight buffer that _cudnn_rnn makes when weights are
                        not yet flat */
    int64_t reserve; /* bytes kept from forward to backward; 0 when not training */
    int64_t forward, backward; /* workspaces, bytes */
    double uncertainty;        /* as for convolutions, of the larger workspace */
} pl_rnn_memory;

/* The kernels behind scaled_dot_product_attention. */
typedef enum pl_attention_backend {
    PL_ATTENTION_MATH,
    PL_ATTENTION_FLASH,
    PL_ATTENTION_EFFICIENT,
    PL_ATTENTION_CUDNN
} pl_attention_backend;

typedef struct pl_attention {
    pl_attention_backend backend;
    int64_t batch, heads, kv_heads; /* kv_heads differs under enable_gqa */
    int64_t queries, keys;          /* lengths */
    int64_t head, value_head;       /* sizes of a head of q and k, and of v */
    bool causal, dropout;
    bool mask;          /* an attn_mask tensor is given */
    bool mask_gradient; /* and needs a gradient */
    pl_dtype dtype;
} pl_attention;

#endif
