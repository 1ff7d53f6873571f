/* scatter: a picture of predicted against measured peaks. */
#ifndef CLI_SCATTER_H
#define CLI_SCATTER_H

#include <plimsoll/plimsoll.h>

/* 0, or an exit code after complaining. median: of the relative errors, for the caption. */
int scatter_write(const char *path, const pl_evaluation *evaluation, double median);

#endif
