/* work: what a training step asks of the card and of the host, beside memory: one record per
 * operator or kernel, in the order of issue.
 *
 * Rules that compute something named (a product, a convolution, attention, a recurrent layer) say
 * so with pl_work_*. For everything else a record is made when the operator or the autograd
 * function ends: what it allocated was written by kernels, as many as the row of the operator table
 * says or one per tensor; what it was given was read. An operator that allocates and computes nothing
 * (a view) leaves a record without launches, since the host's time for it is real.
 *
 * Only the last of the simulated steps is recorded: it is as all later ones. */
#ifndef PL_TAPE_WORK_H
#define PL_TAPE_WORK_H

#include "graph/graph.h"
#include "tape/workspace_request.h"

typedef enum pl_work_kind {
    PL_WORK_POINTWISE, /* elementwise; the default */
    PL_WORK_PRODUCT,   /* count times [rows, depth] x [depth, columns] */
    PL_WORK_CONVOLUTION,
    PL_WORK_ATTENTION,
    PL_WORK_RECURRENT,
    PL_WORK_COPY,     /* casts, contiguous(), cat, gradients' clones */
    PL_WORK_FILL,     /* zeros, ones, random numbers */
    PL_WORK_REDUCE,   /* sums, means, norms of tensors */
    PL_WORK_SOFTMAX,  /* and log_softmax */
    PL_WORK_NORM,     /* batch, layer, group, RMS */
    PL_WORK_POOL,     /* pooling, interpolation */
    PL_WORK_GATHER,   /* embedding, index, take; backward: scatter */
    PL_WORK_SORT,     /* sort, topk, cumsum, unique */
    PL_WORK_FOREACH,  /* optimizers: one kernel over many tensors */
    PL_WORK_TRANSFER, /* host to device */
    PL_WORK_VIEW,     /* the host's time alone */
    PL_WORK_KINDS
} pl_work_kind;

const char *pl_work_kind_name(pl_work_kind kind); /* "product", ... */

/* Kernels of one kind whose times differ (device/cost.c). */
typedef enum pl_kernel_class {
    PL_KERNEL_PLAIN,
    PL_KERNEL_BATCH_NORM,        /* cuDNN's, where it takes the type */
    PL_KERNEL_BATCH_NORM_NATIVE, /* PyTorch's own */
    PL_KERNEL_GROUP_NORM,
    PL_KERNEL_MAX_POOL,
    PL_KERNEL_EMBEDDING,
    PL_KERNEL_NLL_LOSS,
    PL_KERNEL_RANDOM, /* fills with random numbers */
    PL_KERNEL_FUSED,  /* an optimizer's step in one kernel */
} pl_kernel_class;

typedef enum pl_pass {
    PL_PASS_FORWARD,
    PL_PASS_BACKWARD, /* the gradient of an input; of a product's first operand, of attention */
    PL_PASS_BACKWARD_WEIGHT, /* the gradient of a convolution's weight, of a product's second
                              * operand
                              */
    PL_PASSES
} pl_pass;

typedef struct pl_work {
    const char *what; /* operator, function or optimizer: "aten.linear.default", "AddmmBackward0" */
    int32_t node;     /* of the graph, -1: none */
    uint8_t kind;     /* pl_work_kind */
    uint8_t class;    /* pl_kernel_class */
    uint8_t pass;     /* pl_pass */
    uint8_t phase;    /* pl_phase */
    uint8_t dtype;    /* pl_dtype computed in */
    bool first;       /* the first record of its operator or function */
    bool waits;       /* the host goes on when the card has done it */
    uint8_t enters;   /* modules called since the operator before it */
    bool strided;     /* copies, pointwise: an operand does not lie as the result does (transposed,
                       * broadcast), so that places are computed one by one; reductions: the innermost
                       * dimension stays; batch norm: channels are innermost */
    bool biased;      /* products: a bias is added by the same kernel */
    bool transposed[2];   /* products: operand a, b is column-major */
    int32_t launches;     /* kernels */
    int32_t tensors;      /* foreach: parameters */
    int32_t hooks;        /* tensors that Python saw being saved before it: checkpointing */
    double flops;         /* all that is computed */
    double counted;       /* of them, those that FlopCounterMode counts, as it counts them */
    double read, written; /* bytes */
    /* Products. Reductions: rows outputs of columns elements; normalisations and softmax: rows
     * groups of columns; gathers: rows indices of columns elements. 0: not known */
    int64_t rows, columns, depth, count;
    const void
        *shape; /* pl_conv, pl_attention, pl_rnn by kind; NULL otherwise. In the tape's arena */
} pl_work;

/* ---- for rules; each does nothing in steps that are not recorded ---- */

typedef struct pl_eager pl_eager;
typedef struct pl_value pl_value;

