/* cost_tables: the constants of cost.c, fitted by tools/calibrate/fit.py, which writes
 * cost_tables.c. All members are double: the fit sees each table as a row of numbers. */
#ifndef PL_DEVICE_COST_TABLES_H
#define PL_DEVICE_COST_TABLES_H

#ifdef PL_COST_FIT
#define PL_COST_CONST
#else
#define PL_COST_CONST const
#endif

/* Kernels that move bytes, by what they do. */
typedef enum pl_cost_class {
    PL_COST_POINTWISE,
    PL_COST_POINTWISE_STRIDED,
    PL_COST_POINTWISE_MIXED, /* operands of two types */
    PL_COST_COPY,
    PL_COST_COPY_STRIDED,
    PL_COST_COPY_WIDENING,
    PL_COST_FILL,
    PL_COST_RANDOM,
    PL_COST_REDUCE,
    PL_COST_REDUCE_STRIDED, /* over a dimension that is not the innermost */
    PL_COST_SOFTMAX,        /* of rows that registers hold */
    PL_COST_SOFTMAX_BACKWARD,
    PL_COST_SOFTMAX_LONG,
    PL_COST_SOFTMAX_LONG_BACKWARD,
    PL_COST_BATCH_NORM, /* PyTorch's own */
    PL_COST_BATCH_NORM_BACKWARD,
    PL_COST_BATCH_NORM_CUDNN,
    PL_COST_BATCH_NORM_CUDNN_BACKWARD,
    PL_COST_BATCH_NORM_LAST, /* channels last, and vectors */
    PL_COST_BATCH_NORM_LAST_BACKWARD,
    PL_COST_GROUP_NORM,
    PL_COST_GROUP_NORM_BACKWARD,
    PL_COST_NORM, /* layer, RMS */
    PL_COST_NORM_BACKWARD,
    PL_COST_NORM_WEIGHTS, /* the gradient of a layer norm's weight and bias */
    PL_COST_POOL_MAX,
    PL_COST_POOL_MAX_BACKWARD,
    PL_COST_POOL,
    PL_COST_POOL_BACKWARD,
    PL_COST_GATHER,
    PL_COST_GATHER_BACKWARD,
    PL_COST_EMBEDDING_BACKWARD, /* past 3,072 indices: sorted first */
    PL_COST_EMBEDDING_FEW,
    PL_COST_SORT,
    PL_COST_FOREACH,
    PL_COST_FUSED,
    PL_COST_LOSS,   /* the negative log-likelihood of classes: one block */
    PL_COST_LAYOUT, /* cuDNN's changes between channels-first and channels-last */
    PL_COST_DEPTHWISE,
    PL_COST_DEPTHWISE_BACKWARD,
    PL_COST_DEPTHWISE_WEIGHTS,
    PL_COST_DEPTHWISE_LAST, /* channels last */
    PL_COST_DEPTHWISE_LAST_BACKWARD,
    PL_COST_DEPTHWISE_LAST_WEIGHTS,
    PL_COST_DEPTHWISE_LAST_WEIGHTS_FP32,
    PL_COST_DEPTHWISE_CUDNN, /* channels first, by cuDNN: half precision */
    PL_COST_DEPTHWISE_CUDNN_BACKWARD,
    PL_COST_DEPTHWISE_CUDNN_WEIGHTS,
    PL_COST_CLASSES
} pl_cost_class;

typedef struct pl_cost_moving {
    double floor;   /* microseconds per kernel */
    double share;   /* of the memory's bandwidth, bytes out of cache */
    double cached;  /* the same for bytes that the cache holds; over 1 */
    double work;    /* fp32 operations per element that would take as long as its instructions */
    double chain;   /* ns per item of the longest chain of items that wait for each other */
    double miss;    /* that much more of them, as a share, for items out of cache */
    double warps;   /* share of an active multiprocessor's warps */
    double traffic; /* bytes at the memory for each byte counted, out of cache */
} pl_cost_moving;

extern PL_COST_CONST pl_cost_moving pl_cost_moving_of[PL_COST_CLASSES];

/* Units that multiply, and the same where a row does not begin at a multiple of 16 bytes: of two
 * elements, or of one. Those run other kernels. */
enum {
    PL_COST_FP32,
    PL_COST_TF32,
    PL_COST_HALF,
    PL_COST_TF32_EVEN,
    PL_COST_HALF_EVEN,
    PL_COST_TF32_ODD,
    PL_COST_HALF_ODD,
    PL_COST_UNITS
};
enum { PL_COST_TILES = 6 };

typedef struct pl_cost_tile {
    double rows, columns; /* of the result, a block's */
    double share;         /* of a multiprocessor's rate that it reaches */
} pl_cost_tile;

typedef struct pl_cost_product {
    double floor;         /* microseconds: launch, filling the pipeline, writing the result */
    double step;          /* microseconds per element of depth, at the least */
    double share, cached; /* of the memory's bandwidth */
    double split;         /* microseconds more where the depth is cut */
    double cuts;          /* into as many parts at the most */
    double warps;         /* of an active multiprocessor */
    double traffic;
    double pipe; /* of the tensor cores' time, over what the operations need at the full rate */
    pl_cost_tile tiles[PL_COST_TILES];
} pl_cost_product;

extern PL_COST_CONST pl_cost_product pl_cost_products[PL_COST_UNITS];
/* Of convolutions: the time of the product that each pass amounts to, times this: [pass][unit]. */
extern PL_COST_CONST double pl_cost_conv_factor[3][PL_COST_UNITS];
extern PL_COST_CONST pl_cost_product pl_cost_convs[PL_COST_UNITS];

typedef struct pl_cost_attention {
    double floor;
    double share; /* of the unit's rate */
    double block; /* queries (keys, backward) per block */
    double pair;  /* of a query and a key: as many elements of a head would take as long */
    double solo;  /* how much longer a block takes than its share of a full multiprocessor */
    double warps;
    double traffic, pipe;
} pl_cost_attention;

/* [backend: flash, efficient in float32, efficient in half, cuDNN][backward] */
enum { PL_COST_BACKENDS = 4 };
extern PL_COST_CONST pl_cost_attention pl_cost_attentions[PL_COST_BACKENDS][2];

typedef struct pl_cost_rnn {
    double step;    /* microseconds of a step beside its product */
    double each;    /* factor on a step's product */
    double persist; /* microseconds of a step where one kernel goes through them all */
    double whole;   /* factor on the products over all steps at once */
    double bias;    /* nanoseconds per step and sample: sums for the gradient of the bias */
} pl_cost_rnn;

/* [mode: plain, LSTM, GRU][backward] */
extern PL_COST_CONST pl_cost_rnn pl_cost_rnns[3][2];

typedef struct pl_cost_general {
    double ramp;   /* microseconds of a kernel in which multiprocessors are not busy */
    double tail;   /* of the rest, the share in which they are */
    double spread; /* blocks per multiprocessor at which its warps are all there */
    double held;   /* of the cache: what previous kernels left there */
    double leak;   /* of what the cache holds, the share that reaches the memory all the same */
} pl_cost_general;

extern PL_COST_CONST pl_cost_general pl_cost_generals;

#endif
