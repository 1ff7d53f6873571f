/* reading: how a model file is read: what it may cost, and what the caller chooses of it. */
#ifndef PL_IMPORT_READING_H
#define PL_IMPORT_READING_H

#include "core/budget.h"

typedef struct pl_reading {
    pl_budget *budget;            /* NULL: no limits */
    int depth_limit;              /* nesting of JSON and of subgraphs */
    bool map;                     /* files are mapped, not read: nobody cuts them short meanwhile */
    const char *task, *attention; /* of a config.json; NULL: as it says */
} pl_reading;

enum { PL_USUAL_DEPTH = 512 };

/* reading, or the usual where it is NULL. */
static inline pl_reading pl_reading_of(const pl_reading *reading) {
    return reading ? *reading : (pl_reading){.depth_limit = PL_USUAL_DEPTH};
}

#endif
