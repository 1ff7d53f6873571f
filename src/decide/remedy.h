/* remedy: the changes that a search for what makes a job fit may make: axes, each with levels from
 * the mildest on. Level 0 is the job as given. */
#ifndef PL_DECIDE_REMEDY_H
#define PL_DECIDE_REMEDY_H

#include "core/arena.h"
#include "decide/search.h"

/* In the order of how much they change. What stands before PL_AXIS_WORLD needs no other hardware. */
enum {
    PL_AXIS_OPTIMIZER,
    PL_AXIS_CHECKPOINT,
    PL_AXIS_BATCH,
    PL_AXIS_PRECISION,
    PL_AXIS_SEQ,
    PL_AXIS_TRAIN,
    PL_AXIS_WORLD,
    PL_AXIS_GPU,
    PL_AXES,
};
enum { PL_MOST_LEVELS = 64 };

typedef struct pl_axis_level {
    int weight;       /* how much it changes: docs/c-api.md */
    int64_t number;   /* of batch, seq, world; of precision a pl_precision */
    const char *name; /* of the others */
} pl_axis_level;

typedef struct pl_axis {
    int count; /* levels behind 0 */
    pl_axis_level levels[PL_MOST_LEVELS + 1];
} pl_axis;

/* What can be changed of a job that was simulated with batch and seq (PL_UNKNOWN: not known) on a
 * card. false: out of memory. */
bool pl_axes_list(pl_axis axes[PL_AXES], const pl_model *model, const pl_job *job,
                  const pl_report *report, pl_arena *arena);

/* Puts a level of an axis into a job; batch: the job's as simulated. */
void pl_axis_apply(pl_job *job, int axis, const pl_axis_level *level, int64_t batch);

/* The members of the job that an axis sets, in turn, and their values as text; false: no more, or no
 * memory (*value is NULL). */
bool pl_axis_setting(const pl_job *changed, int axis, size_t index, const char **member,
                     const char **value, pl_arena *arena);

#endif
