/* model: an opened model file, and the jobs that may be asked of it. */
#ifndef PL_ESTIMATE_MODEL_H
#define PL_ESTIMATE_MODEL_H

#include "graph/recipe.h"
#include "graph/summary.h"
#include "graph/trace.h"

struct pl_model {
    pl_graph *graph;      /* as the file has it; of a recipe, for built_batch and so on; of a trace,
                            names alone; NULL: a summary */
    pl_recipe *recipe;    /* NULL: no description */
    pl_trace *trace;      /* NULL: not recorded */
    pl_summary *summary;  /* NULL: operators are known */
    char recorded[240];   /* of a trace: how it was trained */
    char as_exported[96]; /* what the weights' type is, and who says so */
    int64_t built_batch, built_seq; /* of a recipe: what graph was built for */
    pl_dtype built_dtype;
    pl_symbol symbols[2]; /* of a recipe: batch and, where it has one, sequence */
    pl_model_info info;
    pl_limits limits; /* of the opening, and of estimates that have none of their own */
    pl_budget budget; /* of the opening; what the model holds counts against estimates too */
};

/* The graph for a job's batch and sequence: the model's own (then *owned is false), or one bound to
 * the values asked for or built for them within the budget, to be closed. *batch, *seq: what it stands for,
 * PL_UNKNOWN where not known.
 */
pl_status pl_model_graph(const pl_model *model, const pl_job *job, pl_budget *budget,
                         pl_graph **out, bool *owned, int64_t *batch, int64_t *seq, pl_error *err);
/* The same where sizes depend on data (graph->data), with those as large as they may be: a graph of
 * its own, to be closed. */
pl_status pl_model_worst(const pl_model *model, const pl_job *job, pl_budget *budget,
                         pl_graph **out, pl_error *err);

#endif
