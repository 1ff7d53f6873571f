/* curve: a picture of the losses of training, epoch by epoch. */
#ifndef CLI_CURVE_H
#define CLI_CURVE_H

#include <plimsoll/lab.h>

/* The points of a training, as they came; malloc'ed. */
typedef struct curve {
    pl_train_point *points;
    size_t count, capacity;
} curve;

void curve_add(curve *c, const pl_train_point *point);
/* The point with the least loss of validation, where there is none the last; of the first training
 * where several ran one after the other. NULL: no points. */
const pl_train_point *curve_best(const curve *c);
/* 0, or an exit code after complaining. */
int curve_write(const curve *c, const char *path, const char *estimator);
void curve_free(curve *c);

#endif
