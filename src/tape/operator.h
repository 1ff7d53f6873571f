/* operator: the table of what each operator allocates, keeps for backward and allocates there.
 *
 * A row covers every overload of its name ("mul" is aten.mul.Tensor and aten.mul.Scalar) unless a
 * row names one ("add.Tensor"), and its in-place form ("mul_") unless that has a row. Aliases
 * ("subtract") name the operator that they are. Most rows are
 * two short strings, read by rule.c:
 *
 *   forward   what the operator allocates, in order
 *     o  its output (each of them)
 *     t T  scratch like the output, like the first argument
 *     b  the same as bool
 *     s  a scratch number, 0-d
 *     e i m  one more like the output, of its type, int64 or bool: kept if saved as x, and the
 *            second output
 *     c  the first argument in the output's type, if it has another
 *     =  nothing: the output is its first argument as it is
 *     - 1..9  frees the oldest scratch, the newest (1), the one before it (2)...: the rest goes
 *             at the end
 *   backward  one part per argument, by position, split by '|':  SAVED:FORMULA
 *     saved, if the argument wants a gradient:
 *       a b c d  the arguments   r  the result   x  the i or m above
 *     formula, what is allocated to make the gradient, in order:
 *       g  nothing: the gradient is passed on
 *       v  nothing: a view of the output's gradient, expanded
 *       n  the gradient, like the output's gradient
 *       N  the gradient, of the argument's sizes
 *       t T  scratch like the output's gradient, like the argument
 *       m M  the same as bool   f F  the same in float32   i I  the same in int64
 *       Q  scratch like N
 *       c  the same, if the argument is of another type
 *       s  a scratch number, 0-d
 *       - 1..9  frees scratch, as above
 *     an empty part: no gradient.
 * Gradients of a broadcast argument are then summed, and cast, by the engine. */
#ifndef PL_TAPE_OPERATOR_H
#define PL_TAPE_OPERATOR_H

#include "tape/eager.h"

typedef struct pl_operator pl_operator;
typedef void pl_run(pl_eager *e, const pl_node *node, const pl_operator *op);

/* What autocast does with an operator's floating-point arguments
 * (aten/src/ATen/autocast_mode.h, 2.11). */
typedef enum pl_cast_rule {
    PL_CAST_NONE,    /* runs in the type it is given */
    PL_CAST_LOWER,   /* bf16 or fp16 */
    PL_CAST_FLOAT,   /* fp32 */
    PL_CAST_PROMOTE, /* the widest of its arguments */
    PL_CAST_RESULT,  /* its result is fp32, its arguments are left alone */
} pl_cast_rule;

struct pl_operator {
    const char *name;
    const char *same_as; /* an alias: the row of this name holds, all else is left out; else NULL */
    pl_run *run;         /* NULL: by the two strings */
    pl_cast_rule autocast;
    const char *forward, *backward;
    pl_work_kind work; /* of its kernels, forward and backward */
    pl_kernel_class class;
    uint8_t kernels[2]; /* forward and backward; 0: one per tensor that is allocated */
    bool zeroes;        /* backward fills with zeros what it then adds to or scatters into */
    const char *source; /* where the rule was read or measured */
};

/* The row of a node's target ("aten.mul.Tensor"), an alias's that of the original, or NULL. */
const pl_operator *pl_operator_find(const char *target);
const pl_operator *pl_operator_at(size_t index); /* NULL past the end; sorted by name */
/* Whether target names the in-place form of a row. */
bool pl_operator_in_place(const char *target);

/* Runs one node: autocast, the row's rule, outputs into e->env. Unknown operators take the safe
 * rule. */
void pl_run_node(pl_eager *e, const pl_node *node, const pl_operator *op);
pl_run pl_run_by_rule, pl_run_unknown;
/* The backward of a row: fn->rule is its backward string. */
pl_backward pl_rule_backward;

