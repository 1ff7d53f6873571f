/* workspace_forest: which formula a convolution's workspace follows, by the votes of a random
 * forest; an alternative to the trees of src/device/workspace_conv.c, from the same features and
 * among the same formulas. */
#ifndef PL_ESTIMATE_WORKSPACE_FOREST_H
#define PL_ESTIMATE_WORKSPACE_FOREST_H

#include "device/workspace.h"
#include "estimate/weights.h"
#include "tape/tape.h"

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
/* PL_OK, or why an answer could not be given: then what the tape made of it is of no use. */
pl_status pl_workspace_chooser_status(const pl_workspace_chooser *chooser, pl_error *err);
const pl_workspace_tally *pl_workspace_chooser_tally(const pl_workspace_chooser *chooser);
/* The convolutions that were asked about, malloc'ed, in no order, once per pass; NULL: out of
 * memory.
 */
pl_conv *pl_workspace_chooser_convs(const pl_workspace_chooser *chooser, size_t *count);

#endif
