/* trained_train: training with the samples scaled: a part of a model file out. */
#ifndef PL_LAB_TRAINED_TRAIN_H
#define PL_LAB_TRAINED_TRAIN_H

#include "lend.h"

/* Texts that are NULL are "". They are UTF-8 and not longer than the limits above. */
typedef struct pl_trained_settings {
    const char *estimator, *target, *command, *data;
    pl_learn_settings learn;
} pl_trained_settings;

/* Scales columns, channels and (regressions) the target as the learner wishes, the validation
 * samples with the same numbers, trains, and keeps what is needed to predict. A column that does
 * not vary is scaled to 0. Refuses with PL_INPUT: no samples, neither columns nor channels, values
 * that are not finite (with the column's name and the sample), a constant target, a class without
 * samples. */
pl_status pl_trained_train(
    pl_trained **out, const pl_learner *learner, const pl_samples *samples,
    const pl_trained_settings *settings,
    pl_error *
        err); /* Training leaves a classifier's classes 0, 1, 2 ...: values, [class_count], in their place. */
void pl_trained_set_classes(pl_trained *trained, const float *values);

#endif
