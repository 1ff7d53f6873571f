/* adaboost: AdaBoost.R2 (H. Drucker, "Improving Regressors using Boosting Techniques", 1997) over
 * exact trees, with scikit-learn's defaults: 50 trees of depth 3, linear loss, rows drawn by
 * weight.
 *
 * The prediction is the weighted median of the trees. Regression only: the papers use it so, and
 * Drucker's losses are of numbers. */
#include "lab/learn/adaboost.h"
#include "lab/learn/random.h"

#include "lab/learn/grow.h"
#include "lab/learn/learners.h"
#include "lab/learn/options.h"
#include "lab/learn/tree_train.h"
#include "lend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct adaboost {
    pl_learned learned;
    pl_trees trees;
    float *tree_weights; /* [trees] weights in the median */
} adaboost;

enum { MOST_TREES = 10000 };

static const pl_option options[] = {
    {"trees", 50, 1, MOST_TREES, true}, {"depth", 3, 0, 1e6, true}, /* 0: no limit */
    {"min_leaf", 1, 1, 1e9, true},      {"rate", 1, 1e-6, 10, false},
    {"loss", 0, 1, 0, false}, /* linear, square, exponential; default linear */
};
enum { OPTIONS = sizeof options / sizeof *options };

static const char *const loss_names[] = {
    [PL_ADABOOST_LINEAR] = "linear",
    [PL_ADABOOST_SQUARE] = "square",
    [PL_ADABOOST_EXPONENTIAL] = "exponential",
};
enum { LOSSES = sizeof loss_names / sizeof *loss_names };

bool pl_adaboost_reweigh(double *weights, double *errors, size_t count, pl_adaboost_loss loss,
                         double rate, double *tree_weight) {
    double most = 0, mean = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        if (weights[i] > 0 && errors[i] > most) most = errors[i];
    for (size_t i = 0; i < count; i++) {
        double e = most > 0 ? fmin(errors[i] / most, 1) : 0;
        errors[i] = loss == PL_ADABOOST_SQUARE        ? e * e
                    : loss == PL_ADABOOST_EXPONENTIAL ? 1 - exp(-e)
                                                      : e;
        mean += weights[i] * errors[i];
    }
    *tree_weight = mean <= 0;
    if (mean <= 0 || mean >= 0.5) return false;
    double beta = mean / (1 - mean);
    *tree_weight = rate * log(1 / beta);
    for (size_t i = 0; i < count; i++) {
        weights[i] *= pow(beta, (1 - errors[i]) * rate);
        sum += weights[i];
    }
    for (size_t i = 0; i < count; i++) weights[i] /= sum;
    return true;
}

static int by_value(const void *a, const void *b) {
    const pl_vote *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

float pl_weighted_median(pl_vote *votes, size_t count) {
    double all = 0, below = 0;
    if (count <= 64) { /* faster than a call per comparison */
        for (size_t i = 1; i < count; i++) {
            pl_vote vote = votes[i];
            size_t at = i;
            for (; at > 0 && votes[at - 1].value > vote.value; at--) votes[at] = votes[at - 1];
            votes[at] = vote;
        }
    } else {
        qsort(votes, count, sizeof *votes, by_value);
    }
    /* Equal values may stand in any order: the value reached is the same, but a sum's rounding must
     * not decide, so both sums run the same way. */
    for (size_t i = 0; i < count; i++) all += (double)votes[i].weight;
    for (size_t i = 0; i < count; i++) {
        below += (double)votes[i].weight;
        if (below >= 0.5 * all) return votes[i].value;
    }
    return votes[count - 1].value;
}

static void close_adaboost(pl_learned **learned) {
    if (!learned || !*learned) return;
    adaboost *model = (adaboost *)*learned;
    pl_trees_free(&model->trees);
    free(model->tree_weights);
    free(model);
    *learned = NULL;
}

static adaboost *new_adaboost(size_t columns, size_t trees) {
    adaboost *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_adaboost, 1};
    model->trees.columns = columns;
    model->tree_weights = calloc(trees, sizeof *model->tree_weights);
    if (model->tree_weights) return model;
    pl_learned *learned = &model->learned;
    close_adaboost(&learned);
    return NULL;
}

