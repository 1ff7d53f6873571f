/* rows: the laboratory's estimators and learners, and pl_lab_register, which adds them to the
 * library's. A new estimator is a file beside this one and a row here; a new learner a file in
 * lab/learn/ and a row here. The order is that of tables and messages. */
#include <string.h>

#include "lab/train/hybrid_learn.h"

#define ROWS(X)                                                                                    \
    X(bigru_transformer)                                                                           \
    X(bigru_transformer_light)                                                                     \
    X(transformer_only)                                                                            \
    X(bigru_only)                                                                                  \
    X(transformer_bigru)                                                                           \
    X(decision_tree)                                                                               \
    X(random_forest)                                                                               \
    X(adaboost)                                                                                    \
    X(xgboost)                                                                                     \
    X(extra_trees)                                                                                 \
    X(catboost)                                                                                    \
    X(lightgbm)                                                                                    \
    X(lightgbm_library)                                                                            \
    X(gpumemnet_mlp)                                                                               \
    X(gpumemnet_transformer)                                                                       \
    X(gpumemnet_regression)                                                                        \
    X(horus)                                                                                       \
    X(dnnmem)                                                                                      \
    X(llmem)                                                                                       \
    X(zero)                                                                                        \
    X(accelerate)                                                                                  \
    X(faketensor)

#define X(name) extern const pl_estimator pl_estimator_##name;
ROWS(X)
#undef X

static const pl_estimator *const estimators[] = {
#define X(name) &pl_estimator_##name,
    ROWS(X)
#undef X
};

static const pl_learner *const learners[] = {
    &pl_learner_network,   &pl_learner_tree,    &pl_learner_adaboost,
    &pl_learner_symmetric, &pl_learner_xgboost, &pl_learner_lightgbm,
};

void pl_lab_register(void) {
    static const pl_estimator_rows estimator_rows = {estimators,
                                                     sizeof estimators / sizeof *estimators};
    static const pl_learner_rows learner_rows = {learners, sizeof learners / sizeof *learners};
    pl_learners_add(&learner_rows); /* first: estimators stand on them */
    pl_estimators_add(&estimator_rows);
}

const pl_method *pl_method_of(const pl_estimator *estimator) {
    return strcmp(estimator->info.name, "hybrid") == 0 ? &pl_hybrid_method : estimator->method;
}
