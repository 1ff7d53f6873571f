/* finetune: a graph changed into what fine-tuning trains of it.
 *
 * head freezes all but the last layer. lora freezes the model and puts adapters of a low rank
 * beside linear layers; qlora does the same and keeps the frozen weights of the linear layers in
 * 4 bits. The names are the command's: all, head, lora-r16, lora-r16:q_proj,v_proj,
 * qlora-r16:all-linear. */
#ifndef PL_GRAPH_FINETUNE_H
#define PL_GRAPH_FINETUNE_H

#include "graph/graph.h"

typedef enum pl_finetune_kind {
    PL_FINETUNE_NONE, /* as exported */
    PL_FINETUNE_ALL,
    PL_FINETUNE_HEAD,
    PL_FINETUNE_LORA,
    PL_FINETUNE_QLORA
} pl_finetune_kind;

typedef struct pl_finetune {
    pl_finetune_kind kind;
    int64_t rank;        /* of the adapters */
    const char *modules; /* names split by commas, "all-linear", or NULL: the model type's own */
    bool checkpoint; /* the job checkpoints its blocks: the embeddings' output wants a gradient */
    bool plain; /* base(x) + b(a(x)): adapters in the model's type, no casts, no scaling (tests) */
} pl_finetune;

/* "lora-r16:q_proj,v_proj" and so on; modules points into text. PL_USAGE where it is none. */
pl_status pl_finetune_parse(pl_finetune *out, const char *text, pl_error *err);

/* Whether as exported, but checkpointed, is another graph (see finetune.c). */
bool pl_finetune_hooks(const pl_graph *graph);

/* Changes graph, all of whose sizes must be numbers, in place; what is new comes from its arena,
 * which must be its own (as pl_graph_bind and importers make it). PL_USAGE: modules that it has
 * not; the message lists those it has. After a failure the graph is as it was. */
pl_status pl_graph_finetune(pl_graph *graph, const pl_finetune *how, pl_error *err);

/* Elements of the experts that are kept in one parameter of three dimensions per layer, as transformers
 * 5 has them: no nn.Linear, so that neither bitsandbytes packs nor target_modules reach them. 0: none. */
int64_t pl_packed_experts(const pl_graph *graph);

/* The type of a weight of bitsandbytes' Linear4bit [out * in / 2, 1]: the only parameters of bytes.
 */
static inline bool pl_is_packed(const pl_tensor *tensor) {
    return tensor->role == PL_ROLE_PARAMETER && tensor->dtype == PL_DT_U8;
}

#endif
