/* aten: PyTorch's operators, appended to a graph in the making with the sizes and types of their
 * results.
 *
 * One function per operator, or one for many that share a shape rule, with the target given. Rules:
 * aten/src/ATen/native (2.11). Sizes that do not go together make the builder fail with the
 * operator's name. PL_NONE stands for an absent tensor. Dimensions count from the end where
 * negative.
 *
 * Left out: strides, which pl_builder_finish finds (layout.h). */
#ifndef PL_GRAPH_ATEN_H
#define PL_GRAPH_ATEN_H

#include "graph/build.h"

/* ---- pointwise ---- */
int32_t pl_aten_unary(pl_builder *b, const char *target, int32_t x); /* "aten.relu.default" */
/* Broadcast, types promoted; comparisons ("aten.le.Tensor") give bool. */
int32_t pl_aten_binary(pl_builder *b, const char *target, int32_t x, int32_t y);
/* With a number: "aten.mul.Tensor" (as exports write x * 2), "aten.pow.Tensor_Scalar" (its argument
 * is called exponent), "aten.div.Tensor". */
int32_t pl_aten_scalar(pl_builder *b, const char *target, int32_t x, double value);
int32_t pl_aten_add(pl_builder *b, int32_t x, int32_t y);
int32_t pl_aten_mul(pl_builder *b, int32_t x, int32_t y);
int32_t pl_aten_gelu(pl_builder *b, int32_t x, bool tanh); /* approximate="tanh" */
int32_t pl_aten_where(pl_builder *b, int32_t condition, int32_t x, int32_t y);
int32_t pl_aten_masked_fill(pl_builder *b, int32_t x, int32_t mask, double value);
int32_t pl_aten_dropout(pl_builder *b, int32_t x, double p); /* train=True; p = 0 is still a call */
int32_t pl_aten_to(pl_builder *b, int32_t x, pl_dtype dtype);     /* x.to(dtype): aten.to.dtype */
int32_t pl_aten_type_as(pl_builder *b, int32_t x, int32_t other); /* in other's type of then */
int32_t pl_aten_clone(pl_builder *b, int32_t x);
int32_t pl_aten_softmax(pl_builder *b, int32_t x, int dim, pl_dtype dtype); /* dtype 0: x's */

/* ---- products ---- */
int32_t pl_aten_linear(pl_builder *b, int32_t x, int32_t weight, int32_t bias);
int32_t pl_aten_matmul(pl_builder *b, int32_t x, int32_t y);
int32_t pl_aten_bmm(pl_builder *b, int32_t x, int32_t y);
int32_t pl_aten_addmm(pl_builder *b, int32_t bias, int32_t x, int32_t y);
int32_t pl_aten_baddbmm(pl_builder *b, int32_t self, int32_t x, int32_t y, double beta,
                        double alpha);
/* stride .. dilation: one number per spatial dimension; dims 1 to 3: aten.conv1d.default, ...
 * weight [out, in / groups, k...]. */
int32_t pl_aten_conv(pl_builder *b, int dims, int32_t x, int32_t weight, int32_t bias,
                     const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                     int64_t groups);
int32_t pl_aten_conv_transpose(pl_builder *b, int dims, int32_t x, int32_t weight, int32_t bias,
                               const int64_t *stride, const int64_t *padding,
                               const int64_t *output_padding, int64_t groups,
                               const int64_t *dilation);
/* q [.., L, d], k [.., S, d], v [.., S, e]; scale NAN: left out. */
int32_t pl_aten_attention(pl_builder *b, int32_t q, int32_t k, int32_t v, int32_t mask,
                          double dropout, bool causal, double scale, bool grouped);
/* mode "lstm", "gru", "rnn_tanh", "rnn_relu"; x [N, L, in] where batch_first, else [L, N, in];
 * state: h0 (and c0) [layers * directions, N, hidden]; params as nn.LSTM orders them. Returns the
 * output; out_state: [1 or 2], may be NULL. */
int32_t pl_aten_recurrent(pl_builder *b, const char *mode, int32_t x, const int32_t *state,
                          int param_count, const int32_t *params, bool bias, int64_t layers,
                          double dropout, bool bidirectional, bool batch_first, int32_t *out_state);

/* ---- normalisation ---- */
/* Over the last `dims` dimensions. */
int32_t pl_aten_layer_norm(pl_builder *b, int32_t x, int dims, int32_t weight, int32_t bias,
                           double eps);
