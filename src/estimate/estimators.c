/* estimators: the registry. A new one is a file in estimators/ and a row here. */
#include <pthread.h>
#include <string.h>

#include "estimate/estimator.h"
#include "estimate/weights.h"

#define ROWS(X)                                                                                    \
    X(hybrid)                                                                                      \
    X(sim)                                                                                         \
    X(bigru_transformer) X(bigru_transformer_light) X(transformer_only) X(bigru_only)              \
        X(transformer_bigru) X(decision_tree) X(random_forest) X(adaboost) X(xgboost)              \
            X(extra_trees) X(catboost) X(lightgbm) X(lightgbm_library) X(gpumemnet_mlp)            \
                X(gpumemnet_transformer) X(gpumemnet_regression) X(horus) X(dnnmem) X(llmem)       \
                    X(zero) X(accelerate) X(faketensor)

#define X(name) extern const pl_estimator pl_estimator_##name;
ROWS(X)
#undef X

static const pl_estimator *const rows[] = {
#define X(name) &pl_estimator_##name,
    ROWS(X)
#undef X
};
enum { COUNT = sizeof rows / sizeof *rows };

const pl_estimator *pl_estimator_row(size_t index) {
    return index < COUNT ? rows[index] : NULL;
}

const pl_estimator *pl_estimator_named(const char *name) {
    for (size_t i = 0; name && i < COUNT; i++)
        if (strcmp(rows[i]->info.name, name) == 0) return rows[i];
    return NULL;
}

/* The rows' infos, with what the registry knows besides. */
static pl_estimator_info infos[COUNT];

static void fill_infos(void) {
    for (size_t i = 0; i < COUNT; i++) {
        infos[i] = rows[i]->info;
        infos[i].learns = rows[i]->method != NULL;
        infos[i].has_weights = pl_weights_built_in(infos[i].name);
    }
}

const pl_estimator_info *pl_estimator_at(size_t index) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_infos);
    return index < COUNT ? &infos[index] : NULL;
}

const pl_estimator_info *pl_estimator_find(const char *name) {
    for (size_t i = 0; name && i < COUNT; i++)
        if (strcmp(rows[i]->info.name, name) == 0) return pl_estimator_at(i);
    return NULL;
}

const char *pl_estimator_name(size_t index) {
    return index < COUNT ? rows[index]->info.name : NULL;
}
