/* collocate: slowdowns of more than two jobs on one card. */
#ifndef PL_DECIDE_COLLOCATE_H
#define PL_DECIDE_COLLOCATE_H

#include <plimsoll/plimsoll.h>

/* Slowdowns of all of them together, `count` of them from 1 on, and of their intervals: of two as pl_collocate has
 * them. Of up to PL_QUEUES_MOST (queues.h) the loops are followed together, and corrected as its pairs are in the mean (added up, corrections of MPS
 * would make a hundred of eight); of more, what each of the others costs is added up. Neither was measured. PL_USAGE and PL_INPUT as pl_collocate's. */
pl_status pl_collocate_all(pl_figure *slowdowns, const pl_demand *jobs, size_t count,
                           const pl_gpu *gpu, pl_sharing sharing, pl_error *err);

#endif
