/* hybrid_learn: how `hybrid` learns. */
#ifndef PL_LAB_HYBRID_LEARN_H
#define PL_LAB_HYBRID_LEARN_H

#include "lab/train/learned.h"
#include "lend.h"

extern const pl_method pl_hybrid_method;

pl_status pl_hybrid_learn(pl_weights **out, const pl_training_set *set, pl_error *err);

#endif
