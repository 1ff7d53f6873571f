/* scan: what decoders without attention in every layer are made of, as transformers runs it in plain
 * PyTorch: causal convolutions and the gated delta rule in chunks. */
#ifndef PL_IMPORT_FAMILIES_SCAN_H
#define PL_IMPORT_FAMILIES_SCAN_H

#include "import/families/decoder.h"

/* x.to(like.dtype): of a job in another precision, whatever like then is. */
int32_t pl_scan_to_type_of(pl_builder *b, int32_t x, int32_t like);
/* x.to(torch.float32, memory_format=torch.contiguous_format), and the same to like's type: a copy is
 * contiguous, what has the type stays as it is. */
int32_t pl_scan_float_contiguous(pl_builder *b, int32_t x);
int32_t pl_scan_contiguous_as(pl_builder *b, int32_t x, int32_t like);
/* x[:, :, :, ..] of one place of a dimension, written over: select, copy_. */
void pl_scan_put(pl_builder *b, int32_t whole, int dim, int64_t index, int32_t part);

/* The parameters of a convolution over each channel alone, weight [channels,1,kernel], for code that
 * does not call the module; *bias PL_NONE where it has none. */
int32_t pl_scan_conv_weight(pl_builder *b, const char *name, int64_t channels, int64_t kernel,
                            bool with_bias, int32_t *bias);
/* causal_conv1d_fn: x [B,channels,S] to the same; act NULL: none. */
int32_t pl_scan_conv(pl_hf *m, int32_t x, int32_t weight, int32_t bias, const char *act);

/* delta.c: in place of a layer's attention; PL_NONE: the layer has attention. */
int32_t pl_delta_mix(pl_decoding *d, int64_t layer, int32_t x);       /* Qwen 3 Next */
int32_t pl_delta_mix_split(pl_decoding *d, int64_t layer, int32_t x); /* Qwen 3.5 */
int32_t pl_delta_mix_olmo(pl_decoding *d, int64_t layer, int32_t x);  /* OLMo hybrid */

#endif
