/* recipe: a model that is known by its layers and so can be built for any batch and sequence.
 *
 * An importer that reads a description (config.json, a layer spec, ONNX) makes one; a graph is
 * built for each question. Building costs microseconds per layer, and what depends on a size (a
 * window shorter than the sequence, a batch of one) comes out as PyTorch would do it. */
#ifndef PL_GRAPH_RECIPE_H
#define PL_GRAPH_RECIPE_H

#include "graph/graph.h"

typedef struct pl_recipe pl_recipe;
struct pl_recipe {
    pl_arena *arena; /* all of it, the recipe too */
    const char *name;
    int64_t batch, seq; /* where the job does not say; seq PL_UNKNOWN: the model has none */
    int64_t most_batch, most_seq;    /* the largest that may be asked for; INT64_MAX: any */
    bool batch_assumed, seq_assumed; /* the file does not say: reported to the caller */
    pl_dtype dtype;                  /* of the weights, where the file says; else float32 */
    const char *dtype_from;          /* in words, "as the config says"; static */
    const char **warnings;           /* of reading: reported with every estimate */
    size_t warning_count, warning_room;
    bool guessed;   /* a family taken for another, a shape assumed: the interval is wider */
    bool resembles; /* built as what its keys look like: no family is known by its name */
    int64_t
        unseen; /* parameters that keys may mean which what is built has not: towers beside it */
    const void *description; /* the importer's */
    /* Builds for one batch and sequence; the graph has its own arena and does not need the recipe.
     */
    pl_status (*build)(const pl_recipe *recipe, int64_t batch, int64_t seq, pl_budget *budget,
                       pl_graph **out, pl_error *err);
};

pl_recipe *pl_recipe_open(const char *name, pl_budget *budget); /* NULL: out of memory */
/* printf; false: out of memory. */
bool pl_recipe_warn(pl_recipe *recipe, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pl_recipe_close(pl_recipe **recipe);

#endif