/* Rows drawn by weight, with replacement: counts. sums: [count] working memory. */
static void draw(double *counts, const double *weights, double *sums, size_t n, pl_random *random) {
    double sum = 0;
    size_t last = 0; /* of a positive weight: never past it, whatever the rounding */
    for (size_t i = 0; i < n; i++) {
        sums[i] = sum += weights[i];
        if (weights[i] > 0) last = i;
    }
    memset(counts, 0, n * sizeof *counts);
    for (size_t d = 0; d < n; d++) {
        double at = pl_random_unit(random) * sum;
        size_t low = 0, high = last;
        while (low < high) { /* the first whose sum is above */
            size_t middle = (low + high) / 2;
            if (sums[middle] > at)
                high = middle;
            else
                low = middle + 1;
        }
        counts[low] += 1;
    }
}

/* Mean loss over the samples of the model so far; for the curve. */
static double squared_error(const adaboost *model, const pl_samples *samples) {
    pl_vote votes[MOST_TREES > 256 ? 256 : MOST_TREES];
    double sum = 0;
    if (!samples || !samples->targets || model->trees.count > 256) return NAN;
    for (size_t i = 0; i < samples->count; i++) {
        const float *row = samples->values + i * samples->columns;
        for (size_t t = 0; t < model->trees.count; t++)
            votes[t] =
                (pl_vote){pl_tree_leaf(&model->trees, t, row)->value, model->tree_weights[t]};
        double off = (double)pl_weighted_median(votes, model->trees.count);
        off -= (double)samples->targets[i];
        sum += off * off;
    }
    return sum / (double)samples->count;
}

static void report(const adaboost *model, const pl_samples *samples,
                   const pl_learn_settings *settings, size_t trees) {
    if (!settings->progress) return;
    pl_epoch epoch = {(int)model->trees.count, (int)trees, squared_error(model, samples),
                      squared_error(model, settings->valid)};
    settings->progress(&epoch, settings->progress_context);
}

typedef struct memory {
    double *weights, *errors, *counts, *sums; /* [count] each */
    pl_grower *grower;
    pl_sorted sorted;
} memory;

static bool boost(adaboost *model, memory *m, const pl_samples *samples,
                  const pl_learn_settings *settings, const pl_grow_settings *grow, size_t trees,
                  pl_adaboost_loss loss, double rate) {
    const size_t n = samples->count;
    double sum = 0;
    m->weights = calloc(n, sizeof(double));
    m->errors = calloc(n, sizeof(double));
    m->counts = calloc(n, sizeof(double));
    m->sums = calloc(n, sizeof(double));
    if (!m->weights || !m->errors || !m->counts || !m->sums) return false;
    if (!pl_sorted_open(&m->sorted, samples)) return false;
    if (!(m->grower = pl_grower_new(&m->sorted, grow))) return false;
    for (size_t i = 0; i < n; i++) {
        m->weights[i] = samples->weights ? (double)samples->weights[i] : 1;
        sum += m->weights[i];
    }
    for (size_t i = 0; i < n; i++) m->weights[i] /= sum;
    for (bool more = true; more && model->trees.count < trees;) {
        size_t t = model->trees.count;
        if (!pl_budget_poll(settings->budget)) return false;
        pl_random random = pl_random_seed(settings->seed, t + 1);
        draw(m->counts, m->weights, m->sums, n, &random);
        if (!pl_grower_grow(m->grower, &model->trees, m->counts, NULL)) return false;
        for (size_t i = 0; i < n; i++) {
            const pl_tree_node *leaf =
                pl_tree_leaf(&model->trees, t, samples->values + i * samples->columns);
            m->errors[i] = fabs((double)leaf->value - (double)samples->targets[i]);
        }
        double tree_weight;
        more = pl_adaboost_reweigh(m->weights, m->errors, n, loss, rate, &tree_weight);
        if (!more && !(tree_weight > 0)) { /* no better than chance: left out, unless it is alone */
            if (t > 0) {
                pl_trees_truncate(&model->trees, t);
                break;
            }
            tree_weight = 1;
        }
        model->tree_weights[t] = fmaxf((float)tree_weight, 1e-30f); /* a float, yet above 0 */
        report(model, samples, settings, trees);
    }
    return true;
}

