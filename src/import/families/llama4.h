/* llama4: the layer of Llama 4's text model. */
#ifndef PL_IMPORT_FAMILIES_LLAMA4_H
#define PL_IMPORT_FAMILIES_LLAMA4_H

#include "import/families/decoder.h"

/* Whether the layer turns queries and keys by their positions; it attends within chunks then. */
bool pl_llama4_turns(pl_decoding *d, int64_t layer);
int32_t pl_llama4_layer(pl_decoding *d, int64_t index, int32_t x);

#endif
