/* hf_unknown: models whose name is not known, by their keys. */
#ifndef PL_IMPORT_HF_UNKNOWN_H
#define PL_IMPORT_HF_UNKNOWN_H

#include "import/hf.h"

bool pl_looks_like_llama(const pl_config *config);
/* Parameters that its keys may mean and Llama's plan has not: towers of other configurations
 * ("vision_config"), tables besides the vocabulary's. */
int64_t pl_unseen_parameters(const pl_config *config);

#endif