static pl_status train_adaboost(pl_learned **out, const pl_samples *samples,
                                const pl_learn_settings *settings, pl_error *err) {
    const char *text = settings->options ? settings->options : "";
    char name[16] = "linear";
    *out = NULL;
    pl_status status = pl_options_check(text, options, OPTIONS, err);
    if (status == PL_OK) status = pl_tree_check_samples(samples, "adaboost", err);
    if (status != PL_OK) return status;
    if (samples->class_count)
        return pl_fail(err, PL_USAGE, "adaboost", -1, "AdaBoost.R2 learns numbers, not classes");
    size_t loss = 0;
    pl_options_text(text, "loss", name, sizeof name);
    while (loss < LOSSES && strcmp(loss_names[loss], name) != 0) loss++;
    if (loss == LOSSES)
        return pl_fail(err, PL_USAGE, "loss", -1,
                       "'%s' is not a loss: linear, square or exponential", name);
    size_t trees = (size_t)pl_options_number(text, options, OPTIONS, "trees");
    pl_grow_settings grow = {
        .depth = (uint32_t)pl_options_number(text, options, OPTIONS, "depth"),
        .min_split = 2,
        .min_leaf = (uint32_t)pl_options_number(text, options, OPTIONS, "min_leaf"),
        .columns = (uint32_t)samples->columns,
    };
    memory m = {0};
    adaboost *model = new_adaboost(samples->columns, trees);
    bool done = model && boost(model, &m, samples, settings, &grow, trees, (pl_adaboost_loss)loss,
                               pl_options_number(text, options, OPTIONS, "rate"));
    pl_grower_free(&m.grower);
    pl_sorted_close(&m.sorted);
    free(m.weights);
    free(m.errors);
    free(m.counts);
    free(m.sums);
    *out = model ? &model->learned : NULL;
    if (done) return PL_OK;
    close_adaboost(out);
    return pl_fail(err, PL_MISSING, "adaboost", -1, "out of memory");
}

static pl_status predict_adaboost(const pl_learned *learned, const pl_samples *samples, float *out,
                                  pl_error *err) {
    const adaboost *model = (const adaboost *)learned;
    const size_t trees = model->trees.count;
    pl_status status = pl_tree_check_columns(samples, model->trees.columns, "adaboost", err);
    if (status != PL_OK) return status;
    pl_vote few[256], *votes = few;
    if (trees > sizeof few / sizeof *few) votes = calloc(trees, sizeof *votes);
    if (!votes) return pl_fail(err, PL_MISSING, "adaboost", -1, "out of memory");
    for (size_t i = 0; i < samples->count; i++) {
        const float *row = samples->values + i * samples->columns;
        for (size_t t = 0; t < trees; t++)
            votes[t] =
                (pl_vote){pl_tree_leaf(&model->trees, t, row)->value, model->tree_weights[t]};
        out[i] = pl_weighted_median(votes, trees);
    }
    if (votes != few) free(votes);
    return PL_OK;
}

/* The trees (tree.h), then their weights in the median, f32 each. */
static void save_adaboost(const pl_learned *learned, pl_writer *writer) {
    const adaboost *model = (const adaboost *)learned;
    pl_trees_write(&model->trees, writer);
    pl_write_floats(writer, model->tree_weights, model->trees.count);
}

static pl_learned *load_adaboost(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* trees see columns only */
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 1,022 columns");
    pl_trees trees = {.columns = columns};
    if (reader->failure || !pl_trees_read(&trees, reader)) return NULL;
    if (trees.count > MOST_TREES || !pl_read_has(reader, trees.count, sizeof(float)))
        pl_read_fail(reader, "a weight a tree, of at most 10,000");
    adaboost *model = reader->failure ? NULL : new_adaboost(columns, trees.count);
    if (!reader->failure && !model) pl_read_no_memory(reader);
    if (!model) {
        pl_trees_free(&trees);
        return NULL;
    }
    model->trees = trees;
    pl_read_floats(reader, model->tree_weights, trees.count);
    for (size_t t = 0; !reader->failure && t < trees.count; t++)
        if (!(model->tree_weights[t] > 0)) pl_read_fail(reader, "positive weights of the trees");
    if (!reader->failure) return &model->learned;
    pl_learned *learned = &model->learned;
    close_adaboost(&learned);
    return NULL;
}

const pl_learner pl_learner_adaboost = {
    .name = "adaboost",
    .scaled = "as-is",
    .train = train_adaboost,
    .predict = predict_adaboost,
    .save = save_adaboost,
    .load = load_adaboost,
    .close = close_adaboost,
};
