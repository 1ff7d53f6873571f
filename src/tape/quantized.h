/* quantized: bitsandbytes' 4-bit weights on the device; the rules of fine-tuning's operators. */
#ifndef PL_TAPE_QUANTIZED_H
#define PL_TAPE_QUANTIZED_H

#include "tape/operator.h"

/* Params4bit.to(device) of a packed weight: quantises on the device, which holds the weight in bf16
 * meanwhile. Returns the packed tensor; what belongs to it (scales, tables) stays on the tape. */
pl_value *pl_quantized_new(pl_eager *e, const pl_tensor *tensor);
/* The type in which a model with packed weights is loaded: bf16, or fp16 in fp16 jobs. */
pl_dtype pl_quantized_loaded(const pl_eager *e, pl_dtype dtype);

#endif
