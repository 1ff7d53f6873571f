/* seq2seq: what models of an encoder and a decoder share. */
#ifndef PL_IMPORT_FAMILIES_SEQ2SEQ_H
#define PL_IMPORT_FAMILIES_SEQ2SEQ_H

#include "import/hf.h"

/* The labels [batch, seq] moved one to the right, a start token before them: the decoder's input.
 */
int32_t pl_hf_shift_right(pl_hf *m, int32_t labels);
/* An embedding whose table is another parameter. */
int32_t pl_hf_tied_embedding(pl_hf *m, const char *name, int32_t table, int32_t ids,
                             int64_t padding_idx);
/* Cross entropy of all tokens, in the logits' type; loss and logits become the outputs. */
void pl_hf_seq2seq_loss(pl_hf *m, int32_t logits, int32_t labels);

#endif
