/* folds: which samples are kept apart. */
#ifndef PL_LAB_FOLDS_H
#define PL_LAB_FOLDS_H

#include "lend.h"

/* Samples of one group come into one fold, whole groups shuffled by the seed and dealt so that the
 * folds' sizes are near each other; group: [count] ids, NULL: each sample its own. strata: [count]
 * classes, NULL: none; with strata (and no groups) each fold has each class's share, as
 * scikit-learn's StratifiedKFold; with groups strata are not looked at. fold: [count], from 0.
 * PL_USAGE where there are fewer than 2 folds or fewer groups than folds. */
pl_status pl_folds_deal(uint32_t *fold, size_t count, size_t folds, const uint32_t *group,
                        const uint32_t *strata, uint64_t seed, pl_error *err);
/* Marks about `share` of the samples (whole groups) as held out: apart[i] is 1, else 0. At least
 * one sample lies on each side, else PL_USAGE. */
pl_status pl_folds_hold_out(uint8_t *apart, size_t count, double share, const uint32_t *group,
                            uint64_t seed, pl_error *err);

#endif
