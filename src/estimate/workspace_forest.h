/* workspace_forest: which formula a convolution's workspace follows, by the votes of a random
 * forest; an alternative to the trees of src/device/workspace_conv.c, from the same features and
 * among the same formulas. */
#ifndef PL_ESTIMATE_WORKSPACE_FOREST_H
#define PL_ESTIMATE_WORKSPACE_FOREST_H

#include "estimate/convs.h"
#include "estimate/weights.h"
#include "tape/tape.h"

/* ---- training ---- */

/* Parts "workspace forward", "workspace data" and "workspace weight", and, where enough was
 * measured with cudnn.benchmark, "tried forward", "tried data" and "tried weight", added to
 * weights. apart: sorted layers (pl_conv_layers_sort) none of which, nor any near them, is learnt
 * from. settings: names, command, data and seed; options are the forest's own. */
pl_status pl_workspace_forest_train(pl_weights *weights, const pl_convs *convs,
                                    const pl_conv_layer *apart, size_t apart_count,
                                    const pl_trained_settings *settings, pl_error *err);

/* ---- answering ---- */

/* What was answered, over all convolutions of a tape; bytes. */
typedef struct pl_workspace_tally {
    int64_t passes;        /* different ones */
    int64_t split_votes;   /* of them, those where fewer than 3 of 4 votes agree */
    int64_t largest;       /* workspace */
    int64_t largest_high;  /* the most that a tenth of the votes exceeds, of any pass */
    int64_t doubt;         /* the largest expected error of a pass, by its votes */
    int64_t largest_doubt; /* expected error of the pass with the largest workspace */
} pl_workspace_tally;

/* Answers for one tape, each different convolution worked out once. */
typedef struct pl_workspace_chooser pl_workspace_chooser;

/* weights: NULL, or without such parts: the answers are workspace.h's own. PL_INPUT: parts that
 * were trained on other features. The weights stay the caller's. */
pl_status pl_workspace_chooser_open(pl_workspace_chooser **out, const pl_weights *weights,
                                    pl_error *err);
void pl_workspace_chooser_close(pl_workspace_chooser **chooser);
/* Puts the chooser into a tape's device. */
void pl_workspace_chooser_serve(pl_workspace_chooser *chooser, pl_tape_device *device);
const pl_workspace_tally *pl_workspace_chooser_tally(const pl_workspace_chooser *chooser);
/* The layers that were asked about, malloc'ed, in no order and with doubles; NULL: out of memory.
 */
pl_conv_layer *pl_workspace_chooser_layers(const pl_workspace_chooser *chooser, size_t *count);

#endif
