/* eager: PyTorch's eager mode with the numbers left out: tensors, storages, reference counts and
 * the autograd graph, enough of each to know when a byte is allocated and when it is freed.
 *
 * A pl_value stands for a tensor (a TensorImpl): sizes, strides, type, the storage it looks at, how
 * many hold it, and the autograd function that made it. A storage frees its block on the tape when
 * its last value goes. A pl_fn is an autograd node: a backward rule, its saved values, and where
 * its gradients go.
 *
 * Ownership: functions that return a pl_value return one reference, which the caller drops with
 * pl_drop. Memory: everything comes from arenas; a failed allocation sets eager->failed, after
 * which functions return harmless values, so that rules need not test each call. */
#ifndef PL_TAPE_EAGER_H
#define PL_TAPE_EAGER_H

#include "tape/tape.h"

typedef struct pl_fn pl_fn;
typedef struct pl_storage pl_storage;
typedef struct pl_checkpoint_frame pl_checkpoint_frame;

enum { PL_MAX_GRADS = 8 };

struct pl_storage {
    int32_t refs;  /* values that look at it */
    int32_t block; /* on the tape; 0: no bytes */
};

struct pl_value {
    pl_storage *storage;
    int64_t *sizes, *strides; /* [dims], elements */
    int64_t elements;
    pl_fn *fn;      /* made by, NULL: a leaf or no gradient wanted */
    pl_value *base; /* a view's: the tensor it looks into, not held; NULL: no view */
    int32_t refs;   /* holders: Python names, saved tensors, gradient buffers */
    int32_t leaf;   /* parameter index whose gradient this accumulates, -1: none */
    int32_t output; /* which output of fn */
    uint8_t dims;
    uint8_t dtype; /* pl_dtype */
    bool needs_grad;
    bool view; /* made in backward by a view operator: its base lives as long as it does */
};

/* A backward rule: grads[i] is the gradient of output i, or NULL; it writes the gradient of input i
 * to out[i] (a reference of its own) where fn->edges[i].wanted, and leaves NULL where there is
 * none. */
typedef void pl_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out);

typedef struct pl_edge {
    pl_fn *fn;    /* gradient goes there, or */
    int32_t leaf; /* to this parameter, -1 */
    int32_t output;
    bool wanted;
    uint8_t dims, dtype; /* of the input: gradients are summed and cast to it */
    const int64_t *sizes, *strides;
} pl_edge;

struct pl_fn {
    pl_backward *backward;
    const char *name; /* "AddmmBackward0" */
    pl_edge *edges;   /* [edge_count], inputs in the order of PyTorch's formula */
    pl_value **saved; /* [saved_count]; NULL once released */
    pl_value **grads; /* [output_count]: what has arrived */
    int64_t *numbers; /* rule's own, e.g. sizes; may be NULL */
    const void *rule; /* rule's own */
    int32_t node;     /* of the graph */
    int32_t edge_count, output_count, saved_count, saved_room;
    uint8_t work, kernels;      /* pl_work_kind and launches of its backward, 0: one per tensor */
    uint8_t class;              /* pl_kernel_class of its backward */
    bool zeroes;                /* what its backward makes is filled with zeros first */
    bool reached;               /* on a path from the loss */
    bool gone;                  /* dropped: what it would have saved is made for nobody */
    int32_t refs;               /* outputs that live, and edges of functions that do */
    pl_fn *next_gone;           /* pl_fn_drop's list */
    pl_checkpoint_frame *frame; /* its saved values are made again here, NULL: they were kept */
};

/* One checkpointed call: what its functions would have saved is not kept, and made again in
 * backward. While the call is recorded each pl_save takes a place and keeps nothing; while it is
 * made again the same saves, in the same order, fill those places. */
