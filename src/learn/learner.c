/* learner: the registry. A new learner is one row here, one declaration in learner.h and one file;
 * the order is that of tables and messages. */
#include "learn/learner.h"

#include <string.h>

static const pl_learner *const pl_learners[] = {
    &pl_learner_network,  &pl_learner_tree,      &pl_learner_forest,  &pl_learner_adaboost,
    &pl_learner_leafwise, &pl_learner_symmetric, &pl_learner_xgboost, &pl_learner_lightgbm,
};

enum { LEARNERS = sizeof pl_learners / sizeof *pl_learners };

const pl_learner *pl_learner_at(size_t index) {
    return index < LEARNERS ? pl_learners[index] : NULL;
}

const pl_learner *pl_learner_find(const char *name) {
    for (size_t i = 0; i < LEARNERS; i++)
        if (strcmp(pl_learners[i]->name, name) == 0) return pl_learners[i];
    return NULL;
}

void pl_learned_close(pl_learned **learned) {
    if (learned && *learned) (*learned)->learner->close(learned);
}
