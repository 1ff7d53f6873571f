/* samples: what is learnt from. Numbers per sample, and for some learners a sequence of steps. */
#ifndef PL_LEARN_SAMPLES_H
#define PL_LEARN_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* Nothing in it is owned by it. Values are finite: who makes samples refuses NaN and infinity. */
typedef struct pl_samples {
    size_t count;
    size_t columns;
    const float *values;      /* [count, columns] */
    const char *const *names; /* [columns] */

    size_t channels;     /* 0: no sequences */
    const float *steps;  /* [begin[count], channels] */
    const size_t *begin; /* [count + 1]: sample i's steps are begin[i] to begin[i + 1] */
    const char *const *channel_names; /* [channels] */

    /* What is to be learnt; NULL and 0 when only predicting. */
    const float *targets;   /* [count] */
    const int32_t *classes; /* [count], from 0; NULL: a regression */
    size_t class_count;     /* 0: a regression */
    /* [count, class_count], a row's sum is 1: how much of a sample belongs to each class. NULL:
     * all of it to its own. Learners that do not know shares learn from the classes. */
    const float *shares;
    const float *weights; /* [count], NULL: all 1 */
} pl_samples;

#endif