/* Room for about so many records. */
void pl_work_reserve(pl_eager *e, size_t count);
/* An operator or an autograd function begins. */
void pl_work_begin(pl_eager *e);
/* A tensor was allocated: kernels will write it. */
void pl_work_made(pl_eager *e, int64_t bytes);
/* It ends: what was allocated and belongs to no record yet becomes one. kind, pass and launches (0:
 * one per tensor) as the table has them, PL_WORK_VIEW: no kernel; read: bytes of what it was given;
 * like: gives the type, may be NULL; in_place: something was written though nothing was allocated;
 * zeroed: what is written was filled with zeros before. */
typedef struct pl_work_rest {
    pl_work_kind kind;
    pl_pass pass;
    int launches;
    double read, in_place_bytes;
    const pl_value *like;
    int64_t rows, columns;
    bool strided, zeroed;
} pl_work_rest;
void pl_work_end(pl_eager *e, const pl_work_rest *rest);

/* Kernels that a rule knows: they write the values `out` (allocated just now, some may be NULL),
 * and `written` bytes of what was there before. launches 0: one. dtype 0: that of the first value.
 */
typedef struct pl_work_known {
    pl_work_kind kind;
    pl_kernel_class class; /* PLAIN: that of the operator or function at hand */
    pl_pass pass;
    int launches;
    double read, written;
    int64_t rows, columns;
    bool strided;
    pl_dtype dtype;
    const pl_value *out[6];
} pl_work_known;
void pl_work_kernels(pl_eager *e, const pl_work_known *known);
/* One kernel that reads `read` bytes and writes out (allocated just now, or NULL: `written` of
 * something that was there before). */
void pl_work_move(pl_eager *e, pl_work_kind kind, pl_pass pass, double read, double written,
                  const pl_value *out);
/* to = from in another order or type; to was allocated just now. */
void pl_work_copy(pl_eager *e, pl_pass pass, const pl_value *from, const pl_value *to);
/* out, allocated just now, filled with a number; another kernel may write to it afterwards
 * (pl_work_kernels with `written`). */
void pl_work_fill(pl_eager *e, pl_pass pass, const pl_value *out);
/* a (and b, may be NULL) into out, which was allocated just now, or is a itself. */
void pl_work_pointwise(pl_eager *e, pl_pass pass, const pl_value *a, const pl_value *b,
                       const pl_value *out);
/* in summed or the like over the dimensions in `reduced` (a bit each) to out, allocated just now.
 */
void pl_work_reduce(pl_eager *e, pl_pass pass, const pl_value *in, uint32_t reduced,
                    const pl_value *out);
/* out = a b, of two or three dimensions (the first one then counts products); biased: and a bias,
 * added by the same kernel. */
void pl_work_product(pl_eager *e, pl_pass pass, const pl_value *a, const pl_value *b,
                     const pl_value *out, bool biased);
/* A convolution's pass; weight: elements of it. */
void pl_work_convolution(pl_eager *e, pl_conv_pass pass, const pl_conv *conv, double weight,
                         const pl_value *out);
void pl_work_attention(pl_eager *e, pl_pass pass, const pl_attention *attention);
void pl_work_recurrent(pl_eager *e, pl_pass pass, const pl_rnn *rnn);
/* `count` products of [rows, depth] and [depth, columns] in `launches` kernels, of what was not
 * noted as allocated; FlopCounterMode does not see them. */
void pl_work_groups(pl_eager *e, pl_pass pass, pl_dtype dtype, int64_t count, int64_t rows,
                    int64_t depth, int64_t columns, int launches);
/* An optimizer's product, by its sizes: FlopCounterMode does not see it. */
void pl_work_product_of(pl_eager *e, pl_dtype dtype, int64_t count, int64_t rows, int64_t depth,
                        int64_t columns);
/* One foreach operator over all parameters that have a gradient; read, written: bytes. launches 0:
 * a pointwise kernel for each of them instead. */
void pl_work_foreach(pl_eager *e, int64_t tensors, int64_t launches, double read, double written,
                     pl_dtype dtype);
/* The host's time alone. */
void pl_work_host(pl_eager *e, const char *what, int32_t tensors);

/* A copy to the card, into `to` (may be NULL), from memory that is not pinned: the host waits,
 * unless it is so little that the driver keeps it. */
void pl_work_transfer(pl_eager *e, double bytes, const pl_value *to);
/* The record made last makes the host wait for the card. */
void pl_work_waits(pl_eager *e);

/* After an operator has saved its arguments, which PyTorch does before it computes: a checkpointed
 * block that is made again ends where all that it had saved is there, so that the operator's own
 * kernels, the records from `from` on and what is not recorded yet, do not run. from: of
 * pl_work_mark before them. */
size_t pl_work_mark(const pl_eager *e);
void pl_work_saved(pl_eager *e, size_t from);

/* The pass at hand: backward, but in a checkpointed block that is made again. */
pl_pass pl_work_pass(const pl_eager *e);
/* Bytes of a value as a kernel reads them: dimensions of stride 0 once. */
double pl_work_bytes(const pl_value *value);
/* Whether a kernel that reads in and writes out computes places: their orders differ, or in is
 * broadcast. */
bool pl_work_gathers(const pl_value *in, const pl_value *out);

#endif
