/* learners: the laboratory's ways to learn, rows as in learner.h, each in a file of its own. */
#ifndef PL_LAB_LEARNERS_H
#define PL_LAB_LEARNERS_H

#include "lend.h"

extern const pl_learner pl_learner_tree;      /* one exact regression tree: single.c */
extern const pl_learner pl_learner_network;   /* neural networks: network.c */
extern const pl_learner pl_learner_adaboost;  /* AdaBoost.R2 */
extern const pl_learner pl_learner_symmetric; /* gradient boosting as CatBoost */
extern const pl_learner pl_learner_xgboost;   /* the real one, by its C API */
extern const pl_learner pl_learner_lightgbm;  /* the real one, where it is installed */

/* How the two are trained whose rows are the library's. */
pl_status pl_forest_train(pl_learned **out, const pl_samples *samples,
                          const pl_learn_settings *settings, pl_error *err);
pl_status pl_leafwise_train(pl_learned **out, const pl_samples *samples,
                            const pl_learn_settings *settings, pl_error *err);
/* learner_train.c: the row's own way to train, or that of these two. PL_USAGE: there is none. */
pl_status pl_learner_train(const pl_learner *learner, pl_learned **out, const pl_samples *samples,
                           const pl_learn_settings *settings, pl_error *err);

#endif