/* Tells fn, a pl_rule_backward over self first, that it changed self in place: a view's gradient
 * goes by way of its base. */
void pl_fn_in_place(pl_eager *e, pl_fn *fn, const pl_value *self);

/* ---- for rules ---- */

pl_value *pl_arg_value(pl_eager *e, const pl_node *node,
                       const char *name);                                 /* borrowed, NULL: none */
pl_value *pl_arg_at(pl_eager *e, const pl_node *node, uint32_t position); /* borrowed, NULL: none */
/* Room for `count` numbers of the function's own, 0 at first: fn->numbers. false: out of memory,
 * which e keeps. */
bool pl_fn_numbers(pl_eager *e, pl_fn *fn, size_t count);
/* A dimension counted from the end (-1: the last) as one counted from the start. */
int64_t pl_wrap_dim(int64_t dim, int dims);
/* The same of an argument; 0 where it is out of range. */
int pl_dim_arg(const pl_node *node, const char *name, int64_t otherwise, int dims);
/* Gives output i its value (takes the reference). */
void pl_set_output(pl_eager *e, const pl_node *node, uint32_t i, pl_value *value);
const pl_tensor *pl_output_tensor(const pl_eager *e, const pl_node *node, uint32_t i);
/* Allocates output i: sizes as in the graph, the given type, memory format after `like` (may be
 * NULL). */
pl_value *pl_new_output(pl_eager *e, const pl_node *node, uint32_t i, pl_dtype dtype,
                        const pl_value *like);
/* The type output i has in this run, from the types in the graph and those of the inputs now. */
pl_dtype pl_output_dtype(pl_eager *e, const pl_node *node, uint32_t i);
pl_dtype pl_promote(pl_dtype a, pl_dtype b);

/* Autocast's cast of one argument: returns a reference (value itself where nothing is to be cast).
 */
pl_value *pl_autocast_to(pl_eager *e, pl_value *value, pl_dtype dtype);
/* After node i: undoes the casts whose module has returned (op_view.c). */
void pl_uncast(pl_eager *e, int32_t i);
/* Products take arguments of one type. A graph that is asked about in another type than it was
 * exported in does not show its casts (x.to(y.dtype) of x's own type is no operator): where types
 * differ there was one, to the parameter's type, else to the narrower one. Replaces what it casts. */
void pl_agree(pl_eager *e, int count, pl_value **values);
/* value.to(dtype) with autograd: returns a reference. */
pl_value *pl_to(pl_eager *e, pl_value *value, pl_dtype dtype);
/* The same, where it copies, without gaps and in order. */
pl_value *pl_to_contiguous(pl_eager *e, pl_value *value, pl_dtype dtype);
pl_value *pl_clone(pl_eager *e, pl_value *value);
pl_value *pl_contiguous(pl_eager *e, pl_value *value);
/* Views with autograd; each returns a reference. */
pl_value *pl_reshape(pl_eager *e, pl_value *value, int dims, const int64_t *sizes);
pl_value *pl_permute(pl_eager *e, pl_value *value, const int *order);
pl_value *pl_transpose(pl_eager *e, pl_value *value, int a, int b);
pl_value *pl_expand(pl_eager *e, pl_value *value, int dims, const int64_t *sizes);
pl_value *pl_narrow(pl_eager *e, pl_value *value, int dim, int64_t length); /* its first elements */
/* Matrix products with autograd and cuBLAS's workspaces; each returns a reference. */
pl_value *pl_mm(pl_eager *e, pl_value *a, pl_value *b);
pl_value *pl_addmm(pl_eager *e, pl_value *bias, pl_value *a, pl_value *b);
pl_value *pl_bmm(pl_eager *e, pl_value *a, pl_value *b);
pl_value *pl_matmul(pl_eager *e, pl_value *a, pl_value *b);
pl_value *pl_linear(pl_eager *e, pl_value *x, pl_value *weight, pl_value *bias);
/* cuBLAS takes its workspace for this thread, once. */
void pl_blas(pl_eager *e);
/* The same with cublasLt's beside it. */
void pl_blas_lt(pl_eager *e);
/* What rules are made of, for replay_rules.c too. */
void pl_conv_workspace(pl_eager *e, const pl_conv *conv, pl_conv_pass pass);
pl_value *pl_sorted_gradient(pl_eager *e, const pl_edge *edge, int64_t count);
void pl_norm_stage(pl_eager *e, const pl_value *x, int values);
extern pl_backward pl_sdpa_backward, pl_index_backward; /* rule: pl_attention; saved: indices */
/* Pointwise operators that other rules are made of, with autograd. */
pl_value *pl_pointwise(pl_eager *e, const char *name, const char *backward, pl_value *a,
                       pl_value *b);
