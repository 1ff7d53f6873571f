/* weights: what a learned estimator has learnt: parts of a model file, one per target. */
#ifndef PL_ESTIMATE_WEIGHTS_H
#define PL_ESTIMATE_WEIGHTS_H

#include "learn/trained.h"

enum { PL_MOST_WEIGHTS = 16 }; /* parts */

struct pl_weights {
    pl_weights_info info; /* of the first part */
    pl_trained *parts[PL_MOST_WEIGHTS];
    size_t part_count;
    bool built_in;
    void *bytes; /* the file's, which the parts point into; NULL: they are not its own */
};

struct pl_estimator;

/* given, where it is the estimator's; NULL: the library's own, read once and kept. PL_USAGE where
 * there are none, or they are another's. */
pl_status pl_weights_for(const pl_weights **out, const struct pl_estimator *estimator,
                         const pl_weights *given, pl_error *err);
/* Parts one behind another, which point into the bytes. trusted: the library's own, which are not
 * checked (a test does so). name: for messages. */
pl_status pl_weights_read(pl_weights **out, const unsigned char *bytes, size_t size, bool trusted,
                          const char *name, pl_error *err);
/* The part that learnt target; NULL: none. */
const pl_trained *pl_weights_part(const pl_weights *weights, const char *target);

pl_weights *pl_weights_new(void); /* NULL: out of memory */
/* Takes the part, also on failure (too many). */
bool pl_weights_add(pl_weights *weights, pl_trained *part);

#endif