struct pl_checkpoint_frame {
    struct {
        pl_fn *fn;
        int slot;
    } * places;
    size_t place_count, place_room, filled;
    int32_t users;       /* the recording, then functions with a place that have not run */
    int32_t first, last; /* nodes of the graph, last inclusive */
    pl_value **inputs;   /* values the call was given, held; in the order of input_ids */
    int32_t *input_ids;
    int32_t input_count;
    bool replaying, done;
};

/* One of the frame's users is done with it: the last lets go of the inputs. */
void pl_frame_leave(pl_eager *e, pl_checkpoint_frame *frame);

typedef struct pl_leaf {
    int32_t tensor;     /* of the graph */
    pl_value *value;    /* the parameter */
    pl_value *grad;     /* .grad, NULL: None */
    pl_value *arriving; /* input buffer of its AccumulateGrad */
    int32_t expected;   /* edges that still have to deliver in this backward */
    pl_value *cast;     /* autocast's cached copy */
    pl_value *shard;    /* FSDP2: what this rank keeps of it, sizes and type alone; NULL: all */
    bool reduced;       /* its gradient has been reduced to a shard */
    const char *name;
} pl_leaf;

struct pl_eager {
    pl_tape *tape;
    pl_arena *step_arena; /* values and functions of the step being simulated */
    size_t event_room, block_room, mark_room, note_room;
    const pl_graph *graph;
    const pl_job *job; /* how the graph is trained */
    const pl_tape_device *device;
    pl_value **env;  /* [tensor_count]: value of each graph tensor, NULL: none or dead */
    uint8_t *types;  /* [tensor_count]: pl_dtype of each when it was made last; 0: not yet */
    pl_leaf *leaves; /* [leaf_count] */
    int32_t leaf_count;
    pl_fn **fns; /* in order of creation, this step */
    size_t fn_count, fn_room;
    int32_t *cached; /* leaves with a cast copy, in order of casting */
    int32_t cached_count;
    uint8_t phase, step;
    int32_t node;     /* of the graph, being run */
    const char *what; /* operator or function being run */
    uint8_t kind;     /* pl_kind of the allocations being made */
    bool off_card; /* what is made lies on the CPU or the meta device: nothing goes to the tape */
    bool grad_enabled;
    bool retyped;     /* autocast, or weights of another type than the graph's */
    bool in_backward; /* on autograd's thread: its own cuBLAS workspace */
    uint8_t autocast; /* pl_dtype to cast down to, 0: off */
    bool blas_forward, blas_backward, blas_lt, blas_lt_backward; /* workspaces taken */
    bool rnn_dropout_state;
    bool nested_codes;          /* bitsandbytes' table for scales is on the device */
    pl_checkpoint_frame *frame; /* being recorded or made again, NULL: none */
    void (*recompute)(pl_eager *e, pl_checkpoint_frame *frame); /* runs a frame's forward again */
    /* Of the operator or function being run: what it allocated and no record has claimed, and
     * where its records begin. */
    struct {
        bool on;         /* this step is recorded */
        uint8_t entered; /* modules */
        int32_t tensors, module, hooks;
        double bytes;
        size_t begin, room;
    } calls;
    uint8_t class;         /* pl_kernel_class of the operator or function being run */
    uint8_t work, kernels; /* of the functions that the operator being run will leave */
    bool zeroes;
    void (*before_fn)(pl_eager *e,
                      const pl_fn *fn); /* before each function of backward; NULL: none */
    struct {
        pl_conv conv;
        pl_conv_pass pass;
    } * tried;            /* shapes cudnn.benchmark has tried */
    int32_t *tried_slots; /* [tried_slot_count], a hash table of them: index + 1, 0: empty */
    size_t tried_count, tried_room, tried_slot_count;
    /* Casts that were none at export: tensor `tensor` is `value` again after node `at`. */
    struct {
        int32_t tensor, at;
        pl_value *value;
    } * uncast;
    size_t uncast_count, uncast_room;
    bool failed; /* out of memory, or: */
    const char
        *too_large;   /* operator or parameter of a tensor too large for any card; NULL: none */
    pl_value nothing; /* what functions return then */
    pl_storage nothing_storage;
    int64_t nothing_sizes[PL_MAX_DIMS];
};

