/* demand: what collocation must know of a job, read from an estimate's JSON. */
#ifndef PL_DECIDE_DEMAND_H
#define PL_DECIDE_DEMAND_H

#include "core/error.h"

/* As pl_demand_open, of JSON in memory. name: for messages. out->size is set. */
pl_status pl_demand_read(pl_demand *out, const char *bytes, size_t size, const char *name,
                         pl_error *err);

#endif
