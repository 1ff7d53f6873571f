/* workspace_forest_train: the forests of convolutions' workspaces, learnt from measured ones.
 *
 * A row of training is one measured pass; its class is the formula that costs least: its error as a
 * share of the tensors' bytes, too low counting twice, and a little for not being exact (the cost
 * by which tools/workspace/fit.py grows the trees in workspace_tree.c). Rows count by the size of
 * their tensors, since large workspaces decide a peak. */
#include "lab/train/workspace_forest_train.h"
#include "lab/jobs/convs.h"
#include "lab/learn/trained_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lend.h"

/* Measured on an H200, whose features they have. */
enum { MEASURED_MAJOR = 9, MEASURED_MINOR = 0 };
enum { LEAST_TRIED = 100 /* rows */ };

static const pl_workspace_costs learning = {2, 3, 0.1};

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

/* Rows of one pass. */
typedef struct rows {
    float *values;    /* [count, PL_CONV_FEATURES] */
    int32_t *classes; /* [count]: a formula's number, then a class's */
    float *weights;   /* [count] */
    size_t count;
} rows;

static void rows_close(rows *r) {
    free(r->values);
    free(r->classes);
    free(r->weights);
}

static bool rows_open(rows *r, size_t room) {
    *r = (rows){.values = calloc(room + 1, PL_CONV_FEATURES * sizeof *r->values),
                .classes = calloc(room + 1, sizeof *r->classes),
                .weights = calloc(room + 1, sizeof *r->weights)};
    return r->values && r->classes && r->weights;
}

static void rows_add(rows *r, const pl_conv_choices *c, int64_t bytes,
                     const pl_measured_conv *item) {
    double tensors = (double)c->tensors, least = INFINITY, off = INFINITY;
    int32_t best = 0; /* of several as good, the nearest: a few bytes tell engines apart */
    for (int k = 0; k < PL_CONV_FORMULAS; k++) {
        double cost = pl_workspace_cost(&learning, c->bytes[k], bytes, tensors);
        double error = fabs((double)c->bytes[k] - (double)bytes);
        if (cost > least || (cost == least && error >= off)) continue;
        least = cost;
        off = error;
        best = k;
    }
    memcpy(r->values + r->count * PL_CONV_FEATURES, c->features, sizeof c->features);
    r->classes[r->count] = best;
    double common = (double)item->weight * (item->conv.tf32 ? 1 : 0.7); /* off: rare by default */
    r->weights[r->count++] =
        (float)(common * (0.1 + fmin(1, sqrt(tensors / (32 * PL_WORKSPACE_MIB)))));
}

/* Numbers the formulas that occur; of[class] is the formula. */
static size_t number_classes(rows *r, float of[PL_CONV_FORMULAS]) {
    int32_t number[PL_CONV_FORMULAS];
    size_t seen[PL_CONV_FORMULAS] = {0}, count = 0;
    for (size_t i = 0; i < r->count; i++) seen[r->classes[i]]++;
    for (int k = 0; k < PL_CONV_FORMULAS; k++) {
        number[k] = (int32_t)count;
        if (seen[k]) of[count++] = (float)k;
    }
    for (size_t i = 0; i < r->count; i++) r->classes[i] = number[r->classes[i]];
    return count;
}

static pl_status train_pass(pl_weights *weights, rows *r, int question,
                            const pl_trained_settings *settings, pl_error *err) {
    float formula[PL_CONV_FORMULAS];
    size_t classes = number_classes(r, formula);
    if (classes < 2)
        return pl_fail(err, PL_INPUT, NULL, -1,
                       "%zu measured convolutions are too few to learn workspaces from", r->count);
    pl_trained_settings own = *settings;
    own.target = pl_workspace_questions[question].target;
    own.learn.options = pl_workspace_questions[question].options;
    own.learn.valid = NULL;
    own.learn.progress = NULL;
    pl_samples samples = {.count = r->count,
                          .columns = PL_CONV_FEATURES,
                          .values = r->values,
                          .names = pl_workspace_conv_features,
                          .classes = r->classes,
                          .class_count = classes,
                          .weights = r->weights};
    pl_trained *part = NULL;
    pl_status status = pl_trained_train(&part, &pl_learner_forest, &samples, &own, err);
    if (status != PL_OK) return status;
    pl_trained_set_classes(part, formula);
    return pl_weights_add(weights, part) ? PL_OK
                                         : pl_fail(err, PL_INPUT, NULL, -1, "too many parts");
}

pl_status pl_workspace_forest_train(pl_weights *weights, const pl_convs *convs,
                                    const pl_conv_layer *apart, size_t apart_count,
                                    const pl_trained_settings *settings, pl_error *err) {
    rows asked[PL_WORKSPACE_QUESTIONS] = {{0}};
    pl_status status = PL_OK;
    for (int q = 0; q < PL_WORKSPACE_QUESTIONS; q++)
        if (!rows_open(&asked[q], convs->count)) status = no_memory(err);
    for (size_t i = 0; status == PL_OK && i < convs->count; i++) {
        const pl_measured_conv *item = &convs->items[i];
        if (pl_conv_layers_near(apart, apart_count, &item->conv)) continue;
        for (int p = 0; p < PL_CONV_PASSES; p++) {
            pl_conv_choices c;
            if (item->bytes[p] < 0 ||
                !pl_workspace_conv_choices(&item->conv, (pl_conv_pass)p, MEASURED_MAJOR,
                                           MEASURED_MINOR, &c))
                continue;
            rows_add(&asked[c.pass], &c, item->bytes[p], item);
            if (item->conv.benchmark && item->tried[p] >= 0)
                rows_add(&asked[PL_CONV_PASSES + c.pass], &c, item->tried[p], item);
        }
    }
    bool tried = true; /* all three, or the trees' */
    for (int q = PL_CONV_PASSES; q < PL_WORKSPACE_QUESTIONS; q++)
        tried &= asked[q].count >= LEAST_TRIED;
    for (int q = 0; status == PL_OK && q < (tried ? PL_WORKSPACE_QUESTIONS : PL_CONV_PASSES); q++)
        status = train_pass(weights, &asked[q], q, settings, err);
    for (int q = 0; q < PL_WORKSPACE_QUESTIONS; q++) rows_close(&asked[q]);
    return status;
}

pl_conv_layer *pl_workspace_chooser_layers(const pl_workspace_chooser *chooser, size_t *count) {
    pl_conv *convs = pl_workspace_chooser_convs(chooser, count);
    pl_conv_layer *layers = convs ? calloc(*count + 1, sizeof *layers) : NULL;
    for (size_t i = 0; layers && i < *count; i++) layers[i] = pl_conv_layer_of(&convs[i]);
    free(convs);
    return layers;
}
