/* place: the model's parameters and buffers on the device, in the order in which Module.to makes
 * them. */
#ifndef PL_TAPE_PLACE_H
#define PL_TAPE_PLACE_H

#include "tape/train.h"

/* model.to(device, dtype), and memory_format=torch.channels_last where the job asks for it. Fills
 * e.env and e.leaves. */
void pl_place_model(pl_trainer *train);
/* The type that a tensor of the model has in the job's precision. */
pl_dtype pl_place_dtype(const pl_trainer *train, pl_dtype dtype);
/* x.to(memory_format=torch.channels_last): takes the reference, returns another. */
pl_value *pl_to_channels_last(pl_eager *e, pl_value *value);

#endif
