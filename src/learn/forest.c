/* forest: what a random forest answers: the mean of its trees. They are grown by forest_train.c. */
#include "learn/forest.h"

#include <stdlib.h>

void pl_forest_close(pl_learned **learned) {
    if (!learned || !*learned) return;
    pl_forest *model = (pl_forest *)*learned;
    pl_trees_free(&model->trees);
    free(model);
    *learned = NULL;
}

pl_forest *pl_forest_new(size_t columns, size_t classes) {
    pl_forest *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_forest, classes ? classes : 1};
    model->trees = (pl_trees){.columns = columns, .classes = classes};
    return model;
}

static pl_status predict_forest(const pl_learned *learned, const pl_samples *samples, float *out,
                                pl_error *err) {
    const pl_forest *model = (const pl_forest *)learned;
    pl_status status = pl_tree_check_columns(samples, model->trees.columns, "forest", err);
    if (status == PL_OK) pl_trees_predict_mean(&model->trees, samples, out);
    return status;
}

/* u32 classes (0: a regression), then the trees (tree.h). */
static void save_forest(const pl_learned *learned, pl_writer *writer) {
    const pl_forest *model = (const pl_forest *)learned;
    pl_write_u32(writer, (uint32_t)model->trees.classes);
    pl_trees_write(&model->trees, writer);
}

static pl_learned *load_forest(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* trees see columns only */
    size_t classes = pl_read_u32_in(reader, 0, PL_TREE_CLASSES, "a number of classes");
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 1,022 columns");
    if (reader->failure) return NULL;
    pl_forest *model = pl_forest_new(columns, classes);
    if (!model) pl_read_no_memory(reader);
    if (!model || pl_trees_read(&model->trees, reader)) return model ? &model->learned : NULL;
    pl_learned *learned = &model->learned;
    pl_forest_close(&learned);
    return NULL;
}

const pl_learner pl_learner_forest = {
    .name = "forest",
    .scaled = "as-is",
    .predict = predict_forest,
    .save = save_forest,
    .load = load_forest,
    .close = pl_forest_close,
};