int32_t pl_aten_rms_norm(pl_builder *b, int32_t x, int dims, int32_t weight, double eps);
int32_t pl_aten_group_norm(pl_builder *b, int32_t x, int64_t groups, int32_t weight, int32_t bias,
                           double eps);
int32_t pl_aten_batch_norm(pl_builder *b, int32_t x, int32_t weight, int32_t bias, int32_t mean,
                           int32_t variance, double momentum, double eps);

/* ---- views and copies ---- */
/* One size may be -1. Targets "aten.view.default" and "aten.reshape.default". */
int32_t pl_aten_view(pl_builder *b, int32_t x, int dims, const int64_t *sizes);
int32_t pl_aten_reshape(pl_builder *b, int32_t x, int dims, const int64_t *sizes);
int32_t pl_aten_flatten(pl_builder *b, int32_t x, int from, int to);
int32_t pl_aten_transpose(pl_builder *b, int32_t x, int a, int c);
int32_t pl_aten_permute(pl_builder *b, int32_t x, int dims, const int64_t *order);
int32_t pl_aten_contiguous(pl_builder *b, int32_t x);
int32_t pl_aten_unsqueeze(pl_builder *b, int32_t x, int dim);
int32_t pl_aten_squeeze(pl_builder *b, int32_t x, int dim);
int32_t pl_aten_expand(pl_builder *b, int32_t x, int dims, const int64_t *sizes); /* -1: as it is */
int32_t pl_aten_repeat(pl_builder *b, int32_t x, int dims, const int64_t *times);
int32_t pl_aten_slice(pl_builder *b, int32_t x, int dim, int64_t start, int64_t end); /* clamped */
int32_t pl_aten_select(pl_builder *b, int32_t x, int dim, int64_t index);
int32_t pl_aten_cat(pl_builder *b, int count, const int32_t *parts, int dim);
int32_t pl_aten_stack(pl_builder *b, int count, const int32_t *parts, int dim);
/* Into `count` equal parts ("aten.chunk.default"), of given sizes
 * ("aten.split_with_sizes.default"), of one size ("aten.split.Tensor"). parts: [count]. */
void pl_aten_chunk(pl_builder *b, int32_t x, int count, int dim, int32_t *parts);
void pl_aten_split(pl_builder *b, int32_t x, int count, const int64_t *sizes, int dim,
                   int32_t *parts);
/* padding: pairs from the last dimension on, as F.pad; constant 0. */
int32_t pl_aten_pad(pl_builder *b, int32_t x, int count, const int64_t *padding);

/* ---- reductions, pooling ---- */
/* "aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default" over one dimension. */
int32_t pl_aten_reduce(pl_builder *b, const char *target, int32_t x, int dim, bool keep);
/* target "aten.max_pool2d.default", "aten.avg_pool1d.default", ...; ceil: ceil_mode. */
int32_t pl_aten_pool(pl_builder *b, const char *target, int dims, int32_t x, const int64_t *kernel,
                     const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                     bool ceil);
int32_t pl_aten_adaptive_pool(pl_builder *b, const char *target, int dims, int32_t x,
                              const int64_t *sizes);

/* ---- indices, makers ---- */
int32_t pl_aten_embedding(pl_builder *b, int32_t weight, int32_t indices,
                          int64_t padding_idx);       /* -1: none */
int32_t pl_aten_arange(pl_builder *b, int64_t count); /* int64 */
/* zeros, ones, full: "aten.zeros.default", ...; value of full. */
int32_t pl_aten_make(pl_builder *b, const char *target, pl_dtype dtype, int dims,
                     const int64_t *sizes, double value);
int32_t pl_aten_gather(pl_builder *b, int32_t x, int dim, int32_t index);
int32_t pl_aten_index_select(pl_builder *b, int32_t x, int dim, int32_t index);
int32_t pl_aten_cumsum(pl_builder *b, int32_t x, int dim);
/* x[i, j, ..]: "aten.index.Tensor"; PL_NONE: a whole dimension; index tensors are broadcast and
 * stand next to each other. */
int32_t pl_aten_index(pl_builder *b, int32_t x, int count, const int32_t *indices);

/* ---- losses ---- */
/* logits [N, C] or [N, C, ..], target [N, ..] int64: aten.cross_entropy_loss.default, 0-d. */
int32_t pl_aten_cross_entropy(pl_builder *b, int32_t logits, int32_t target, int64_t ignore_index);
int32_t pl_aten_mse_loss(pl_builder *b, int32_t x, int32_t target);

#endif
