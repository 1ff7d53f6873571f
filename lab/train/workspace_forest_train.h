/* workspace_forest_train: forests of convolutions' workspaces, learnt from measured ones. */
#ifndef PL_LAB_WORKSPACE_FOREST_TRAIN_H
#define PL_LAB_WORKSPACE_FOREST_TRAIN_H

#include "lab/jobs/convs.h"
#include "lab/learn/trained_train.h"
#include "lend.h"

/* Parts "workspace forward", "workspace data" and "workspace weight", and, where enough was
 * measured with cudnn.benchmark, "tried forward", "tried data" and "tried weight", added to
 * weights. apart: sorted layers (pl_conv_layers_sort) none of which, nor any near them, is learnt
 * from. settings: names, command, data and seed; options are the forest's own. */
pl_status pl_workspace_forest_train(pl_weights *weights, const pl_convs *convs,
                                    const pl_conv_layer *apart, size_t apart_count,
                                    const pl_trained_settings *settings, pl_error *err);
/* The layers that a chooser was asked about, malloc'ed, in no order and with doubles; NULL: out of
 * memory. */
pl_conv_layer *pl_workspace_chooser_layers(const pl_workspace_chooser *chooser, size_t *count);

#endif
