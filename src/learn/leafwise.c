/* leafwise: what gradient boosting answers: a sum of trees. They are grown by leafwise_train.c. */
#include "learn/leafwise.h"

#include <stdlib.h>

void pl_leafwise_close(pl_learned **learned) {
    if (!learned || !*learned) return;
    pl_leafwise *model = (pl_leafwise *)*learned;
    pl_trees_free(&model->trees);
    free(model->base);
    free(model);
    *learned = NULL;
}

pl_leafwise *pl_leafwise_new(size_t columns, size_t classes) {
    pl_leafwise *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_leafwise, classes ? classes : 1};
    model->classes = classes;
    model->scores = classes <= 2 ? 1 : classes;
    model->trees.columns = columns;
    model->base = calloc(model->scores, sizeof *model->base);
    if (model->base) return model;
    pl_learned *learned = &model->learned;
    pl_leafwise_close(&learned);
    return NULL;
}

static pl_status predict_leafwise(const pl_learned *learned, const pl_samples *samples, float *out,
                                  pl_error *err) {
    const pl_leafwise *model = (const pl_leafwise *)learned;
    pl_status status = pl_tree_check_columns(samples, model->trees.columns, "leafwise", err);
    if (status != PL_OK) return status;
    pl_trees_predict_sum(&model->trees, samples, model->scores, model->base, out);
    if (model->learned.outputs == model->scores) return PL_OK;
    for (size_t i = samples->count; i-- > 0;) { /* two classes: the second one's logit over 0 */
        out[2 * i + 1] = out[i];
        out[2 * i] = 0;
    }
    return PL_OK;
}

/* u32 classes (0: a regression), one f32 per score to start from, then the trees (tree.h): one per
 * score and round. */
static void save_leafwise(const pl_learned *learned, pl_writer *writer) {
    const pl_leafwise *model = (const pl_leafwise *)learned;
    pl_write_u32(writer, (uint32_t)model->classes);
    pl_write_floats(writer, model->base, model->scores);
    pl_trees_write(&model->trees, writer);
}

static pl_learned *load_leafwise(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* trees see columns only */
    size_t classes = pl_read_u32_in(reader, 0, PL_TREE_CLASSES, "a number of classes");
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 1,022 columns");
    if (reader->failure) return NULL;
    pl_leafwise *model = pl_leafwise_new(columns, classes);
    if (!model) {
        pl_read_no_memory(reader);
        return NULL;
    }
    pl_learned *learned = &model->learned;
    if (pl_read_floats(reader, model->base, model->scores)) pl_trees_read(&model->trees, reader);
    if (!reader->failure && model->trees.count % model->scores)
        pl_read_fail(reader, "a tree a class in every round");
    if (!reader->failure) return learned;
    pl_leafwise_close(&learned);
    return NULL;
}

const pl_learner pl_learner_leafwise = {
    .name = "leafwise",
    .scaled = "as-is",
    .predict = predict_leafwise,
    .save = save_leafwise,
    .load = load_leafwise,
    .close = pl_leafwise_close,
};
