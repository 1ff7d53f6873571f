/* times: the time of a step, summed along modules. */
#ifndef CLI_TIMES_H
#define CLI_TIMES_H

#include <stdio.h>

#include "modules.h"

/* Parts of a module's row: nanoseconds, counts. */
enum {
    TIME_DEVICE,
    TIME_HOST,
    TIME_FLOPS,
    TIME_BYTES,
    TIME_LAUNCHES,
    TIME_FORWARD,  /* of the row's size, what is spent in forward */
    TIME_BACKWARD, /* and in backward */
};

/* Whether the host's time is what shares are of: it is well above the card's. Near a tie the card's
 * says more. */
bool times_by_host(const pl_report *report);
/* Milliseconds on that side. */
double time_of(const pl_report *report, const pl_time *time);
/* Sizes are nanoseconds of time_of. */
module_tree times_tree(const pl_report *report, size_t rows);

/* The picture of it: a bar per module, below it those inside it. */
void icicle_draw(FILE *out, const pl_report *report, const pl_model_info *info, const pl_job *job);

#endif