pl_value *pl_softmax_value(pl_eager *e, pl_value *x, pl_dtype dtype, bool log, int dim);
pl_value *pl_dropout_value(pl_eager *e, pl_value *x);
/* Over one dimension (dim < 0: all of them) which is lost; the mean of all; the p-norm over one
 * dimension. */
pl_value *pl_sum_value(pl_eager *e, pl_value *x, int dim);
pl_value *pl_mean_value(pl_eager *e, pl_value *x);
/* The mean over the dimensions from `first` on, which stay as 1. */
pl_value *pl_mean_kept(pl_eager *e, pl_value *x, int first);
pl_value *pl_norm_value(pl_eager *e, pl_value *x, int dim, bool keep, double p);
/* F.cross_entropy of logits [N, C, ...] and class indices; returns the loss. */
pl_value *pl_cross_entropy(pl_eager *e, pl_value *logits, pl_value *target);
pl_value *pl_mse(pl_eager *e, pl_value *input, pl_value *target);

/* Rules with code of their own, by file. */
extern pl_run pl_run_view, pl_run_permute, pl_run_expand, pl_run_slice, pl_run_select, pl_run_split,
    pl_run_unbind, pl_run_to, pl_run_contiguous, pl_run_alias, pl_run_detach, pl_run_clone,
    pl_run_strided, pl_run_part_of_complex;
extern pl_run pl_run_linear, pl_run_matmul, pl_run_mm, pl_run_bmm, pl_run_addmm, pl_run_baddbmm,
    pl_run_einsum, pl_run_grouped, pl_run_solve_triangular;
extern pl_run pl_run_convolution;
extern pl_run pl_run_batch_norm, pl_run_layer_norm, pl_run_group_norm, pl_run_rms_norm,
    pl_run_instance_norm;
extern pl_run pl_run_attention, pl_run_recurrent, pl_run_cell;
extern pl_run pl_run_dropout, pl_run_feature_dropout, pl_run_softmax, pl_run_embedding, pl_run_cat,
    pl_run_stack, pl_run_mean, pl_run_sum, pl_run_adaptive_pool, pl_run_cross_entropy,
    pl_run_nll_loss, pl_run_prelu, pl_run_pad, pl_run_copy, pl_run_make, pl_run_nothing,
    pl_run_item, pl_run_loss, pl_run_index, pl_run_many, pl_run_keep_input, pl_run_roll,
    pl_run_diff, pl_run_values_and_indices, pl_run_views, pl_run_clamp, pl_run_index_put,
    pl_run_margin_loss, pl_run_made_loss;
extern pl_run pl_run_norm, pl_run_var_mean, pl_run_embedding_bag;
extern pl_run pl_run_linear_4bit, pl_run_to_result, pl_run_to_unless_autocast, pl_run_requires_grad;
extern pl_run pl_run_to_autocast;
extern pl_run pl_run_bilinear, pl_run_cdist, pl_run_cosine, pl_run_pairwise, pl_run_columns,
    pl_run_grid_sample, pl_run_affine_grid, pl_run_rfft, pl_run_weight_norm;

#endif
