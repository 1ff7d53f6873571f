/* summary: a model of which only its layers' counts are known, no operators: what torchsummary and
 * torchinfo print. Enough for the estimators that look at counts. */
#ifndef PL_GRAPH_SUMMARY_H
#define PL_GRAPH_SUMMARY_H

#include "core/arena.h"
#include "core/error.h"

/* A leaf module, in forward order. */
typedef struct pl_summary_layer {
    const char *type;    /* its class: "Conv2d" */
    int64_t activations; /* elements of its output, per sample */
    int64_t parameters;
} pl_summary_layer;

typedef struct pl_summary {
    pl_arena *arena; /* all of it, the summary too */
    const char *name;
    const pl_summary_layer *layers;
    size_t layer_count;
    int64_t batch;                 /* PL_UNKNOWN: the text has -1 */
    int64_t parameters, trainable; /* as its totals say, or summed up */
    int64_t input_elements;        /* per sample; PL_UNKNOWN where the text does not say */
} pl_summary;

void pl_summary_close(pl_summary **summary); /* takes NULL and a pointer to NULL */

#endif