/* ---- tape ---- */

/* Allocates a block on the tape; 0 for no bytes. */
int32_t pl_block_new(pl_eager *e, int64_t bytes);
void pl_block_gone(pl_eager *e, int32_t block);
/* Room for so many blocks and events in all, where memory has it: fewer copies of growing arrays. */
void pl_tape_reserve(pl_eager *e, size_t blocks, size_t events);
/* A block that lives for the length of one call: workspace. */
void pl_scratch(pl_eager *e, int64_t bytes);
void pl_cache_emptied(pl_eager *e); /* torch.cuda.empty_cache() */
void pl_mark(pl_eager *e, pl_phase phase);

/* ---- values ---- */

/* strides NULL: contiguous. Allocates. */
pl_value *pl_new(pl_eager *e, pl_dtype dtype, int dims, const int64_t *sizes,
                 const int64_t *strides);
/* As `like`, of another type; strides kept when dense, else their order (TensorIterator, empty_like). */
pl_value *pl_new_like(pl_eager *e, const pl_value *like, pl_dtype dtype);
/* A tensor of one dimension, or 0-d for count < 0. */
pl_value *pl_new_flat(pl_eager *e, pl_dtype dtype, int64_t count);
/* Another look at the same storage. No autograd. */
pl_value *pl_alias(pl_eager *e, const pl_value *base, int dims, const int64_t *sizes,
                   const int64_t *strides);
pl_value *pl_alias_like(pl_eager *e, const pl_value *base);
pl_value *pl_hold(pl_value *value);         /* returns it; takes NULL */
void pl_drop(pl_eager *e, pl_value *value); /* takes NULL */

int64_t pl_value_bytes(const pl_value *value);
bool pl_is_contiguous(const pl_value *value);
bool pl_is_dense(const pl_value *value); /* non-overlapping and dense */
bool pl_same_sizes(const pl_value *value, int dims, const int64_t *sizes);
/* Strides that view `value` as sizes without a copy, or false. strides: [dims]. */
bool pl_view_strides(const pl_value *value, int dims, const int64_t *sizes, int64_t *strides);

/* ---- autograd ---- */

/* A function over inputs, if gradients are on and some input wants one; else NULL. inputs[i] may be
 * NULL. */
pl_fn *pl_fn_new(pl_eager *e, const char *name, pl_backward *backward, int input_count,
                 pl_value *const *inputs, int output_count);
void pl_fn_output(pl_fn *fn, pl_value *value, int output); /* takes fn NULL */
/* The edge that leads a gradient to value. */
pl_edge pl_edge_to(pl_value *value);
/* A holder of fn goes. With the last one goes what it saved: a branch that does not lead to the
 * loss is freed in the forward pass, as soon as its results are. */
void pl_fn_drop(pl_eager *e, pl_fn *fn);
void pl_fn_cut(pl_fn *fn, int edge); /* the formula has no gradient there */
/* Keeps value for backward, in slot saved_count++; returns the slot. */
int pl_save(pl_eager *e, pl_fn *fn, pl_value *value);

/* loss.backward(): runs every function reached, newest first, and fills the leaves' gradients. */
void pl_backward_from(pl_eager *e, pl_value *loss);

/* at::sum_to with its reduction's scratch space: drops value, returns the sum (or value as it is).
 */
pl_value *pl_sum_to(pl_eager *e, pl_value *value, int dims, const int64_t *sizes);
/* Drops value, returns it in the type (a new tensor, or value as it is). No autograd. */
pl_value *pl_cast_raw(pl_eager *e, pl_value *value, pl_dtype dtype);
/* The scratch space of a reduction kernel over the dimensions in `reduced` (a bit each). */
void pl_reduce_scratch(pl_eager *e, const pl_value *in, uint32_t reduced, int accumulator_bytes);

#endif
