/* single: the learner of one tree.
 *
 * It is CART (Breiman et al. 1984) with scikit-learn's defaults: grown until its leaves are pure,
 * squared error or Gini impurity. It leaves out pruning, missing values (samples have none) and
 * categories (they come as numbers). */
#include "lab/learn/grow.h"
#include "lab/learn/learners.h"
#include "lab/learn/options.h"
#include "lab/learn/random.h"
#include "lab/learn/tree_train.h"
#include "lend.h"

#include <math.h>
#include <stdlib.h>

typedef struct single {
    pl_learned learned;
    pl_trees trees; /* one */
} single;

static const pl_option options[] = {
    {"depth", 0, 0, 1e6, true}, /* 0: no limit */
    {"min_split", 2, 2, 1e9, true},   {"min_leaf", 1, 1, 1e9, true},
    {"features", 1, 0.001, 1, false}, /* share of the columns tried at a split */
    {"min_gain", 0, 0, 1e30, false},
};
enum { OPTIONS = sizeof options / sizeof *options };

static void close_single(pl_learned **learned) {
    if (!learned || !*learned) return;
    single *model = (single *)*learned;
    pl_trees_free(&model->trees);
    free(model);
    *learned = NULL;
}

static single *new_single(size_t columns, size_t classes) {
    single *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_tree, classes ? classes : 1};
    model->trees = (pl_trees){.columns = columns, .classes = classes};
    return model;
}

static pl_status train_single(pl_learned **out, const pl_samples *samples,
                              const pl_learn_settings *settings, pl_error *err) {
    const char *text = settings->options ? settings->options : "";
    *out = NULL;
    pl_status status = pl_options_check(text, options, OPTIONS, err);
    if (status == PL_OK) status = pl_tree_check_samples(samples, "tree", err);
    if (status != PL_OK) return status;
    double share = pl_options_number(text, options, OPTIONS, "features");
    pl_grow_settings grow = {
        .depth = (uint32_t)pl_options_number(text, options, OPTIONS, "depth"),
        .min_split = (uint32_t)pl_options_number(text, options, OPTIONS, "min_split"),
        .min_leaf = (uint32_t)pl_options_number(text, options, OPTIONS, "min_leaf"),
        .columns = (uint32_t)fmax(1, share * (double)samples->columns),
        .min_gain = pl_options_number(text, options, OPTIONS, "min_gain"),
    };
    pl_random random = pl_random_seed(settings->seed, 0);
    pl_sorted sorted;
    pl_grower *grower = NULL;
    double *weights = calloc(samples->count, sizeof *weights);
    single *model = new_single(samples->columns, samples->class_count);
    bool done = pl_sorted_open(&sorted, samples) && weights && model;
    for (size_t i = 0; done && i < samples->count; i++)
        weights[i] = samples->weights ? (double)samples->weights[i] : 1;
    if (done) done = (grower = pl_grower_new(&sorted, &grow)) != NULL;
    if (done)
        done = pl_grower_grow(grower, &model->trees, weights,
                              grow.columns < samples->columns ? &random : NULL);
    pl_grower_free(&grower);
    pl_sorted_close(&sorted);
    free(weights);
    *out = model ? &model->learned : NULL;
    if (done) return PL_OK;
    close_single(out);
    return pl_fail(err, PL_MISSING, "tree", -1, "out of memory");
}

static pl_status predict_single(const pl_learned *learned, const pl_samples *samples, float *out,
                                pl_error *err) {
    const single *model = (const single *)learned;
    pl_status status = pl_tree_check_columns(samples, model->trees.columns, "tree", err);
    if (status == PL_OK) pl_trees_predict_mean(&model->trees, samples, out);
    return status;
}

static void save_single(const pl_learned *learned, pl_writer *writer) {
    const single *model = (const single *)learned;
    pl_write_u32(writer, (uint32_t)model->trees.classes);
    pl_trees_write(&model->trees, writer);
}

static pl_learned *load_single(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* a tree sees columns only */
    size_t classes = pl_read_u32_in(reader, 0, PL_TREE_CLASSES, "a number of classes");
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 1,022 columns");
    if (reader->failure) return NULL;
    single *model = new_single(columns, classes);
    if (!model) pl_read_no_memory(reader);
    if (!model || pl_trees_read(&model->trees, reader)) return model ? &model->learned : NULL;
    pl_learned *learned = &model->learned;
    close_single(&learned);
    return NULL;
}

const pl_learner pl_learner_tree = {
    .name = "tree",
    .scaled = "as-is",
    .train = train_single,
    .predict = predict_single,
    .save = save_single,
    .load = load_single,
    .close = close_single,
};
